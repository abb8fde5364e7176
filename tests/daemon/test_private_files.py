"""Private folders, the socket and the token."""

import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from supervisor import ConfigError, StoreLocked
from supervisor.configuration.private_files import read_token
from supervisor.daemon.folders import make_folder
from supervisor.daemon.listeners import find_daemon, hold_socket_lock, tcp_listener
from supervisor.daemon.token import ensure_token
from supervisor.http_server.unix_listener import unix_listener


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_created_folder_is_private(folder: Path) -> None:
    make_folder(folder / "a" / "b", others="nothing")

    assert (mode(folder / "a"), mode(folder / "a" / "b")) == (0o700, 0o700)


@pytest.mark.parametrize(
    ("others", "bits"), [("nothing", 0o755), ("nothing", 0o710), ("look", 0o770)]
)
def test_a_folder_open_to_other_users_is_refused(folder: Path, others: str, bits: int) -> None:
    (folder / "open").mkdir()
    (folder / "open").chmod(bits)

    with pytest.raises(ConfigError, match="accessible to other users") as refusal:
        make_folder(folder / "open", others=others)  # type: ignore[arg-type] # one of two words

    assert refusal.value.hint == f"chmod 700 {folder}/open"


def test_the_mode_of_a_shared_folder_is_never_to_be_changed(folder: Path) -> None:
    """A chmod of /tmp would lock out all other users."""
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)

    with pytest.raises(ConfigError, match="accessible to other users") as refusal:
        make_folder(folder / "tmp", others="nothing")

    assert refusal.value.hint == "use a folder of its own with mode 700"


def test_a_state_folder_may_be_readable_by_other_users(folder: Path) -> None:
    (folder / "state").mkdir()
    (folder / "state").chmod(0o755)

    make_folder(folder / "state", others="look")


def test_a_file_in_place_of_a_folder_is_refused(folder: Path) -> None:
    (folder / "file").touch()

    with pytest.raises(ConfigError, match=r"not a directory|cannot create"):
        make_folder(folder / "file", others="nothing")


def test_a_token_is_created_once(folder: Path) -> None:
    made = ensure_token(folder / "token")

    assert ensure_token(folder / "token") == made == read_token(folder / "token")
    assert len(made) >= 43  # 256 bits
    assert mode(folder / "token") == 0o600
    assert os.listdir(folder) == ["token"]  # noqa: PTH208 - names


def test_an_existing_token_needs_no_room_on_the_disk(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ensure_token(folder / "token")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)

    assert ensure_token(folder / "token") == made
    with pytest.raises(ConfigError, match="No space left") as refusal:
        ensure_token(folder / "other")
    assert refusal.value.hint == "free some space on its disk"


def test_a_token_readable_by_other_users_is_refused(folder: Path) -> None:
    ensure_token(folder / "token")
    (folder / "token").chmod(0o644)

    with pytest.raises(ConfigError, match="accessible to other users"):
        ensure_token(folder / "token")


def test_a_symlink_to_a_token_is_refused(folder: Path) -> None:
    ensure_token(folder / "real")
    (folder / "token").symlink_to(folder / "real")

    with pytest.raises(ConfigError, match="cannot use the token"):
        read_token(folder / "token")


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 50, b"has spaces in it " * 4])
def test_an_invalid_token_is_refused(folder: Path, content: bytes) -> None:
    path = folder / "token"
    path.write_bytes(content)
    path.chmod(0o600)

    with pytest.raises(ConfigError, match="does not contain a token"):
        read_token(path)


def test_a_folder_in_place_of_a_token_is_refused(folder: Path) -> None:
    (folder / "token").mkdir(mode=0o700)

    with pytest.raises(ConfigError, match="cannot use the token"):
        read_token(folder / "token")


def test_the_error_for_a_missing_token_has_a_hint(folder: Path) -> None:
    with pytest.raises(ConfigError) as refusal:
        read_token(folder / "token")

    assert "--tcp" in refusal.value.hint


def test_a_socket_is_private_and_removed_after_the_block(folder: Path) -> None:
    before = os.umask(0)
    try:
        with unix_listener(folder / "s"):
            assert mode(folder / "s") == 0o600
    finally:
        os.umask(before)

    assert not (folder / "s").exists()


def test_a_stale_socket_is_replaced(folder: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(folder / "s"))
    dead.close()

    with unix_listener(folder / "s"), socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "s"))


def test_a_socket_in_use_is_refused_with_the_pid(folder: Path) -> None:
    with (
        unix_listener(folder / "s"),
        pytest.raises(StoreLocked, match=f"process {os.getpid()} listens"),
        unix_listener(folder / "s"),
    ):
        pass

    assert not (folder / "s").exists()


def test_a_file_at_the_socket_path_is_not_removed(folder: Path) -> None:
    (folder / "s").write_text("precious")

    with pytest.raises(ConfigError, match="is not a socket"), unix_listener(folder / "s"):
        pass

    assert (folder / "s").read_text() == "precious"


def test_a_replaced_socket_is_not_removed(folder: Path) -> None:
    with unix_listener(folder / "s"):
        (folder / "s").unlink()
        (folder / "s").write_text("somebody else's")

    assert (folder / "s").exists()


def test_only_one_process_holds_the_socket_lock(folder: Path) -> None:
    with (
        hold_socket_lock(folder / "s"),
        pytest.raises(StoreLocked, match=rf"a daemon already runs \(process {os.getpid()}\)"),
        hold_socket_lock(folder / "s"),
    ):
        pass


def test_the_daemon_is_found_by_its_socket(folder: Path) -> None:
    assert find_daemon(folder / "s") is None
    with hold_socket_lock(folder / "s"):
        assert find_daemon(folder / "s") is None  # it does not listen yet
        with unix_listener(folder / "s"):
            found = find_daemon(folder / "s")

    assert found is not None
    assert found.pid == os.getpid()
    assert found.since is not None
    assert find_daemon(folder / "s") is None


def test_a_port_in_use_is_refused() -> None:
    with tcp_listener(0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"

        with pytest.raises(ConfigError, match=f"port {port}"), tcp_listener(port):
            pass


@pytest.mark.parametrize("fault", ["file", "loop", "descriptors"])
def test_a_socket_that_cannot_be_made_is_a_configuration_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """The daemon makes it again while it runs, and reports these errors."""

    def none_left(*_: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    if fault == "file":
        (folder / "run").touch()
    elif fault == "loop":
        (folder / "run").symlink_to(folder / "run")
    else:
        (folder / "run").mkdir()
        monkeypatch.setattr(socket, "socket", none_left)

    with (
        pytest.raises(ConfigError, match="cannot create the socket"),
        unix_listener(folder / "run" / "s"),
    ):
        pass
