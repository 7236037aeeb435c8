"""Turn AWS responses into nouns, live or recorded."""
