"""Say things once for every surface: a closed set of blocks, and one file per answer."""
