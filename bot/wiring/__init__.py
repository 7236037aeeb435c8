"""Turn settings into a running process: the only room that sees adapters and detectors."""
