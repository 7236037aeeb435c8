"""Turn CUR and FOCUS exports into spend with DuckDB."""
