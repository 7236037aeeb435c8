"""Answer which nodes run and which stand still."""
