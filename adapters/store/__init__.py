"""Keep state in SQLite or PostgreSQL through SQLAlchemy."""
