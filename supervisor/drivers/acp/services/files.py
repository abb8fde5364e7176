"""`fs/read_text_file` and `fs/write_text_file`, inside the workspace and under the rights.

Reading needs a mode that lets read; writing asks a person unless the mode, or an answer that was
given before, allows it. An error says what is wrong with the request, and no more than the path.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import trio

from supervisor.drivers.acp.news.tools import FILE, ToolFacts, short
from supervisor.drivers.acp.reading import as_mapping, as_whole
from supervisor.drivers.acp.rpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
)
from supervisor.drivers.port import Office

from .asking import Ask, refuse_unless_allowed
from .grants import Grants
from .ground import Ground, OffLimits, Pin
from .opening import NotOrdinary, TooLarge, read_lines, write

MAX_READ_BYTES: Final = 10 * 1024 * 1024
MAX_WRITE_BYTES: Final = 10 * 1024 * 1024
MAX_SKIPPED_BYTES: Final = 256 * 1024 * 1024
# On a disk that does not answer; the thread is then left to itself.
READ_SECONDS: Final = 30.0
_SHOWN_LETTERS: Final = 300

Result = TypeVar("Result")


class Files:
    """The files of one session's workspace, for its agent."""

    def __init__(
        self,
        office: Office,
        *,
        ask: Ask,
        grants: Grants,
        limiter: trio.CapacityLimiter,
        pin: Pin | None = None,
    ) -> None:
        self._office = office
        self._ask = ask
        self._grants = grants
        # Threads of our own: a disk that hangs keeps nobody else waiting.
        self._limiter = limiter
        self._pin = pin

    async def read(self, params: object) -> dict[str, object]:
        """Serve `fs/read_text_file`; raises `RpcError`."""
        given = as_mapping(params)
        path = _path_in(given)
        await refuse_unless_allowed(
            self._office, self._ask, _facts("read", "Read", path), granted=False
        )
        look = partial(
            _read,
            self._ground(),
            path,
            first=max(1, _count(given, "line") or 1),
            count=_count(given, "limit"),
        )
        with trio.move_on_after(READ_SECONDS):
            content = await trio.to_thread.run_sync(
                _told(look, path), limiter=self._limiter, abandon_on_cancel=True
            )
            return {"content": content}
        raise RpcError(INTERNAL_ERROR, f"{_shown(path)} could not be read in time")

    async def write(self, params: object) -> dict[str, object]:
        """Serve `fs/write_text_file`; raises `RpcError`.

        Cancelled while it waits for an answer, nothing is done; later, it is done to the end.
        """
        given = as_mapping(params)
        path = _path_in(given)
        data = _content_in(given)
        ground = self._ground()
        place = await trio.to_thread.run_sync(
            _told(partial(ground.place, path), path), limiter=self._limiter, abandon_on_cancel=True
        )
        await refuse_unless_allowed(
            self._office,
            self._ask,
            _facts("edit", "Write", path),
            granted=self._grants.covers_write(place.path),
        )
        # Where it was resolved to is what was asked about: a link that has changed since then
        # leads nowhere.
        await trio.to_thread.run_sync(
            _told(partial(write, place, data), path), limiter=self._limiter
        )
        return {}

    def _ground(self) -> Ground:
        ground = Ground.of(self._office, self._pin)
        if ground is None:
            raise RpcError(INVALID_PARAMS, "there is no workspace here")
        return ground


def _read(ground: Ground, path: str, *, first: int, count: int | None) -> str:
    data = read_lines(
        ground.place(path),
        first=first,
        count=count,
        max_bytes=MAX_READ_BYTES,
        max_skipped_bytes=MAX_SKIPPED_BYTES,
    )
    return data.decode(errors="replace")  # here, for it may take long


def _facts(kind: str, verb: str, path: str) -> ToolFacts:
    name = short(f"{FILE} {verb.lower()} {path}")
    return ToolFacts(
        name=name, title=f"{verb} {path}", kind=kind, input={"path": path}, paths=(path,)
    )


def _path_in(given: Mapping[str, Any]) -> str:
    path = given.get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        raise RpcError(INVALID_PARAMS, "path is no absolute path")
    return path


def _content_in(given: Mapping[str, Any]) -> bytes:
    content = given.get("content")
    if not isinstance(content, str):
        raise RpcError(INVALID_PARAMS, "content is no text")
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise RpcError(INVALID_PARAMS, "content has half of a character in it") from None
    if len(data) > MAX_WRITE_BYTES:
        raise RpcError(INVALID_PARAMS, f"content has more than {MAX_WRITE_BYTES} bytes")
    return data


def _count(given: Mapping[str, Any], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    count = as_whole(value)
    if count is None:
        raise RpcError(INVALID_PARAMS, f"{name} is no whole number")
    return count


def _told(work: Callable[[], Result], path: str) -> Callable[[], Result]:
    """The same work, but what goes wrong in it is said in words for an agent."""

    def told() -> Result:
        try:
            return work()
        except (OffLimits, ValueError):
            problem = RpcError(INVALID_PARAMS, f"{_shown(path)} is not in the workspace")
        except NotOrdinary:
            problem = RpcError(INVALID_PARAMS, f"{_shown(path)} is no ordinary file")
        except TooLarge:
            problem = RpcError(
                INVALID_PARAMS,
                f"{_shown(path)} is too large: read it in parts, with line and limit",
            )
        except OSError as error:
            problem = _problem_of(error, path)
        raise problem

    return told


def _problem_of(error: OSError, path: str) -> RpcError:
    if isinstance(error, FileNotFoundError):
        return RpcError(RESOURCE_NOT_FOUND, f"there is no {_shown(path)}")
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR):
        return RpcError(INVALID_PARAMS, f"{_shown(path)} is no ordinary file")
    if isinstance(error, PermissionError):
        return RpcError(INVALID_PARAMS, f"the system does not allow it for {_shown(path)}")
    name = errno.errorcode.get(error.errno or 0, "an error")
    return RpcError(INTERNAL_ERROR, f"{_shown(path)}: {name}")


def _shown(path: str) -> str:
    return path if len(path) <= _SHOWN_LETTERS else f"{path[:_SHOWN_LETTERS]}..."
