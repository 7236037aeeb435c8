"""Watch: one tick, one pure step a file, and all that follows from it."""
