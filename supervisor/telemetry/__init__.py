"""Metrics for Prometheus: counters of events as they happen, and a snapshot when scraped.

This package imports neither sessions nor stores; the daemon passes it the data. `metrics` defines
the metrics, counts records, reads the current state, and measures the lag of the event loop.
"""

from .metrics import Metrics, MetricsSnapshot, RecordMeter, measure_lag

__all__ = ["Metrics", "MetricsSnapshot", "RecordMeter", "measure_lag"]
