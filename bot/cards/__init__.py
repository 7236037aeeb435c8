"""Draw cards once for every surface from a closed set of blocks."""
