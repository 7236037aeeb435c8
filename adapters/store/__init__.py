"""Keep state: SQLite embedded, PostgreSQL when outgrown, plain dicts for a backtest."""
