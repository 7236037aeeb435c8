"""Answer what runs and what stands still."""
