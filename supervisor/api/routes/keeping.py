"""What is kept: copied, cleared up, brought in; and how the house is left."""

from __future__ import annotations

from supervisor.api.describing.forms import form_of
from supervisor.api.describing.operations import Call, operation
from supervisor.api.wire.answers import BackupReport
from supervisor.core.errors import (
    AgentUnknown,
    ConfigError,
    ImportFailed,
    SpawnRefused,
    StoreDegraded,
)
from supervisor.core.info import Info
from supervisor.sessions.library.cleaning import CleanupReport
from supervisor.sessions.surface.supervisor import Supervisor


@operation(
    "POST",
    "/v1/backup",
    form_of(Supervisor.backup, kinds={"path": str}),
    raises=(ConfigError, StoreDegraded),
)
async def backup(call: Call) -> BackupReport:
    """Copy the whole store into a new file of the server's, while it is in use."""
    path: str = call.given["path"]
    return BackupReport(path, await call.sup.backup(path))


@operation("POST", "/v1/cleanup", form_of(Supervisor.cleanup), raises=(ConfigError, StoreDegraded))
async def cleanup(call: Call) -> CleanupReport:
    """Delete trees in which all are stopped: old ones, too many, or too large in all."""
    return await call.sup.cleanup(**call.given)


@operation(
    "POST",
    "/v1/import",
    form_of(Supervisor.import_, kinds={"path": str}),
    status=201,
    raises=(AgentUnknown, ConfigError, ImportFailed, SpawnRefused, StoreDegraded),
)
async def import_(call: Call) -> Info:
    """Make a session of a file of the server's."""
    session = await call.sup.import_(**call.given)
    return await session.info()


@operation("POST", "/v1/drain", status=204)
async def drain(call: Call) -> None:
    """Refuse new work, let turns end within a bound, interrupt the rest, and rest.

    Nothing new is taken until the process is started again.
    """
    call.context.doors.drain()
    await call.sup.drain()
