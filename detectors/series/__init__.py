"""Score series of numbers of any kind, with no knowledge of nodes or bills."""
