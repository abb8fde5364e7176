"""How often a caller may call: a bucket of tokens for each, filled by the clock of the loop."""

from __future__ import annotations

from typing import Final

import attrs
import trio

CALLS_PER_SECOND: Final = 20
# Callers whose buckets are remembered; those that are full again are forgotten first.
_MAX_CALLERS: Final = 1_000


@attrs.define
class _Bucket:
    tokens: float
    filled_at: float
    # Calls refused since the last one that was not.
    refused: int = 0


class CallRate:
    """The buckets of all callers: each has CALLS_PER_SECOND tokens and gains as many a second."""

    def __init__(self) -> None:
        self._buckets: dict[str, _Bucket] = {}

    def take(self, caller: str) -> float | None:
        """Take a token; return None, or the seconds until there is one."""
        now = trio.current_time()
        bucket = self._buckets.get(caller)
        if bucket is None:
            self._forget_full(now)
            bucket = self._buckets[caller] = _Bucket(CALLS_PER_SECOND, now)
        gained = (now - bucket.filled_at) * CALLS_PER_SECOND
        bucket.tokens = min(CALLS_PER_SECOND, bucket.tokens + gained)
        bucket.filled_at = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            return None
        bucket.refused += 1
        return (1 - bucket.tokens) / CALLS_PER_SECOND

    def take_refused(self, caller: str) -> int:
        """Return how many calls were refused since this was last asked."""
        bucket = self._buckets.get(caller)
        if bucket is None:
            return 0
        refused, bucket.refused = bucket.refused, 0
        return refused

    def _forget_full(self, now: float) -> None:
        if len(self._buckets) >= _MAX_CALLERS:
            self._buckets = {
                caller: bucket
                for caller, bucket in self._buckets.items()
                if bucket.refused or now - bucket.filled_at < 1.0
            }
