"""Daemons of other hosts: the list of hosts, and a fake ssh that forwards on this machine."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor.cli.host_file import Host
from supervisor.core.errors import ConfigError
from tests.support import fake_ssh
from tests.support.cli_runner import Caller, in_a_process
from tests.support.daemon_in_process import Home
from tests.support.daemon_process import daemon, free_port


@pytest.fixture
def ssh_calls(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the fake ssh on the PATH; return the file of its calls."""
    fake_ssh.install(home / "bin")
    monkeypatch.setenv("PATH", f"{home / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SSH_CALLS", str(home / "calls"))
    return home / "calls"


@pytest.fixture
def far() -> Iterator[Home]:
    """Yield the home of a daemon that is not the configured one of this machine."""
    folder = Path(os.environ["XDG_RUNTIME_DIR"]) / "far"
    folder.mkdir(mode=0o700)
    with daemon(Home(folder), "--tcp", str(free_port())):
        yield Home(folder)


def hosts_file(home: Path) -> Path:
    return home / ".config/understudy/hosts.toml"


def test_hosts_are_added_listed_and_removed(home: Path, call: Caller) -> None:
    call("hosts", "add", "build", "anna@build", "--socket", "/run/u.sock")
    call("hosts", "add", "build", "anna@other")
    call("hosts", "add", "tunnel", "--tcp", "8765", "--token-file", "~/token")

    listed = call("hosts", "ls", "--json").json["items"]
    removed = call("hosts", "rm", "build", "--json").json

    assert [(one["name"], one["ssh"], one["port"]) for one in listed] == [
        ("build", "anna@other", None),
        ("tunnel", None, 8765),
    ]
    assert listed[1]["token_file"] == str(home / "token")
    assert hosts_file(home).stat().st_mode & 0o777 == 0o600
    assert (removed["removed"], call("hosts", "rm", "build").code) == (True, 3)
    assert "tunnel  tcp 127.0.0.1:8765" in call("hosts").out


@pytest.mark.parametrize(
    "given",
    [
        {"name": "-x", "ssh": "a"},
        {"name": "a", "ssh": "-oProxyCommand=x"},
        {"name": "a", "ssh": "a b"},
        {"name": "a"},
        {"name": "a", "ssh": "a", "port": 5},
        {"name": "a", "port": 5},
        {"name": "a", "port": 70000, "token_file": "/t"},
        {"name": "a", "ssh": "a", "socket": "relative"},
    ],
)
def test_a_host_that_cannot_be_used_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Host(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("typed", ["foo", "foo a --tcp 5", "foo --tcp 5", "foo -- -x", "-- -x a"])
def test_a_host_that_cannot_be_added_is_wrong_usage(call: Caller, home: Path, typed: str) -> None:
    done = call("hosts", "add", *typed.split())

    assert (done.code, "hosts add NAME" in done.err or "name of a host" in done.err) == (2, True)
    assert not hosts_file(home).exists()


@pytest.mark.parametrize("text", ["a = 1", "[a]\nssh = 5", "[a]\nuser = 'x'", "[a"])
def test_a_malformed_file_of_hosts_is_reported(home: Path, call: Caller, text: str) -> None:
    hosts_file(home).parent.mkdir(parents=True)
    hosts_file(home).write_text(text)

    done = call("ps", "--host", "a")

    assert (done.code, done.out) == (1, "")
    assert "hosts.toml" in done.err


def test_commands_use_the_daemon_behind_the_forward(
    ssh_calls: Path, far: Home, call: Caller
) -> None:
    call("hosts", "add", "build", "anna@build", "--socket", far.socket)

    made = in_a_process("new", "echo", "--name", "bob", "--host", "build")
    sent = in_a_process(
        "send", "bob", "hi", "--wait", env={**os.environ, "UNDERSTUDY_HOST": "build"}
    )
    listed = call("ps", "--host", "build", "--json")
    status = call("status", "--host", "build", "--json").json

    assert (made.code, sent.out) == (0, "hi\n")
    assert [info["name"] for info in listed.json["items"]] == ["bob"]
    assert (status["host"], status["pid"], status["stats"]["sessions"]) == ("build", None, 1)
    for line in ssh_calls.read_text().splitlines():
        pid, *words = line.split()
        assert not Path(f"/proc/{pid}").exists()
        assert {"BatchMode=yes", "ControlPath=none", "-N"} <= set(words)
        assert not Path(words[words.index("-L") + 1].partition(":")[0]).parent.exists()


def test_a_host_without_a_socket_is_asked_for_it(
    ssh_calls: Path, far: Home, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("hosts", "add", "build", "anna@build")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(far.folder))

    done = call("tree", "--host", "build")

    assert done.code == 0
    assert "-- anna@build understudy config get daemon.socket" in ssh_calls.read_text()


def test_a_host_that_refuses_shows_the_last_line_of_ssh(
    ssh_calls: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("hosts", "add", "asked", "anna@build")
    call("hosts", "add", "build", "anna@build", "--socket", "/nowhere.sock")
    closed = call("ps", "--host", "build")
    monkeypatch.setenv("FAKE_SSH_FAILS", "anna@build: Permission denied (publickey).")

    refused = [call("ps", "--host", name, "--json") for name in ("asked", "build")]

    assert closed.code == 5
    assert "no daemon answers on host build: channel 2: open failed" in closed.err
    for done in refused:
        error = json.loads(done.err)["error"]
        assert (done.code, error["code"]) == (5, "host_unreachable")
        assert error["message"].endswith("anna@build: Permission denied (publickey).")


def test_a_tunnel_is_used_with_its_token(far: Home, call: Caller) -> None:
    note = json.loads(Path(f"{far.socket}.json").read_text())
    token = far.folder / ".local/state/understudy/token"
    call("hosts", "add", "tunnel", "--tcp", note["tcp_port"], "--token-file", token)

    assert call("ps", "--host", "tunnel").code == 0


def test_a_tunnel_that_cannot_be_used_says_what_is_missing(home: Path, call: Caller) -> None:
    call("hosts", "add", "tunnel", "--tcp", 1, "--token-file", home / "token")
    without_token = call("ps", "--host", "tunnel")
    (home / "token").write_text("t" * 43)
    (home / "token").chmod(0o600)
    closed = call("ps", "--host", "tunnel")

    assert (without_token.code, "understudy config token" in without_token.err) == (3, True)
    assert (closed.code, "check that the tunnel is open" in closed.err) == (5, True)


def test_without_ssh_the_error_says_so(
    home: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    call("hosts", "add", "build", "anna@build")
    monkeypatch.setenv("PATH", str(home))

    done = call("ps", "--host", "build")

    assert (done.code, "ssh, which is not installed" in done.err) == (5, True)


def test_a_file_and_a_host_exclude_each_other(call: Caller) -> None:
    assert call("ps", "--host", "build", "--state", "x.db").code == 2
    assert call("run", "--host", "build", "hello").code == 2


def test_an_unknown_host_is_not_found(call: Caller) -> None:
    done = call("ps", "--host", "nowhere")

    assert (done.code, "known: none" in done.err) == (3, True)
