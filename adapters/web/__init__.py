"""Serve the console: aiohttp in, HTML out."""
