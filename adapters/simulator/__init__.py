"""Turn a seed into a recording."""
