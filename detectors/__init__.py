"""Find anomalies in frames of metrics; nothing here knows of surfaces, sources or stores."""

from detectors.detector import Detector

__all__ = ["Detector"]
