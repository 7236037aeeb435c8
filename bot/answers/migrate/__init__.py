"""Answer what the same work would cost on another instance type."""
