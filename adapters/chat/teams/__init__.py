"""Speak with people on Microsoft Teams: Adaptive Cards, the Bot Connector, an SDK behind a seam."""
