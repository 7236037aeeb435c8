"""Answer lines: a registry where a signature is the specification, and one file per family."""
