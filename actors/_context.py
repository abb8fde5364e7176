"""The services that all actors of one system share."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from ._direct import DirectDelivery
from ._errors import GaveUp
from ._message import Timeouts


@attrs.frozen(eq=False)
class SystemContext:
    """Nursery, ask time-outs, direct delivery, jitter and escalation of one actor system."""

    nursery: trio.Nursery
    timeouts: Timeouts
    direct: DirectDelivery
    jitter: Callable[[], float]
    escalate: Callable[[GaveUp], None]
