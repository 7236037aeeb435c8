"""Turn frames of metrics into anomalies with a cause."""
