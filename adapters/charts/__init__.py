"""Draw charts: as SVG for pages, and as PNG of the same for chats."""
