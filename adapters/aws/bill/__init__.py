"""Keep local copies of the bill: an export, its table in Athena, or Cost Explorer's answers."""
