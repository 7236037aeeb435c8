"""Read lines in plain words: each ends in a line of the grammar, or in a choice of three."""
