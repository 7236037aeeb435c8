"""Answer the cost of the same work on another instance type."""
