"""Backups in the daemon's own folder: create, list, download and delete them."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final, TypeVar

import trio
from starlette.types import Receive, Scope, Send

from supervisor.api.backup_folder import NAME_PATTERN, BackupFolder, check_backup_name
from supervisor.api.operation import NotFound, StreamResponse, operation
from supervisor.api.params import Constraint, OperationCall, Param, Params
from supervisor.api.reports import BackupReport
from supervisor.core.errors import ConfigError, StoreDegraded
from supervisor.handles.shapes import Page
from supervisor.http_server.problems import RequestRefused
from supervisor.http_server.response import SAFE_HEADERS

T = TypeVar("T")

MEDIA_TYPE: Final = "application/vnd.sqlite3"
WRITE_SECONDS: Final = 30.0
_CHUNK_BYTES: Final = 256 * 1024

_NAME: Final = Constraint(check_backup_name, {"pattern": f"^{NAME_PATTERN}$"}, only_here=True)


@operation(
    "POST",
    "/v1/backup",
    Params((Param("path", str | None, None, _NAME),)),
    raises=(ConfigError, StoreDegraded),
)
async def backup(call: OperationCall) -> BackupReport:
    """Copy the store into a new file in the daemon's backup folder, while it is in use.

    `path` is a plain file name; without it a name is generated. `GET /v1/backups/{name}` returns
    the file, and `understudy backup PATH` copies it to another place as the user who calls it.
    """
    folder = _folder(call)
    path = await trio.to_thread.run_sync(folder.new_path, call.arguments.get("path"))
    await call.sup.backup(path)
    return await trio.to_thread.run_sync(folder.report, path.name)


@operation("GET", "/v1/backups")
async def list_backups(call: OperationCall) -> Page[BackupReport]:
    """Return the backups in the daemon's backup folder, the oldest first."""
    return Page(tuple(await trio.to_thread.run_sync(_folder(call).list)), None)


@operation(
    "GET",
    "/v1/backups/{name}",
    other_media_types={MEDIA_TYPE: "a SQLite database"},
)
async def read_backup(call: OperationCall) -> StreamResponse:
    """Return a backup: a SQLite database that `understudy restore` accepts."""
    return FileStream(await _on_backup(call, BackupFolder.open), MEDIA_TYPE)


@operation("DELETE", "/v1/backups/{name}", status=204)
async def delete_backup(call: OperationCall) -> None:
    """Delete a backup from the daemon's backup folder."""
    await _on_backup(call, BackupFolder.delete)


async def _on_backup(call: OperationCall, do: Callable[[BackupFolder, str], T]) -> T:
    """Return the result of a method on the backup in the path; raise NotFound."""
    name = call.path_ids["name"]
    try:
        return await trio.to_thread.run_sync(do, _folder(call), name)
    except FileNotFoundError:
        raise NotFound(
            ConfigError(f"there is no backup {name}", hint="GET /v1/backups lists them")
        ) from None


def _folder(call: OperationCall) -> BackupFolder:
    if call.context.backups is None:
        raise RequestRefused(
            "no_such_route",
            "this server has no backup folder",
            hint="run the server with `understudy serve`",
        )
    return call.context.backups


class FileStream(StreamResponse):
    """An open file as a streamed answer with a length; the file is closed afterwards."""

    def __init__(self, file: BinaryIO, media_type: str) -> None:
        self._file = file
        self._media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002
        """Send the file; drop a reader that takes nothing for `WRITE_SECONDS`."""
        with self._file:
            left = os.fstat(self._file.fileno()).st_size
            headers = [
                *SAFE_HEADERS,
                (b"content-type", self._media_type.encode()),
                (b"content-length", b"%d" % left),
            ]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            is_head = scope["method"] == "HEAD"
            with suppress(*_READER_LOST):
                while left and not is_head:
                    size = min(left, _CHUNK_BYTES)
                    chunk = await trio.to_thread.run_sync(self._file.read, size)
                    if not chunk:  # cut while it was sent: the client sees that the rest is missing
                        return
                    left -= len(chunk)
                    with trio.fail_after(WRITE_SECONDS):
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b"", "more_body": False})


_READER_LOST: Final = (
    OSError,
    trio.TooSlowError,
    trio.BrokenResourceError,
    trio.ClosedResourceError,
)
