"""Answer what was spent."""
