"""Find money that leaves its usual: lines of the bill, commitments, budgets, and the provider's own findings."""
