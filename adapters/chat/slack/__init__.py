"""Speak with people on Slack: Block Kit, the Web API, Socket Mode or signed HTTP."""
