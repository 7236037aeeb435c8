"""Answer what to do next: another type, spot, a commitment, a size, a port."""
