"""Hold one file a step, numbered in order."""
