"""Read lines in plain words, English and German, as lines of the grammar."""
