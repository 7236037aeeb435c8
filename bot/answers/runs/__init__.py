"""Answer what training runs cost a unit, and compare two of them."""
