"""The workspace of a session: checked paths, and file access that cannot leave the workspace.

Rule 1: a path is checked after all its links are resolved; only the result counts.
Rule 2: a check may be outdated when the file is opened. So a file is opened from the workspace's
        own descriptor, one name after the other, and no name may be a link: a resolved path has
        none, so a link that is found was put there since.
Rule 3: only regular files are opened; opening a pipe without a writer would block for ever.
Rule 4: these functions block, so they run in a thread. Opening raises `OSError`, `FileTooLarge` or
        `NotRegularFile`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import BinaryIO, Final, Self
from urllib.parse import unquote, urlsplit

import attrs

from supervisor.core.workspace_root import WorkspaceRoot, is_inside
from supervisor.drivers.port import DriverContext

_MAX_PATH_LETTERS: Final = 4096


class OutsideWorkspace(Exception):
    """The path leads out of the workspace, or is not a valid path."""


@attrs.frozen
class ResolvedPath:
    """A path in the workspace, without links when it was resolved: `parts` lie below `root`."""

    root: str
    parts: tuple[str, ...]
    workspace_root: WorkspaceRoot | None = None

    @property
    def path(self) -> str:
        """The whole path."""
        return os.path.join(self.root, *self.parts)  # noqa: PTH118 - paths are str here


@attrs.frozen
class Workspace:
    """A workspace; with `paths`, only these parts of it may be used."""

    workspace: str
    paths: frozenset[str] | None = None
    workspace_root: WorkspaceRoot | None = None

    @classmethod
    def of(cls, context: DriverContext, workspace_root: WorkspaceRoot | None = None) -> Self | None:
        """Return the session's workspace, or None.

        The session may have no workspace, or no permission to any part of it.
        """
        paths = context.permissions.workspace_paths
        if context.workspace is None or (paths is not None and not paths):
            return None
        return cls(context.workspace, paths, workspace_root)

    def resolve(self, path: str) -> ResolvedPath:
        """Resolve an absolute path; raise `OutsideWorkspace` if it leads out of the workspace."""
        if not _is_valid_path(path) or not path.startswith("/"):
            raise OutsideWorkspace
        root = (
            os.path.realpath(self.workspace)
            if self.workspace_root is None
            else self.workspace_root.path
        )
        if self.workspace_root is not None and not _is_same_folder(
            self.workspace_root,
            os.stat(root),  # noqa: PTH116 - paths are str here
        ):
            raise OutsideWorkspace
        real = os.path.realpath(path)
        if not is_inside(real, root):
            raise OutsideWorkspace
        if self.paths is not None and not any(
            is_inside(real, os.path.realpath(self._absolute(allowed))) for allowed in self.paths
        ):
            raise OutsideWorkspace
        return ResolvedPath(root, PurePosixPath(real).relative_to(root).parts, self.workspace_root)

    def resolve_tool_path(self, path: str) -> ResolvedPath:
        """Resolve a path as tools report it: relative to the workspace, or a `file:` URI.

        A path that starts with ~ is in a home directory, and so counts as outside.
        """
        return self.resolve(self._absolute(_path_from_uri(path)))

    def _absolute(self, path: str) -> str:
        return os.path.join(self.workspace, path)  # noqa: PTH118 - paths are str here


def _is_valid_path(path: str) -> bool:
    return 0 < len(path) <= _MAX_PATH_LETTERS and "\0" not in path and not path.startswith("~")


def _path_from_uri(text: str) -> str:
    if not _is_valid_path(text):
        raise OutsideWorkspace
    if not text.startswith("file:"):
        return text
    try:
        address = urlsplit(text)
    except ValueError:
        raise OutsideWorkspace from None
    if address.netloc not in ("", "localhost"):
        raise OutsideWorkspace
    return unquote(address.path)


def _is_same_folder(root: WorkspaceRoot, found: os.stat_result) -> bool:
    return (found.st_dev, found.st_ino) == root.identity


_FOLDER_FLAGS: Final = (
    getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
)
# O_NONBLOCK: opening a pipe must not wait for its other end.
_FILE_FLAGS: Final = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

_CHUNK_BYTES: Final = 65536


class FileTooLarge(Exception):
    """The file has more bytes than may be read."""


class NotRegularFile(Exception):
    """The path is a folder, a pipe, a device or a link."""


def read_lines(
    path: ResolvedPath, *, first: int, count: int | None, max_bytes: int, max_skipped_bytes: int
) -> bytes:
    """Return `count` lines from line `first` (from 1), unchanged; without `count`, all the rest.

    Raise `FileTooLarge` if they have more than `max_bytes`, or if more than `max_skipped_bytes`
    precede them.
    """
    with _open_parent(path) as (folder, name):
        # Also checked before opening, because opening some devices has an effect.
        _check_regular(os.stat(name, dir_fd=folder, follow_symlinks=False))
        descriptor = os.open(name, os.O_RDONLY | _FILE_FLAGS, dir_fd=folder)
    with os.fdopen(descriptor, "rb", buffering=_CHUNK_BYTES) as file:
        _check_regular(os.fstat(descriptor))
        _skip_lines(file, first - 1, max_skipped_bytes)
        if count is None:
            found = file.read(max_bytes + 1)
        else:
            found = b"".join(_read_lines(file, count, max_bytes))
    if len(found) > max_bytes:
        raise FileTooLarge
    return found


def _skip_lines(file: BinaryIO, count: int, max_bytes: int) -> None:
    left = max_bytes
    while count > 0:
        line = file.readline(min(left, _CHUNK_BYTES) + 1)
        if not line:
            return
        left -= len(line)
        if left < 0:
            raise FileTooLarge
        count -= line.endswith(b"\n")


def _read_lines(file: BinaryIO, count: int, max_bytes: int) -> Iterator[bytes]:
    left = max_bytes
    while count > 0 and left >= 0:
        line = file.readline(left + 1)
        if not line:
            return
        left -= len(line)
        count -= 1
        yield line


def write_file(path: ResolvedPath, data: bytes) -> None:
    """Replace the content of the file; create it and missing folders.

    The file is replaced atomically where that keeps its attributes. A file with another owner or
    several links, or in a folder that is not writable, is overwritten in place.
    """
    with _open_parent(path, make=True) as (folder, name):
        before = _stat_or_none(folder, name)
        if before is not None:
            _check_regular(before)
            if not os.access(name, os.W_OK, dir_fd=folder):
                raise PermissionError
        if before is None or (before.st_nlink == 1 and before.st_uid == os.geteuid()):
            with contextlib.suppress(PermissionError):
                _replace(folder, name, data, before)
                return
        _overwrite(folder, name, data)


def _replace(folder: int, name: str, data: bytes, before: os.stat_result | None) -> None:
    draft = f".understudy-{secrets.token_hex(8)}"
    descriptor = os.open(
        draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FILE_FLAGS, 0o666, dir_fd=folder
    )
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            if before is not None:
                os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
        os.replace(draft, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(draft, dir_fd=folder)
        raise


def _overwrite(folder: int, name: str, data: bytes) -> None:
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | _FILE_FLAGS, 0o666, dir_fd=folder)
    with os.fdopen(descriptor, "wb") as file:
        _check_regular(os.fstat(descriptor))
        os.ftruncate(descriptor, 0)
        file.write(data)


def _stat_or_none(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _check_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotRegularFile


@contextlib.contextmanager
def _open_parent(path: ResolvedPath, *, make: bool = False) -> Iterator[tuple[int, str]]:
    """Open the parent folder; yield its descriptor and the file's name."""
    if not path.parts:
        raise NotRegularFile
    with _open_folder(path, path.parts[:-1], make=make) as folder:
        yield folder, path.parts[-1]


def folder_identity(path: ResolvedPath) -> tuple[int, int]:
    """Return device and inode of a folder in the workspace, opened without following links."""
    with _open_folder(path, path.parts) as folder:
        found = os.fstat(folder)
        return found.st_dev, found.st_ino


@contextlib.contextmanager
def _open_folder(
    path: ResolvedPath, names: tuple[str, ...], *, make: bool = False
) -> Iterator[int]:
    """Yield the descriptor of the folder that these names lead to from the workspace."""
    folder = os.open(path.root, _FOLDER_FLAGS)
    try:
        if path.workspace_root is not None and not _is_same_folder(
            path.workspace_root, os.fstat(folder)
        ):
            raise NotRegularFile
        for name in names:
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, dir_fd=folder)
            inner = os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(folder)
            folder = inner
        yield folder
    finally:
        os.close(folder)
