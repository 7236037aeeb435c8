"""Find waste and trouble of nodes, runs, volumes and reservations.

One cause, or one family of causes, a file.
"""
