"""Say what was spent: pure arithmetic on Decimal."""
