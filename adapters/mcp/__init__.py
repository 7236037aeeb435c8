"""Serve programs by the Model Context Protocol: every command is a tool."""
