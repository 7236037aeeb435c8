"""Hold everything outside: one SDK a folder, no adapter imports another."""
