"""Answer where spot capacity is cheapest for a job."""
