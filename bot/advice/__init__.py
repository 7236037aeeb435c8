"""Say what to do next: pure functions on specs, prices and measured use."""
