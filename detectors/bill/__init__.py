"""Find money that leaves its usual.

Lines of the bill, commitments, budgets, and the provider's own findings.
"""
