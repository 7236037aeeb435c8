"""Spread work over processes."""
