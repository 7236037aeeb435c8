"""Answer how a number came about, and whether it is the same when it is made again."""
