"""`understudy doctor`: findings, their levels and hints."""

import ast
import os
import re
import socket
import sqlite3
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from supervisor.cli.commands.completion import installed_version
from supervisor.cli.doctor import agents_check, daemon_check, software, storage
from supervisor.cli.doctor import findings as finding_module
from supervisor.cli.doctor.findings import Finding
from supervisor.configuration import AgentTable
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.environment import Marker, pid_namespace
from supervisor.drivers.process.orphans import ObservedProcess
from tests.cli.conftest import Kept
from tests.support.cli_runner import ROOT, Caller


def levels(findings: Iterable[Finding]) -> list[str]:
    return [one.level for one in findings]


def hints(findings: Iterable[Finding]) -> str:
    return " ".join(one.hint or "" for one in findings)


def test_doctor_runs_every_check_and_finds_no_error(call: Caller) -> None:
    """It starts a real process, and a store in a folder of its own."""
    done = call("doctor", "--json")

    looked_at = {one["check"] for one in done.json["findings"]}
    assert looked_at == {
        *("python", "packages", "names", "sqlite", "configuration", "agents", "permissions"),
        *("disk", "clock", "leftovers", "daemon", "guardian", "sessions"),
    }
    assert [one for one in done.json["findings"] if one["level"] == "error"] == []
    assert done.code == 0


def test_an_error_exits_with_1_and_prints_its_hint(call: Caller, home: Path) -> None:
    file = home / "understudy.toml"
    file.write_text("[settings]\nqueue_cup = 1\n")
    file.chmod(0o600)

    done = call("doctor")

    assert done.code == 1
    assert "error   configuration-wrong: " in done.out
    assert "hint: did you mean" in done.out


def test_supervisord_beside_us_is_an_error() -> None:
    found = list(software.check_package_names({"supervisor": ["supervisor", "understudy"]}))

    assert levels(found) == ["error"]
    assert "pip uninstall supervisor understudy" in hints(found)
    assert levels(software.check_package_names({"supervisor": ["understudy"]})) == ["ok"]


@pytest.mark.parametrize(
    ("version", "level"), [("3.36.0", "error"), ("3.40.1", "warning"), ("3.51.3", "ok")]
)
def test_sqlite_is_checked_by_version(version: str, level: str) -> None:
    assert levels(software.check_sqlite(version)) == [level]


def test_an_old_python_is_an_error() -> None:
    assert levels(software.check_python((3, 10, 9))) == ["error"]


def test_a_missing_package_is_an_error() -> None:
    found = software.check_packages(lambda name: None if name == "trio" else "1.0")

    assert levels(found) == ["error", "ok"]


def test_a_file_readable_by_other_users_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x")
    file.chmod(0o644)

    found = list(storage.check_file(file))
    assert levels(found) == ["error"]
    assert hints(found) == f"`chmod 600 {file}`"

    file.chmod(0o600)
    assert list(storage.check_file(file)) == []


def test_a_folder_open_to_other_users_is_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)

    assert levels(storage.check_folder(folder)) == ["warning"]
    assert hints(storage.check_folder(folder)) == f"`chmod 700 {folder}`"
    folder.chmod(0o1777)
    assert "chmod" not in hints(storage.check_folder(folder))
    assert levels(storage.check_folder(folder / "missing")) == []


@pytest.mark.parametrize("name", [".", "missing", "missing/too"])
def test_a_folder_that_cannot_be_written_is_an_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel answers a user who is not root."""
    tmp_path.chmod(0o500)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)

    (found,) = storage.check_folder(tmp_path / name)

    assert (found.level, found.code) == ("error", "unwritable-folder")


def test_a_function_that_cannot_be_imported_is_an_error(call: Caller, home: Path) -> None:
    file = home / "understudy.toml"
    file.write_text('[agents.greeter]\nfunction = "greeter_agents:greeter"\n')
    file.chmod(0o600)

    assert levels(agents_check.check_configuration_files(None)) == ["error"]


@pytest.mark.parametrize(
    ("free", "level"), [(10 * 2**30, "ok"), (2**29, "warning"), (2**20, "error")]
)
def test_low_disk_space_is_reported(free: int, level: str, tmp_path: Path) -> None:
    found = storage.check_disk(tmp_path / "not" / "there", lambda _: SimpleNamespace(free=free))

    assert levels(found) == [level]


def test_a_clock_before_the_installation_is_a_warning() -> None:
    assert levels(software.check_clock(0.0)) == ["warning"]
    assert levels(software.check_clock(2e9, built_at=1e9)) == ["ok"]


def test_an_agent_with_a_missing_program_or_variable_is_a_warning() -> None:
    agent = AgentTable(name="mine", driver="acp", command=("no-such-program",))

    assert levels(agents_check.check_agents((agent,), {"PATH": "/nowhere"})) == ["warning"]
    assert levels(agents_check.check_agents((), {})) == ["ok"]


def test_an_orphaned_process_is_a_warning() -> None:
    marker = Marker("token", 2**22 - 1, 1, pid_namespace() or "none")
    orphan = ObservedProcess(ProcessIdentity(4242, 1, "boot"), 1, 1, True, marker)  # noqa: FBT003 - a record

    found = list(agents_check.check_orphans([orphan]))

    assert levels(found) == ["warning"]
    assert "kill -9 4242" in hints(found)


def test_without_proc_orphans_cannot_be_checked() -> None:
    assert levels(agents_check.check_orphans([])) == ["warning"]


async def test_a_guardian_that_fails_to_start_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", os.devnull)

    assert (await agents_check.check_guardian()).level == "error"


RUNNING = "process 1 listens on x"


def asked(
    version: str | None, *, damaged: Sequence[str] = (), **store: object
) -> daemon_check.GetJson:
    well = {"degraded": False, "problem": None, "hint": None}
    answers = {
        "/v1/version": {"version": version or installed_version("understudy")},
        "/v1/stats": {"store": {**well, **store}, "damaged": damaged},
    }
    return answers.__getitem__


def codes(findings: Iterable[Finding]) -> list[str | None]:
    return [one.code for one in findings]


def test_a_daemon_of_another_version_is_a_warning() -> None:
    assert codes(daemon_check.check_running_daemon(RUNNING, asked(None))) == [None]
    assert codes(daemon_check.check_running_daemon(RUNNING, asked("0.0.1"))) == [
        "daemon-of-another-version"
    ]


def test_a_degraded_daemon_is_an_error_with_its_own_text() -> None:
    ask = asked(None, degraded=True, problem="No space left", hint="free some")

    (found,) = daemon_check.check_running_daemon(RUNNING, ask)

    assert found.level == "error"
    assert (found.detail, found.hint) == (
        f"{RUNNING}, but cannot write: No space left",
        "free some",
    )


def test_a_damaged_session_is_an_error_that_names_it() -> None:
    (found,) = daemon_check.check_running_daemon(RUNNING, asked(None, damaged=["s_1", "s_2"]))

    assert (found.level, found.code) == ("error", "session-damaged")
    assert "s_1 s_2" in found.detail
    assert "understudy repair s_1" in (found.hint or "")


async def test_a_store_file_is_checked(kept: Kept, tmp_path: Path) -> None:
    (found,) = await storage.check_store(kept.path)
    assert (found.level, "4 sessions" in found.detail) == ("ok", True)
    with sqlite3.connect(kept.path) as connection:
        connection.execute("UPDATE sessions SET row = '{' WHERE id = ?", (kept.anna,))
    connection.close()

    assert codes(await storage.check_store(kept.path)) == ["session-damaged"]
    assert codes(await storage.check_store(tmp_path / "none.db")) == ["store-unreadable"]


def empty(store: Path) -> None:
    os.truncate(store, 0)


def cut(store: Path) -> None:
    os.truncate(store, 20_000)


def zero_first_page(store: Path) -> None:
    with store.open("r+b") as file:
        file.write(bytes(4096))


@pytest.mark.parametrize("lose", [empty, cut, zero_first_page, Path.unlink])
def test_the_store_of_a_daemon_that_is_not_running_is_checked(
    lose: Callable[[Path], None], kept: Kept, home: Path, call: Caller
) -> None:
    folder = home / ".local/state/understudy"
    folder.mkdir(parents=True, mode=0o700)
    for file in kept.path.parent.glob("state.db*"):
        file.rename(folder / file.name)
    assert "ok      daemon: not running" in call("doctor").out
    lose(folder / "state.db")

    done = call("doctor")

    assert done.code == 1
    assert "error   store-" in done.out
    assert "warning daemon-not-running: " in done.out
    assert "ok      daemon: " not in done.out


async def test_a_changed_schema_is_an_error_that_names_the_change(kept: Kept) -> None:
    with sqlite3.connect(kept.path) as connection:
        connection.execute("DROP INDEX records_by_number")
    connection.close()

    (found,) = await storage.check_store(kept.path)

    assert (found.level, found.code) == ("error", "store-schema")
    assert "index records_by_number is missing" in found.detail


def test_free_space_that_cannot_be_returned_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "state.db"

    (found,) = storage.check_free_space(path, storage.STUCK_BYTES)

    assert (found.level, found.code) == ("warning", "store-free-space")
    assert not list(storage.check_free_space(path, storage.STUCK_BYTES - 1))


def test_an_unresponsive_daemon_is_an_error(home: Path) -> None:
    """A real socket whose listener accepts nothing."""
    path = str(Path(os.environ["XDG_RUNTIME_DIR"]) / "x.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        assert codes(daemon_check.check_daemon(path, seconds=0.05)) == ["daemon-silent"]


def test_a_socket_path_above_the_kernel_limit_is_an_error(tmp_path: Path) -> None:
    assert codes(daemon_check.check_daemon(str(tmp_path / ("x" * 108)))) == ["socket-path"]


# The page ------------------------------------------------------------------------------------


def made(where: Path) -> list[tuple[str, str]]:
    """Level and code of every finding that a file can make, as it is written there."""
    calls = [node for node in ast.walk(ast.parse(where.read_text())) if isinstance(node, ast.Call)]
    found = []
    for call in calls:
        if isinstance(call.func, ast.Name) and call.func.id in ("warning", "error"):
            code = call.args[1]
            assert isinstance(code, ast.Constant), ast.unparse(call)
            found.append((call.func.id, str(code.value)))
    return found


def test_the_page_has_every_finding_with_its_level_and_no_other() -> None:
    folder = Path(finding_module.__file__).parent
    written = sorted(one for file in folder.glob("*.py") for one in made(file))
    page = (ROOT / "docs/how-to/troubleshooting.md").read_text()
    listed = re.findall(r"^### `([a-z-]+)`\n\nAn? (warning|error)\.", page, re.MULTILINE)

    assert len(written) > 20
    assert sorted((level, code) for code, level in listed) == written
    assert page.count("\n### ") == len(listed)


def test_findings_are_made_only_by_ok_warning_and_error() -> None:
    """So that none escapes the comparison above."""
    folder = Path(finding_module.__file__).parents[1]
    for file in folder.rglob("*.py"):
        if file.name != "findings.py":
            assert "Finding(" not in file.read_text()


def test_a_missing_configuration_file_is_a_finding(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNDERSTUDY_CONFIG", "/nowhere/understudy.toml")

    done = call("doctor")

    assert done.code == 1
    assert "configuration-wrong: /nowhere/understudy.toml: file not found" in done.out
