"""Find anomalies in frames of metrics; nothing here knows of surfaces, sources or stores."""

from detectors.detector import Detector, SharedDetector, compiles_since

__all__ = ["Detector", "SharedDetector", "compiles_since"]
