"""All operations, in the order of the OpenAPI document."""

from __future__ import annotations

from typing import Final

from supervisor.api.operation import Operation

from . import admin, backups, control, inputs, permission_requests, read, sessions, streams

OPERATIONS: Final[tuple[Operation, ...]] = tuple(
    one
    for module in (admin, backups, sessions, inputs, control, read, streams, permission_requests)
    for one in vars(module).values()
    if isinstance(one, Operation)
)
