"""Answer the cost of training runs by unit, and compare two of them."""
