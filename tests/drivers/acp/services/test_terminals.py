"""Commands that an agent has us run; see acp/services/terminals.py. No real process takes part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from supervisor.core.ids import TurnId
from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.news.tools import facts_of
from supervisor.drivers.acp.rpc.messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
)
from supervisor.drivers.acp.services.asking import Ask
from supervisor.drivers.acp.services.grants import Grants
from supervisor.drivers.acp.services.terminals.command import parse_command
from supervisor.drivers.acp.services.terminals.terminal import DRAIN_SECONDS, KILL_SECONDS
from supervisor.drivers.acp.services.terminals.terminals import (
    LAUNCH_SECONDS,
    MAX_TERMINALS,
    Terminals,
)
from supervisor.drivers.process.port import Exit
from tests.drivers.acp.services.people import Person, refusal
from tests.drivers.office import StandInOffice
from tests.drivers.process_fake import FakeProcesses, Play, nobody_minds

TURN = TurnId("turn_1")
RUNS_LS = {"command": "ls"}


@pytest.fixture
def processes() -> FakeProcesses:
    return FakeProcesses()


@pytest.fixture
def office(workspace: Path) -> StandInOffice:
    return StandInOffice(workspace=str(workspace), permissions=Permissions(mode="approve_all"))


@pytest.fixture
def terminals(
    office: StandInOffice,
    processes: FakeProcesses,
    nursery: trio.Nursery,
    person: Person,
    grants: Grants,
) -> Terminals:
    return make(office, processes, nursery, ask=person.ask, grants=grants)


def make(
    office: StandInOffice,
    processes: FakeProcesses,
    nursery: trio.Nursery,
    *,
    ask: Ask,
    grants: Grants,
) -> Terminals:
    return Terminals(
        office,
        processes=processes,
        nursery=nursery,
        ask=ask,
        grants=grants,
        limiter=trio.CapacityLimiter(2),
        environment={"PATH": "/bin", "LANG": "C"},
        before_it_runs=nobody_minds,
    )


async def create(
    terminals: Terminals, turn: TurnId | None = TURN, **params: object
) -> dict[str, Any]:
    """The params that name a new terminal."""
    return await terminals.create({"sessionId": "s", **RUNS_LS, **params}, turn=turn)


# What is run ------------------------------------------------------------------------------


async def test_a_lone_command_is_a_line_for_a_shell(
    terminals: Terminals, processes: FakeProcesses, workspace: Path
) -> None:
    await create(terminals, command="ls | wc -l")

    [launch] = processes.launches
    assert launch.command == ("/bin/sh", "-c", "exec 2>&1\nls | wc -l")
    assert launch.cwd == str(workspace)


async def test_a_command_with_arguments_is_run_as_it_is(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    await create(terminals, command="grep", args=["-r", "a b; c"])

    assert processes.launches[0].command[-3:] == ("grep", "-r", "a b; c")


async def test_variables_come_on_top_of_what_every_terminal_has(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    await create(terminals, env=[{"name": "LANG", "value": "de"}, {"name": "X", "value": ""}])

    assert processes.launches[0].environment == {"PATH": "/bin", "LANG": "de", "X": ""}


async def test_a_command_runs_where_it_was_asked_to_inside_the_workspace(
    terminals: Terminals, processes: FakeProcesses, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "src").mkdir()
    (workspace / "out").symlink_to(tmp_path)

    await create(terminals, cwd=f"{workspace}/src")

    assert processes.launches[0].cwd == str(workspace / "src")
    for cwd in ("/", f"{workspace}/..", f"{workspace}/out", "src"):
        error = await refusal(create(terminals, cwd=cwd))
        assert error.message == "cwd is not in the workspace"


async def test_nobody_will_write_to_it(terminals: Terminals, processes: FakeProcesses) -> None:
    await create(terminals)

    assert processes.last.is_input_closed


@pytest.mark.parametrize(
    "params",
    [
        None,
        {},
        {"command": ""},
        {"command": "a\0b"},
        {"command": "half \ud800"},
        {"command": ["ls"]},
        {"command": "ls", "args": "-l"},
        {"command": "ls", "args": [1]},
        {"command": "ls", "args": ["x"] * 2000},
        {"command": "ls", "args": ["x" * 200_000]},
        {"command": "ls", "env": {"A": "b"}},
        {"command": "ls", "env": [{"name": "A=B", "value": "c"}]},
        {"command": "ls", "env": [{"name": "A"}]},
        {"command": "ls", "cwd": 5},
    ],
)
async def test_a_request_that_makes_no_sense_is_refused(
    terminals: Terminals, processes: FakeProcesses, params: object
) -> None:
    error = await refusal(terminals.create(params, turn=TURN))

    assert (error.code, processes.launches) == (INVALID_PARAMS, [])


any_json: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.integers() | st.text(st.characters(), max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "value"]), inner, max_size=2)
    ),
    max_leaves=6,
)


@given(
    st.dictionaries(st.sampled_from(["command", "args", "env", "cwd", "outputByteLimit"]), any_json)
)
def test_every_command_is_understood_or_refused(params: dict[str, Any]) -> None:
    try:
        command = parse_command(params)
    except RpcError:
        return
    assert all("\0" not in word for word in command.launch("/w", {}).command)


async def test_a_program_that_cannot_be_run_is_said(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(fails="there is no such folder"))

    error = await refusal(create(terminals))

    assert (error.code, error.message) == (INTERNAL_ERROR, "there is no such folder")


async def test_a_program_that_does_not_begin_is_given_up(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(launch_seconds=1000))

    error = await refusal(create(terminals))

    assert error.message == "the command did not begin to run"
    assert trio.current_time() == LAUNCH_SECONDS
    assert processes.all == []


# Output and end ---------------------------------------------------------------------------


async def test_output_can_be_read_while_it_runs(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    name = await create(terminals)
    processes.last.say(b"hel")
    processes.last.say(b"lo")
    await wait_all_tasks_blocked()

    assert await terminals.output(name) == {
        "output": "hello",
        "truncated": False,
        "exitStatus": None,
    }


async def test_all_output_is_there_when_it_is_over(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"a", b"b"), exits=Exit(3)))
    name = await create(terminals)

    assert await terminals.wait_for_exit(name) == {"exitCode": 3, "signal": None}
    answer = await terminals.output(name)
    assert (answer["output"], answer["exitStatus"]) == ("ab", {"exitCode": 3, "signal": None})


async def test_only_so_much_output_is_kept_as_was_asked_for(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=("ä".encode() * 100,), exits=Exit(0)))
    name = await create(terminals, outputByteLimit=7)
    await terminals.wait_for_exit(name)

    answer = await terminals.output(name)

    assert (answer["output"], answer["truncated"]) == ("äää", True)


async def test_what_it_has_started_does_not_keep_its_end_waiting(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"a",), exits=Exit(0), holds_output=True))
    name = await create(terminals)

    assert await terminals.wait_for_exit(name) == {"exitCode": 0, "signal": None}

    assert trio.current_time() == DRAIN_SECONDS


async def test_who_waits_keeps_nobody_else_waiting(
    terminals: Terminals, processes: FakeProcesses, nursery: trio.Nursery
) -> None:
    slow, quick = await create(terminals), await create(terminals)
    nursery.start_soon(terminals.wait_for_exit, slow)
    processes.all[1].leave(Exit(0))

    assert await terminals.wait_for_exit(quick) == {"exitCode": 0, "signal": None}
    processes.all[0].leave(Exit(0))


async def test_a_killed_command_keeps_its_output(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"half",)))
    name = await create(terminals)
    await wait_all_tasks_blocked()

    assert await terminals.kill(name) == {}

    answer = await terminals.output(name)
    assert answer["output"] == "half"
    assert answer["exitStatus"] == {"exitCode": None, "signal": "SIGKILL"}
    assert await terminals.kill(name) == {}


async def test_a_released_terminal_is_gone_and_what_it_ran_too(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    name = await create(terminals)

    assert await terminals.release(name) == {}

    assert processes.alive == []
    for use in (terminals.output, terminals.wait_for_exit, terminals.kill, terminals.release):
        assert (await refusal(use(name))).code == RESOURCE_NOT_FOUND


async def test_who_waits_for_a_terminal_that_is_released_is_answered(
    terminals: Terminals, nursery: trio.Nursery
) -> None:
    name = await create(terminals)
    answers: list[object] = []

    async def wait() -> None:
        answers.append(await terminals.wait_for_exit(name))

    nursery.start_soon(wait)
    await wait_all_tasks_blocked()
    await terminals.release(name)
    await wait_all_tasks_blocked()

    assert answers == [{"exitCode": None, "signal": "SIGKILL"}]


async def test_what_cannot_be_killed_is_not_waited_for(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(unkillable=True))
    name = await create(terminals)

    await terminals.kill(name)

    assert trio.current_time() == KILL_SECONDS
    assert await terminals.wait_for_exit(name) == {"exitCode": None, "signal": None}
    processes.last.leave(Exit(0))


async def test_a_released_terminal_can_still_be_shown(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(output=(b"hi",), exits=Exit(0)))
    name = await create(terminals)
    await terminals.wait_for_exit(name)
    await terminals.release(name)

    shown = terminals.shown(name["terminalId"])

    assert shown == {"output": "hi", "exitCode": 0, "signal": None}
    assert terminals.shown("nobody") is None


@pytest.mark.parametrize("name", [None, {}, {"terminalId": None}, {"terminalId": ["x"]}])
async def test_a_terminal_that_nobody_knows_is_not_found(
    terminals: Terminals, name: object
) -> None:
    assert (await refusal(terminals.output(name))).code == RESOURCE_NOT_FOUND


# Bounds -----------------------------------------------------------------------------------


async def test_there_are_only_so_many_terminals_at_once(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    names = [await create(terminals) for _ in range(MAX_TERMINALS)]

    error = await refusal(create(terminals))
    assert error.message == "there are 16 terminals already: release one"

    await terminals.release(names[0])
    await create(terminals)
    assert len(processes.alive) == MAX_TERMINALS


async def test_those_that_a_person_has_to_allow_count_too(
    office: StandInOffice, terminals: Terminals, person: Person, nursery: trio.Nursery
) -> None:
    office.permissions = Permissions()
    person.answer = "allow_once"
    person.decides = trio.Event()
    for _ in range(MAX_TERMINALS):
        nursery.start_soon(create, terminals)
    await wait_all_tasks_blocked()

    error = await refusal(create(terminals))

    assert "16 terminals" in error.message
    person.decides.set()


async def test_a_program_that_failed_to_run_takes_no_place(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(*[Play(fails="no")] * MAX_TERMINALS)
    for _ in range(MAX_TERMINALS):
        await refusal(create(terminals))

    await create(terminals)


# Interrupts -------------------------------------------------------------------------------


async def test_one_terminal_is_cancelled_and_no_other(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    name, _ = await create(terminals), await create(terminals)

    await terminals.cancel(name["terminalId"])

    assert [process.is_alive for process in processes.all] == [False, True]
    assert "kill" not in processes.last.signals
    assert not terminals.is_running(name["terminalId"])


async def test_the_end_of_a_turn_ends_what_was_begun_in_it(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    for turn in (TurnId("before"), TURN, TURN, None):
        await create(terminals, turn)

    terminals.kill_turn(TURN)

    assert [process.is_alive for process in processes.all] == [True, False, False, True]
    terminals.kill_all()
    assert processes.alive == []


async def test_what_is_killed_while_somebody_is_asked_never_runs(
    office: StandInOffice, terminals: Terminals, person: Person, nursery: trio.Nursery
) -> None:
    office.permissions = Permissions()
    person.answer, person.decides = "allow_once", trio.Event()
    errors: list[RpcError] = []

    async def begin() -> None:
        errors.append(await refusal(create(terminals)))

    nursery.start_soon(begin)
    while not person.asked:
        await trio.lowlevel.checkpoint()
    terminals.kill_turn(TURN)
    person.decides.set()
    await wait_all_tasks_blocked()

    assert [error.message for error in errors] == ["it was ended before it began to run"]


async def test_what_is_killed_while_it_begins_never_runs(
    terminals: Terminals, processes: FakeProcesses, nursery: trio.Nursery
) -> None:
    processes.plan(Play(launch_seconds=5))
    errors: list[RpcError] = []

    async def begin() -> None:
        errors.append(await refusal(create(terminals)))

    nursery.start_soon(begin)
    while not terminals.count:  # a thread looks at its folder first, in its own time
        await trio.lowlevel.checkpoint()
    terminals.kill_turn(TURN)
    await wait_all_tasks_blocked()

    assert [error.message for error in errors] == ["the command did not begin to run"]
    assert (processes.all, trio.current_time()) == ([], 0)


async def test_who_gives_up_the_wait_for_a_beginning_leaves_nothing_running(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(Play(launch_seconds=5))

    with trio.move_on_after(1):
        await create(terminals)
    await trio.sleep(10)

    assert processes.all == []


async def test_nothing_outlives_the_nursery(
    office: StandInOffice, processes: FakeProcesses, person: Person
) -> None:
    async with trio.open_nursery() as nursery:
        terminals = make(office, processes, nursery, ask=person.ask, grants=Grants())
        await create(terminals)
        nursery.cancel_scope.cancel()

    assert processes.alive == []


# Rights -----------------------------------------------------------------------------------


async def test_running_something_asks_a_person(
    office: StandInOffice, terminals: Terminals, processes: FakeProcesses, person: Person
) -> None:
    office.permissions = Permissions()

    error = await refusal(create(terminals, command="rm", args=["-r", "a b"]))

    [question] = person.asked
    assert (question.kind, question.question) == ("execute", "Run rm -r 'a b'")
    assert error.message == "it is not allowed to execute here"
    assert processes.launches == []


async def test_a_command_that_was_allowed_before_asks_nobody_and_once(
    office: StandInOffice, terminals: Terminals, person: Person, grants: Grants
) -> None:
    office.permissions = Permissions()
    facts = facts_of({"kind": "execute", "rawInput": {"command": "make test"}})
    grants.add(facts, "allow_once", places=())

    await create(terminals, command="bash", args=["-lc", "make test"])
    assert person.asked == []

    await refusal(create(terminals, command="make test"))
    assert len(person.asked) == 1


def folder_in(workspace: str) -> str:
    folder = Path(workspace, "sub")
    folder.mkdir()
    return str(folder)


@pytest.mark.parametrize(
    "asked",
    [
        {"command": "make\ntest"},  # which is two commands to a shell
        {"command": "make  test"},
        {"command": "./evilsh", "args": ["-c", "make test"]},
        {"command": "make test", "env": [{"name": "PATH", "value": "."}]},
        {"command": "make test", "cwd": "sub"},
    ],
    ids=["newline", "spaces", "program", "variables", "folder"],
)
async def test_what_is_not_what_was_allowed_is_asked_about(
    office: StandInOffice,
    terminals: Terminals,
    person: Person,
    grants: Grants,
    asked: dict[str, Any],
) -> None:
    assert office.workspace is not None
    if "cwd" in asked:
        asked = {**asked, "cwd": folder_in(office.workspace)}
    office.permissions = Permissions()
    facts = facts_of({"kind": "execute", "rawInput": {"command": "make test"}})
    grants.add(facts, "allow_always", places=())

    await refusal(create(terminals, **asked))

    assert len(person.asked) == 1


async def test_another_command_is_not_covered(
    office: StandInOffice, terminals: Terminals, person: Person, grants: Grants
) -> None:
    office.permissions = Permissions()
    facts = facts_of({"kind": "execute", "rawInput": {"command": "make test"}})
    grants.add(facts, "allow_always", places=())

    await refusal(create(terminals, command="make test; rm -r ."))

    assert len(person.asked) == 1


@pytest.mark.parametrize(
    "permissions",
    [
        Permissions(mode="deny_all"),
        Permissions(mode="approve_all", tools=["read"]),
        Permissions(mode="approve_all", workspace_paths=[]),
    ],
)
async def test_who_has_no_right_runs_nothing(
    office: StandInOffice, terminals: Terminals, processes: FakeProcesses, permissions: Permissions
) -> None:
    office.permissions = permissions

    await refusal(create(terminals))

    assert processes.launches == []


async def test_a_process_that_nobody_can_put_on_record_does_not_run(
    terminals: Terminals, processes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("the store is full")

    monkeypatch.setattr(terminals, "_before_it_runs", fail)

    error = await refusal(create(terminals))

    assert error.message == "the command did not begin to run"
    assert processes.all == []
