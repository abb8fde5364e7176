"""Metrics for Prometheus: counters of events as they happen, and a snapshot when scraped.

Nothing in here imports sessions or stores. `metrics` has the instruments and counts records,
`snapshot` shows the current state, `lag` measures the event loop. The daemon feeds it.
"""

from .lag import measure_lag
from .metrics import Metrics, RecordMeter
from .snapshot import MetricsSnapshot

__all__ = ["Metrics", "MetricsSnapshot", "RecordMeter", "measure_lag"]
