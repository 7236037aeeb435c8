"""Work out costs: arithmetic on Decimal, asked of ports where it needs prices or readings."""
