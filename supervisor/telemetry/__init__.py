"""Metrics for Prometheus: counters of events as they happen, and a snapshot when scraped.

Nothing in here imports sessions or stores. `metrics` has the instruments and counts records,
`snapshot` shows the current state, `lag` measures the event loop. The daemon feeds it.
"""

from .metrics import Metrics, MetricsSnapshot, RecordMeter, measure_lag

__all__ = ["Metrics", "MetricsSnapshot", "RecordMeter", "measure_lag"]
