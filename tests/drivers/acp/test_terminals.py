"""Commands, output and bounds of terminals over fake processes; see drivers/acp/terminals.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.terminal import DRAIN_SECONDS, KILL_SECONDS, parse_command
from supervisor.drivers.acp.terminals import LAUNCH_SECONDS, MAX_TERMINALS, Terminals
from supervisor.drivers.process.processes import ProcessExit
from supervisor.drivers.workspaces import find_root
from supervisor.json_rpc.rpc_messages import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    RESOURCE_NOT_FOUND,
    RpcError,
)
from tests.support.acp_decider import FakeUser, refusal
from tests.support.acp_terminals import TURN, create
from tests.support.driver_context import FakeDriverContext
from tests.support.fake_processes import FakeProcesses, ProcessBehaviour

pytestmark = pytest.mark.usefixtures("no_open_descriptors")


@pytest.fixture
def context(workspace: Path) -> FakeDriverContext:
    return FakeDriverContext(workspace=str(workspace), permissions=Permissions(mode="approve_all"))


# Commands ---------------------------------------------------------------------------------


async def test_a_command_without_arguments_is_run_by_a_shell(
    terminals: Terminals, processes: FakeProcesses, workspace: Path
) -> None:
    await create(terminals, command="ls | wc -l")

    [launch] = processes.launches
    assert launch.command == ("/bin/sh", "-c", "exec 2>&1\nls | wc -l")
    assert launch.cwd == str(workspace)


async def test_a_command_with_arguments_is_run_directly(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    await create(terminals, command="grep", args=["-r", "a b; c"])

    assert processes.launches[0].command[-3:] == ("grep", "-r", "a b; c")


async def test_variables_are_added_to_the_terminal_environment(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    await create(terminals, env=[{"name": "LANG", "value": "de"}, {"name": "X", "value": ""}])

    assert processes.launches[0].environment == {"PATH": "/bin", "LANG": "de", "X": ""}


async def test_a_command_runs_in_its_cwd_inside_the_workspace(
    terminals: Terminals, processes: FakeProcesses, workspace: Path, tmp_path: Path
) -> None:
    (workspace / "src").mkdir()
    (workspace / "out").symlink_to(tmp_path)

    await create(terminals, cwd=f"{workspace}/src")

    assert processes.launches[0].cwd == str(workspace / "src")
    assert processes.launches[0].folder == find_root(f"{workspace}/src").identity
    for cwd in ("/", f"{workspace}/..", f"{workspace}/out", "src"):
        error = await refusal(create(terminals, cwd=cwd))
        assert error.message == "cwd is not in the workspace"


async def test_the_input_of_a_terminal_is_closed(
    terminals: Terminals, processes: FakeProcesses
) -> None:
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
async def test_a_malformed_request_is_refused(
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
def test_any_command_is_parsed_or_refused(params: dict[str, Any]) -> None:
    try:
        command = parse_command(params)
    except RpcError:
        return
    assert all("\0" not in word for word in command.launch("/w", {}).command)


async def test_a_launch_error_is_returned(terminals: Terminals, processes: FakeProcesses) -> None:
    processes.plan(ProcessBehaviour(fails="there is no such folder"))

    error = await refusal(create(terminals))

    assert (error.code, error.message) == (INTERNAL_ERROR, "there is no such folder")


async def test_a_command_that_does_not_start_times_out(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(launch_seconds=1000))

    error = await refusal(create(terminals))

    assert error.message == "the command did not start"
    assert trio.current_time() == LAUNCH_SECONDS
    assert processes.all == []


# Output and end ---------------------------------------------------------------------------


async def test_output_can_be_read_while_the_command_runs(
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


async def test_all_output_is_present_after_the_exit(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"a", b"b"), exits=ProcessExit(3)))
    name = await create(terminals)

    assert await terminals.wait_for_exit(name) == {"exitCode": 3, "signal": None}
    answer = await terminals.output(name)
    assert (answer["output"], answer["exitStatus"]) == ("ab", {"exitCode": 3, "signal": None})


async def test_output_is_limited_as_requested(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=("ä".encode() * 100,), exits=ProcessExit(0)))
    name = await create(terminals, outputByteLimit=7)
    await terminals.wait_for_exit(name)

    answer = await terminals.output(name)

    assert (answer["output"], answer["truncated"]) == ("äää", True)


async def test_background_processes_do_not_delay_the_exit(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"a",), exits=ProcessExit(0), holds_output=True))
    name = await create(terminals)

    assert await terminals.wait_for_exit(name) == {"exitCode": 0, "signal": None}

    assert trio.current_time() == DRAIN_SECONDS


async def test_a_wait_for_exit_blocks_no_other_request(
    terminals: Terminals, processes: FakeProcesses, nursery: trio.Nursery
) -> None:
    slow, quick = await create(terminals), await create(terminals)
    nursery.start_soon(terminals.wait_for_exit, slow)
    processes.all[1].leave(ProcessExit(0))

    assert await terminals.wait_for_exit(quick) == {"exitCode": 0, "signal": None}
    processes.all[0].leave(ProcessExit(0))


async def test_a_killed_command_keeps_its_output(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"half",)))
    name = await create(terminals)
    await wait_all_tasks_blocked()

    assert await terminals.kill(name) == {}

    answer = await terminals.output(name)
    assert answer["output"] == "half"
    assert answer["exitStatus"] == {"exitCode": None, "signal": "SIGKILL"}
    assert await terminals.kill(name) == {}


async def test_a_release_kills_the_command_and_removes_the_terminal(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    name = await create(terminals)

    assert await terminals.release(name) == {}

    assert processes.alive == []
    for use in (terminals.output, terminals.wait_for_exit, terminals.kill, terminals.release):
        assert (await refusal(use(name))).code == RESOURCE_NOT_FOUND


async def test_a_wait_for_exit_ends_when_the_terminal_is_released(
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


async def test_an_unkillable_command_is_awaited_within_a_bound(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(unkillable=True))
    name = await create(terminals)

    await terminals.kill(name)

    assert trio.current_time() == KILL_SECONDS
    assert await terminals.wait_for_exit(name) == {"exitCode": None, "signal": None}
    processes.last.leave(ProcessExit(0))


async def test_a_released_terminal_can_still_be_described(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(output=(b"hi",), exits=ProcessExit(0)))
    name = await create(terminals)
    await terminals.wait_for_exit(name)
    await terminals.release(name)

    shown = terminals.describe(name["terminalId"])

    assert shown == {"output": "hi", "exitCode": 0, "signal": None}
    assert terminals.describe("nobody") is None


@pytest.mark.parametrize("name", [None, {}, {"terminalId": None}, {"terminalId": ["x"]}])
async def test_an_unknown_terminal_is_not_found(terminals: Terminals, name: object) -> None:
    assert (await refusal(terminals.output(name))).code == RESOURCE_NOT_FOUND


# Bounds -----------------------------------------------------------------------------------


async def test_open_terminals_are_limited(terminals: Terminals, processes: FakeProcesses) -> None:
    names = [await create(terminals) for _ in range(MAX_TERMINALS)]

    error = await refusal(create(terminals))
    assert error.message == "16 terminals are open: release one first"

    await terminals.release(names[0])
    await create(terminals)
    assert len(processes.alive) == MAX_TERMINALS


async def test_terminals_that_wait_for_permission_count_too(
    context: FakeDriverContext, terminals: Terminals, user: FakeUser, nursery: trio.Nursery
) -> None:
    context.permissions = Permissions()
    user.answer = "allow_once"
    user.decides = trio.Event()
    for _ in range(MAX_TERMINALS):
        nursery.start_soon(create, terminals)
    await wait_all_tasks_blocked()

    error = await refusal(create(terminals))

    assert "16 terminals" in error.message
    user.decides.set()


async def test_a_failed_launch_takes_no_terminal_slot(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(*[ProcessBehaviour(fails="no")] * MAX_TERMINALS)
    for _ in range(MAX_TERMINALS):
        await refusal(create(terminals))

    await create(terminals)
