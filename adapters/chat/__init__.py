"""Speak with people on Slack and Microsoft Teams: what both do, and a transport for each."""
