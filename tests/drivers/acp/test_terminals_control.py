"""Interrupts and permissions of terminals; see drivers/acp/terminals.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from supervisor.core.ids import TurnId
from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.permissions import Grants
from supervisor.drivers.acp.terminals import Terminals
from supervisor.drivers.acp.tool_reports import parse_tool_report
from supervisor.json_rpc.rpc_messages import (
    RpcError,
)
from tests.support.acp_decider import FakeUser, refusal
from tests.support.acp_terminals import TURN, create, make_terminals
from tests.support.driver_context import FakeDriverContext
from tests.support.fake_processes import FakeProcesses, ProcessBehaviour

pytestmark = pytest.mark.usefixtures("no_open_descriptors")


@pytest.fixture
def context(workspace: Path) -> FakeDriverContext:
    return FakeDriverContext(workspace=str(workspace), permissions=Permissions(mode="approve_all"))


# Interrupts -------------------------------------------------------------------------------


async def test_cancelling_a_terminal_affects_no_other(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    name, _ = await create(terminals), await create(terminals)

    await terminals.cancel(name["terminalId"])

    assert [process.is_alive for process in processes.all] == [False, True]
    assert "kill" not in processes.last.signals
    assert not terminals.is_running(name["terminalId"])


async def test_the_end_of_a_turn_kills_its_terminals(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    for turn in (TurnId("before"), TURN, TURN, None):
        await create(terminals, turn)

    terminals.kill_turn(TURN)

    assert [process.is_alive for process in processes.all] == [True, False, False, True]
    terminals.kill_all()
    assert processes.alive == []


async def test_a_command_killed_while_permission_is_asked_never_runs(
    context: FakeDriverContext, terminals: Terminals, user: FakeUser, nursery: trio.Nursery
) -> None:
    context.permissions = Permissions()
    user.answer, user.decides = "allow_once", trio.Event()
    errors: list[RpcError] = []

    async def begin() -> None:
        errors.append(await refusal(create(terminals)))

    nursery.start_soon(begin)
    while not user.asked:
        await trio.lowlevel.checkpoint()
    terminals.kill_turn(TURN)
    user.decides.set()
    await wait_all_tasks_blocked()

    assert [error.message for error in errors] == ["the command was killed before it started"]


async def test_a_command_killed_during_its_launch_never_runs(
    terminals: Terminals, processes: FakeProcesses, nursery: trio.Nursery
) -> None:
    processes.plan(ProcessBehaviour(launch_seconds=5))
    errors: list[RpcError] = []

    async def begin() -> None:
        errors.append(await refusal(create(terminals)))

    nursery.start_soon(begin)
    while not terminals.count:  # a thread checks the folder first, in real time
        await trio.lowlevel.checkpoint()
    terminals.kill_turn(TURN)
    await wait_all_tasks_blocked()

    assert [error.message for error in errors] == ["the command did not start"]
    assert (processes.all, trio.current_time()) == ([], 0)


async def test_a_cancelled_create_leaves_no_process(
    terminals: Terminals, processes: FakeProcesses
) -> None:
    processes.plan(ProcessBehaviour(launch_seconds=5))

    with trio.move_on_after(1):
        await create(terminals)
    await trio.sleep(10)

    assert processes.all == []


async def test_no_command_outlives_the_nursery(
    context: FakeDriverContext, processes: FakeProcesses, user: FakeUser
) -> None:
    async with trio.open_nursery() as nursery:
        terminals = make_terminals(context, processes, nursery, ask=user.ask, grants=Grants())
        await create(terminals)
        nursery.cancel_scope.cancel()

    assert processes.alive == []


# Permissions ------------------------------------------------------------------------------


async def test_running_a_command_asks_for_permission(
    context: FakeDriverContext, terminals: Terminals, processes: FakeProcesses, user: FakeUser
) -> None:
    context.permissions = Permissions()

    error = await refusal(create(terminals, command="rm", args=["-r", "a b"]))

    [question] = user.asked
    assert (question.kind, question.question) == ("execute", "Run rm -r 'a b'")
    assert error.message == "this session is not allowed to execute"
    assert processes.launches == []


async def test_a_granted_command_asks_no_permission_once(
    context: FakeDriverContext, terminals: Terminals, user: FakeUser, grants: Grants
) -> None:
    context.permissions = Permissions()
    facts = parse_tool_report({"kind": "execute", "rawInput": {"command": "make test"}})
    grants.add(facts, "allow_once", paths=())

    await create(terminals, command="bash", args=["-lc", "make test"])
    assert user.asked == []

    await refusal(create(terminals, command="make test"))
    assert len(user.asked) == 1


def folder_in(workspace: str) -> str:
    folder = Path(workspace, "sub")
    folder.mkdir()
    return str(folder)


@pytest.mark.parametrize(
    "asked",
    [
        {"command": "make\ntest"},  # two commands for a shell
        {"command": "make  test"},
        {"command": "./evilsh", "args": ["-c", "make test"]},
        {"command": "make test", "env": [{"name": "PATH", "value": "."}]},
        {"command": "make test", "cwd": "sub"},
    ],
    ids=["newline", "spaces", "program", "variables", "folder"],
)
async def test_a_command_that_differs_from_the_grant_asks_for_permission(
    context: FakeDriverContext,
    terminals: Terminals,
    user: FakeUser,
    grants: Grants,
    asked: dict[str, Any],
) -> None:
    assert context.workspace is not None
    if "cwd" in asked:
        asked = {**asked, "cwd": folder_in(context.workspace)}
    context.permissions = Permissions()
    facts = parse_tool_report({"kind": "execute", "rawInput": {"command": "make test"}})
    grants.add(facts, "allow_always", paths=())

    await refusal(create(terminals, **asked))

    assert len(user.asked) == 1


async def test_a_grant_does_not_cover_another_command(
    context: FakeDriverContext, terminals: Terminals, user: FakeUser, grants: Grants
) -> None:
    context.permissions = Permissions()
    facts = parse_tool_report({"kind": "execute", "rawInput": {"command": "make test"}})
    grants.add(facts, "allow_always", paths=())

    await refusal(create(terminals, command="make test; rm -r ."))

    assert len(user.asked) == 1


@pytest.mark.parametrize(
    "permissions",
    [
        Permissions(mode="deny_all"),
        Permissions(mode="approve_all", tools=["read"]),
        Permissions(mode="approve_all", workspace_paths=[]),
    ],
)
async def test_a_session_without_permission_runs_no_command(
    context: FakeDriverContext,
    terminals: Terminals,
    processes: FakeProcesses,
    permissions: Permissions,
) -> None:
    context.permissions = permissions

    await refusal(create(terminals))

    assert processes.launches == []


async def test_a_process_that_cannot_be_recorded_does_not_run(
    terminals: Terminals, processes: FakeProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(_: object) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("the store is full")

    monkeypatch.setattr(terminals, "_before_exec", fail)

    error = await refusal(create(terminals))

    assert error.message == "the command did not start"
    assert processes.all == []
