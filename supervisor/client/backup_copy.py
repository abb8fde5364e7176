"""Copies of the daemon's store, written by the caller: the daemon never writes to a named path.

The daemon makes a backup in its own folder; the client downloads it and deletes it there.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from supervisor.api.reports import BackupReport
from supervisor.core.errors import SupervisorError
from supervisor.store.new_file import NewFile, check_new_file, not_written_error

from .http_client import ConnectionBroken
from .running_loop import running_loop
from .stream import HttpStream
from .transport import SLOW_SECONDS, Transport

# Limit for the deletion in the daemon's folder, which is not interrupted by a cancellation.
_DELETE_SECONDS: Final = 5.0


async def copy_backup(transport: Transport, target: Path) -> int:
    """Write a backup of the daemon's store into a new file and return its size.

    Raise `ConfigError` if the file exists or cannot be written. The file is complete, or missing.
    """
    transport.refuse_if_closed()
    loop = running_loop()
    try:
        await loop.run_in_thread(check_new_file, target)
        new = await loop.run_in_thread(NewFile.create, target)
        try:
            size = await _fill(transport, new.draft)
            await loop.run_in_thread(new.finish)
        finally:
            new.close()
    except OSError as error:
        raise not_written_error(target, error) from error
    return size


async def _fill(transport: Transport, draft: Path) -> int:
    """Copy a new backup of the daemon into the file; return its size."""
    report = await transport.request(
        BackupReport, "POST", "v1/backup", {}, timeout_seconds=SLOW_SECONDS
    )
    path = f"v1/backups/{report.name}"
    try:
        stream = await transport.open_stream(path, {}, {})
        try:
            received = await _download(stream, draft)
        except ConnectionBroken:
            raise transport.lost_error("POST") from None
        finally:
            stream.close()
    finally:
        with running_loop().move_on_after(_DELETE_SECONDS, shield=True), suppress(SupervisorError):
            await transport.request_bytes("DELETE", path)
    if received != report.bytes:
        raise transport.lost_error("POST")
    return received


async def _download(stream: HttpStream, draft: Path) -> int:
    """Write the body of the response into the file; return its size."""
    loop = running_loop()
    size = 0
    file = await loop.run_in_thread(_open_for_writing, draft)
    try:
        while (chunk := await stream.receive()) is not None:
            size += await loop.run_in_thread(file.write, chunk)
    finally:
        file.close()
    return size


def _open_for_writing(draft: Path) -> BinaryIO:
    return draft.open("wb")
