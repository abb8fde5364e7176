"""doctor: what is found, how bad it is, and what to do."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace

import pytest

from supervisor.cli.household.health import places, processes, software, working
from supervisor.cli.household.health.finding import Finding
from supervisor.configuration import AgentTable
from supervisor.drivers.identity import ProcessIdentity
from supervisor.drivers.process.marker import Marker, current_namespace
from supervisor.drivers.process.sweep import Seen
from tests.cli.calling import Caller


def levels(findings: Iterable[Finding]) -> list[str]:
    return [one.level for one in findings]


def hints(findings: Iterable[Finding]) -> str:
    return " ".join(one.hint or "" for one in findings)


def test_all_is_looked_at_and_nothing_is_wrong_here(call: Caller) -> None:
    """It starts a real process, and a store in a folder of its own."""
    done = call("doctor", "--json")

    looked_at = {one["check"] for one in done.json["findings"]}
    assert looked_at == {
        *("python", "packages", "names", "sqlite", "configuration", "agents", "permissions"),
        *("disk", "clock", "leftovers", "daemon", "guardian", "sessions"),
    }
    assert [one for one in done.json["findings"] if one["level"] == "error"] == []
    assert done.code == 0


def test_an_error_exits_with_1_and_says_what_to_do(call: Caller, home: Path) -> None:
    file = home / "understudy.toml"
    file.write_text("[settings]\nqueue_cup = 1\n")
    file.chmod(0o600)

    done = call("doctor")

    assert done.code == 1
    assert "error   configuration: " in done.out
    assert "hint: did you mean" in done.out


def test_supervisord_beside_us_is_an_error() -> None:
    found = list(software.look_at_names({"supervisor": ["supervisor", "understudy"]}))

    assert levels(found) == ["error"]
    assert "pip uninstall supervisor understudy" in hints(found)
    assert levels(software.look_at_names({"supervisor": ["understudy"]})) == ["ok"]


@pytest.mark.parametrize(
    ("version", "level"), [("3.36.0", "error"), ("3.40.1", "warning"), ("3.51.3", "ok")]
)
def test_sqlite_is_judged_by_its_version(version: str, level: str) -> None:
    assert levels(software.look_at_sqlite(version)) == [level]


def test_an_old_python_is_an_error() -> None:
    assert levels(software.look_at_python((3, 10, 9))) == ["error"]


def test_a_part_that_is_missing_is_an_error() -> None:
    found = software.look_at_packages(lambda name: None if name == "trio" else "1.0")

    assert levels(found) == ["error", "ok"]


def test_a_file_that_others_can_read_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x")
    file.chmod(0o644)

    found = list(places.look_at_file(file))
    assert levels(found) == ["error"]
    assert hints(found) == f"`chmod 600 {file}`"

    file.chmod(0o600)
    assert list(places.look_at_file(file)) == []


def test_a_folder_that_others_may_enter_is_a_warning(tmp_path: Path) -> None:
    folder = tmp_path / "state"
    folder.mkdir()
    folder.chmod(0o755)

    assert levels(places.look_at_folder(folder)) == ["warning"]
    assert levels(places.look_at_folder(folder / "missing")) == []


@pytest.mark.parametrize(
    ("free", "level"), [(10 * 2**30, "ok"), (2**29, "warning"), (2**20, "error")]
)
def test_a_disk_that_fills_is_noticed(free: int, level: str, tmp_path: Path) -> None:
    found = places.look_at_disk(tmp_path / "not" / "there", lambda _: SimpleNamespace(free=free))

    assert levels(found) == [level]


def test_a_clock_that_is_behind_the_program_is_a_warning() -> None:
    assert levels(working.look_at_clock(0.0)) == ["warning"]
    assert levels(working.look_at_clock(2e9, built_at=1e9)) == ["ok"]


def test_an_agent_whose_program_or_variable_is_missing_is_a_warning() -> None:
    agent = AgentTable(name="mine", driver="acp", command=("no-such-program",))

    assert levels(working.look_at_agents((agent,), {"PATH": "/nowhere"})) == ["warning"]
    assert levels(working.look_at_agents((), {})) == ["ok"]


def test_a_process_that_has_lost_its_guardian_is_a_warning() -> None:
    marker = Marker("token", 2**22 - 1, 1, current_namespace() or "none")
    orphan = Seen(ProcessIdentity(4242, 1, "boot"), 1, 1, True, marker)  # noqa: FBT003 - a record

    found = list(processes.look_at_leftovers([orphan]))

    assert levels(found) == ["warning"]
    assert "kill -9 4242" in hints(found)


def test_without_proc_nobody_can_be_looked_for() -> None:
    assert levels(processes.look_at_leftovers([])) == ["warning"]


async def test_a_guardian_that_cannot_start_anything_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", os.devnull)

    assert (await processes.look_at_guardian()).level == "error"
