"""Draw charts as PNG with matplotlib."""
