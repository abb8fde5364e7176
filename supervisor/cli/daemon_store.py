"""The store of the daemon, for commands that open it themselves."""

from __future__ import annotations

from pathlib import Path

from supervisor.configuration import DaemonSettings
from supervisor.core.errors import ConfigError


def find_daemon_store(settings: DaemonSettings) -> str:
    """Return the path of the configured store.

    Raise ConfigError if the daemon that listens on the configured socket has another store: its
    socket may be configured without its state folder.
    """
    from supervisor.daemon.listeners import find_daemon  # noqa: PLC0415 - late, as its users are
    from supervisor.store.sqlite.lock import read_notes  # noqa: PLC0415 - as above

    daemon = find_daemon(settings.socket)
    if daemon is not None and read_notes(Path(settings.database)).pid != daemon.pid:
        raise ConfigError(
            f"the daemon at {settings.socket} does not use the store {settings.database}",
            hint="set daemon.state_folder too (UNDERSTUDY_DAEMON__STATE_FOLDER), or give --state",
        )
    return settings.database
