"""Draw cards in a terminal."""
