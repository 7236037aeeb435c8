"""Find anomalies in frames of metrics; nothing here knows of surfaces, sources or stores."""

from detectors.detector import Detector, compiles_since

__all__ = ["Detector", "compiles_since"]
