"""Every operation there is, in the order of the document."""

from __future__ import annotations

from typing import Final

from supervisor.api.describing.operations import Operation

from . import commands, house, inputs, keeping, permissions, reading, sessions, streams

OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    one
    for module in (house, sessions, inputs, commands, reading, streams, permissions, keeping)
    for one in vars(module).values()
    if isinstance(one, Operation)
)
