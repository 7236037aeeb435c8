"""Read a typed line: its command, its arguments, who may ask, and when it is answered."""
