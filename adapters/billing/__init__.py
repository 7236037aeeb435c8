"""Turn CUR and FOCUS exports, and Cost Explorer's answers, into spend with DuckDB."""
