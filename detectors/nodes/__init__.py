"""Find waste and trouble of nodes, runs, volumes and reservations: one cause, or one family of causes, a file."""
