"""Judge by rules: one cause a file, each with a threshold, a unit and words."""
