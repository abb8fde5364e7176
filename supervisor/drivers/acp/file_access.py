"""`fs/read_text_file` and `fs/write_text_file`, inside the workspace and within the permissions.

Reading requires a mode that allows reading. Writing asks for permission unless the mode or an
earlier answer allows it. An error contains the path and the reason, and nothing else about the
file.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

import trio

from supervisor.core.workspace_root import WorkspaceRoot
from supervisor.drivers.port import DriverContext
from supervisor.json_rpc.rpc_messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
)

from .content import as_integer, as_mapping
from .permissions import AskPermission, Grants, check_allowed
from .tool_reports import FILE_PREFIX, ToolReport, shorten_title
from .workspace import (
    FileTooLarge,
    NotRegularFile,
    OutsideWorkspace,
    Workspace,
    read_lines,
    write_file,
)

MAX_READ_BYTES: Final = 10 * 1024 * 1024
MAX_WRITE_BYTES: Final = 10 * 1024 * 1024
MAX_SKIPPED_BYTES: Final = 256 * 1024 * 1024
# Bound for a disk that does not answer; its thread is abandoned.
READ_SECONDS: Final = 30.0
_MAX_PATH_SHOWN: Final = 300

Result = TypeVar("Result")


class FileAccess:
    """The files of one session's workspace, for its agent."""

    def __init__(
        self,
        context: DriverContext,
        *,
        ask: AskPermission,
        grants: Grants,
        limiter: trio.CapacityLimiter,
        workspace_root: WorkspaceRoot | None = None,
    ) -> None:
        self._context = context
        self._ask = ask
        self._grants = grants
        # Limits the threads of this agent: a disk that hangs does not block other agents.
        self._limiter = limiter
        self._workspace_root = workspace_root

    async def read(self, params: object) -> dict[str, object]:
        """Serve `fs/read_text_file`; raise `RpcError` if the path or the permissions forbid it."""
        fields = as_mapping(params)
        path = _parse_path(fields)
        await check_allowed(
            self._context, self._ask, _file_report("read", "Read", path), granted=False
        )
        read = partial(
            _read,
            self._workspace(),
            path,
            first=max(1, _parse_count(fields, "line") or 1),
            count=_parse_count(fields, "limit"),
        )
        with trio.move_on_after(READ_SECONDS):
            content = await trio.to_thread.run_sync(
                _with_rpc_errors(read, path), limiter=self._limiter, abandon_on_cancel=True
            )
            return {"content": content}
        raise RpcError(
            INTERNAL_ERROR, f"{_shortened(path)} was not read within {READ_SECONDS:g} seconds"
        )

    async def write(self, params: object) -> dict[str, object]:
        """Serve `fs/write_text_file`; raise `RpcError` if the path or the permissions forbid it.

        If cancelled during the wait for permission, nothing is written; later, the whole file is.
        """
        fields = as_mapping(params)
        path = _parse_path(fields)
        data = _parse_content(fields)
        workspace = self._workspace()
        resolved = await trio.to_thread.run_sync(
            _with_rpc_errors(partial(workspace.resolve, path), path),
            limiter=self._limiter,
            abandon_on_cancel=True,
        )
        await check_allowed(
            self._context,
            self._ask,
            _file_report("edit", "Write", path),
            granted=self._grants.covers_write(resolved.path),
        )
        # Permission was asked for the resolved path, so that is written: a link that changed
        # since then is not followed.
        await trio.to_thread.run_sync(
            _with_rpc_errors(partial(write_file, resolved, data), path), limiter=self._limiter
        )
        return {}

    def _workspace(self) -> Workspace:
        workspace = Workspace.of(self._context, self._workspace_root)
        if workspace is None:
            raise RpcError(INVALID_PARAMS, "the session has no workspace")
        return workspace


def _read(workspace: Workspace, path: str, *, first: int, count: int | None) -> str:
    data = read_lines(
        workspace.resolve(path),
        first=first,
        count=count,
        max_bytes=MAX_READ_BYTES,
        max_skipped_bytes=MAX_SKIPPED_BYTES,
    )
    return data.decode(errors="replace")  # in the thread, because it may take long


def _file_report(kind: str, verb: str, path: str) -> ToolReport:
    name = shorten_title(f"{FILE_PREFIX} {verb.lower()} {path}")
    return ToolReport(
        name=name, title=f"{verb} {path}", kind=kind, input={"path": path}, paths=(path,)
    )


def _parse_path(params: Mapping[str, Any]) -> str:
    path = params.get("path")
    if not isinstance(path, str) or not path.startswith("/"):
        raise RpcError(INVALID_PARAMS, "path is not an absolute path")
    return path


def _parse_content(params: Mapping[str, Any]) -> bytes:
    content = params.get("content")
    if not isinstance(content, str):
        raise RpcError(INVALID_PARAMS, "content is not a string")
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise RpcError(INVALID_PARAMS, "content contains a lone surrogate") from None
    if len(data) > MAX_WRITE_BYTES:
        raise RpcError(INVALID_PARAMS, f"content has more than {MAX_WRITE_BYTES} bytes")
    return data


def _parse_count(params: Mapping[str, Any], name: str) -> int | None:
    value = params.get(name)
    if value is None:
        return None
    count = as_integer(value)
    if count is None:
        raise RpcError(INVALID_PARAMS, f"{name} is not a whole number")
    return count


def _with_rpc_errors(work: Callable[[], Result], path: str) -> Callable[[], Result]:
    """Wrap work so that its errors become `RpcError`s for the agent."""

    def checked() -> Result:
        try:
            return work()
        except (OutsideWorkspace, ValueError):
            problem = RpcError(INVALID_PARAMS, f"{_shortened(path)} is not in the workspace")
        except NotRegularFile:
            problem = RpcError(INVALID_PARAMS, f"{_shortened(path)} is not a regular file")
        except FileTooLarge:
            problem = RpcError(
                INVALID_PARAMS,
                f"{_shortened(path)} is too large: read it in parts, with line and limit",
            )
        except OSError as error:
            problem = _os_error(error, path)
        raise problem

    return checked


def _os_error(error: OSError, path: str) -> RpcError:
    if isinstance(error, FileNotFoundError):
        return RpcError(RESOURCE_NOT_FOUND, f"{_shortened(path)} does not exist")
    if error.errno in (errno.ELOOP, errno.ENOTDIR, errno.ENAMETOOLONG, errno.EISDIR):
        return RpcError(INVALID_PARAMS, f"{_shortened(path)} is not a regular file")
    if isinstance(error, PermissionError):
        return RpcError(INVALID_PARAMS, f"permission denied by the system for {_shortened(path)}")
    name = errno.errorcode.get(error.errno or 0, "an error")
    return RpcError(INTERNAL_ERROR, f"{_shortened(path)}: {name}")


def _shortened(path: str) -> str:
    return path if len(path) <= _MAX_PATH_SHOWN else f"{path[:_MAX_PATH_SHOWN]}..."
