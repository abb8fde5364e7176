"""Figures for Prometheus: what has happened, counted as it happens, and how it is when asked.

Nothing in here knows sessions or stores. `counting` has the instruments, `records` makes figures of
what records say, `picture` shows how things are now, `lag` measures the loop. Whoever runs the
supervisor feeds it.
"""

from .counting import Metrics
from .lag import measure_lag
from .picture import Picture
from .records import RecordMeter

__all__ = ["Metrics", "Picture", "RecordMeter", "measure_lag"]
