"""Carry an anomaly to a notice, one pure step a file: track, value, mute, group, news."""
