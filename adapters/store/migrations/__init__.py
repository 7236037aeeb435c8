"""Change the tables step by step; a released step is never edited."""
