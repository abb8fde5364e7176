"""Requests that cannot be served: unknown sessions, bounds, dead requests, opening."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

import supervisor
from supervisor import (
    ConfigError,
    InputTooLarge,
    InvalidDecision,
    PermissionConflict,
    PermissionNotFound,
    Permissions,
    Session,
    SessionNotFound,
    Supervisor,
    Turn,
)
from tests.support.bad_values import BAD_IDS, BAD_NAMES, LONE_SURROGATE, Scenario, shown, watch
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.permission_requests import begin_turn

TOO_LARGE = "MTAwMDAwMDAwMDAwMDAwMDAwMDA="  # a cursor of which no page ever was the end


# Unknown sessions -----------------------------------------------------------------------


@pytest.fixture
async def scenario(sup: Supervisor, session: Session, run: AgentRun, tmp_path: Path) -> Scenario:
    return await Scenario.create(sup, session, run, tmp_path)


@pytest.mark.parametrize("bad", BAD_IDS, ids=shown)
async def test_an_invalid_id_is_session_not_found(sup: Supervisor, bad: Any) -> None:  # noqa: ANN401
    with pytest.raises(SessionNotFound) as refused:
        sup.session(bad)

    assert refused.value.hint
    assert not await sup.exists(bad)


UNKNOWN: dict[str, Callable[[Session], Awaitable[object]]] = {
    "send": lambda session: session.send("a"),
    "prompt": lambda session: session.prompt("a"),
    "input": lambda session: session.input("in_1"),
    "result": lambda session: session.result("in_1"),
    "steer": lambda session: session.steer("a"),
    "spawn": lambda session: session.spawn("echo", "a"),
    "wait": lambda session: session.wait(),
    "why": lambda session: session.why(),
    "inputs": lambda session: session.inputs(),
    "edit_input": lambda session: session.edit_input("in_1", "a"),
    "move_input": lambda session: session.move_input("in_1", 0),
    "promote_input": lambda session: session.promote_input("in_1"),
    "cancel_input": lambda session: session.cancel_input("in_1"),
    "interrupt": lambda session: session.interrupt(),
    "info": lambda session: session.info(),
    "stop": lambda session: session.stop(),
    "wait_idle": lambda session: session.wait_idle(),
    "wait_stopped": lambda session: session.wait_stopped(),
    "resume": lambda session: session.resume(),
    "clear": lambda session: session.clear(),
    "append": lambda session: session.append("user", "a"),
    "fork": lambda session: session.fork(),
    "archive": lambda session: session.archive(),
    "unarchive": lambda session: session.unarchive(),
    "set": lambda session: session.set(title="a"),
    "rules": lambda session: session.rules(),
    "remove_rule": lambda session: session.remove_rule("req_1"),
    "watch": lambda session: watch(session, 0),
    "transcript": lambda session: session.transcript(),
    "history": lambda session: session.history(),
    "export": lambda session: session.export(),
    "repair": lambda session: session.repair(),
    "replay": lambda session: session.replay(1),
    "seen": lambda session: session.seen(1),
}


@pytest.mark.parametrize("name", UNKNOWN)
async def test_a_handle_of_an_unknown_session_raises_and_leaves_nothing(
    sup: Supervisor, name: str
) -> None:
    session = sup.session("s_unknown_1")

    with pytest.raises(SessionNotFound) as missing:
        await UNKNOWN[name](session)
    await trio.testing.wait_all_tasks_blocked()

    assert missing.value.hint
    assert sup._parts.registry._slots == {}
    assert (await sup.list()).items == ()


def test_every_method_of_a_handle_is_tried_on_an_unknown_session() -> None:
    methods = {name for name in dir(Session) if not name.startswith("_")} - {"id"}

    assert methods == UNKNOWN.keys()


# Bounds ---------------------------------------------------------------------------------


async def test_text_is_measured_in_bytes(sup: Supervisor) -> None:
    session = await sup.create("echo", max_text_bytes=10)

    assert (await session.prompt("é" * 5)).text == "é" * 5
    with pytest.raises(InputTooLarge, match="11 bytes of 10"):
        await session.send("é" * 5 + "x")


async def test_a_session_may_choose_its_own_bounds(sup: Supervisor) -> None:
    session = await sup.create("scripted", queue_cap=1)
    await session.send("sleep 1000")
    await session.send("second")

    with pytest.raises(supervisor.QueueFull) as full:
        await session.send("third")

    assert full.value.hint
    assert (await session.info()).queued == 1


async def test_attachments_are_bounded(sup: Supervisor) -> None:
    session = await sup.create("echo")

    with pytest.raises(InputTooLarge):
        await session.send("a", attachments=[{"data": "x" * 70_000}])

    assert (await session.info()).turns == 0


async def test_unusual_but_valid_text_is_stored_unchanged(sup: Supervisor) -> None:
    text = (
        "nul \0, quote ' \" ; -- , right-to-left \u202e, emoji \U0001f600, zwj \u200d, bom \ufeff!"
    )
    session = await sup.create("echo")

    await session.prompt(text)

    assert (await session.transcript())[0].text == text


async def test_an_unknown_option_is_refused_by_name(sup: Supervisor) -> None:
    with pytest.raises(ConfigError, match="colour"):
        await sup.get_or_create("echo:irc:ann", colour="red")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="colour"):
        await sup.new("echo:irc:ann", colour="red")  # type: ignore[call-arg]

    assert (await sup.list()).items == ()


# Names without end, and numbers without sense -------------------------------------------


@pytest.mark.parametrize("field", ["agent", "tag", "workspace", "channel", "peer", "text"])
async def test_a_list_filter_that_matches_no_session_returns_an_empty_page(
    on_file: Supervisor, field: str
) -> None:
    await on_file.create("echo", title="a")

    try:
        found: tuple[Any, ...] = (await on_file.list(**{field: LONE_SURROGATE})).items  # type: ignore[arg-type]
    except ConfigError:
        found = ()

    assert found == ()


LARGE: dict[str, Callable[[Supervisor], Awaitable[Any]]] = {
    "list limit": lambda sup: sup.list(limit=2**70),
    "list cursor": lambda sup: sup.list(cursor=TOO_LARGE),
    "list created_after": lambda sup: sup.list(created_after=2**70),
    "list updated_before": lambda sup: sup.list(updated_before=2**70),
    "search limit": lambda sup: sup.search("a", limit=2**63),
    "search cursor": lambda sup: sup.search("a", cursor=TOO_LARGE),
}


@pytest.mark.parametrize("name", LARGE)
async def test_a_huge_number_is_answered_or_refused(on_file: Supervisor, name: str) -> None:
    await (await on_file.create("echo")).prompt("a")

    with contextlib.suppress(ConfigError):
        assert (await LARGE[name](on_file)).next is None


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with supervisor.open(tmp_path / "state.db") as opened:
        yield opened


# Requests that are dead -----------------------------------------------------------------


async def test_answering_twice_is_a_conflict(scenario: Scenario) -> None:
    await scenario.sup.answer(scenario.request, "allow_once")

    with pytest.raises(PermissionConflict) as conflict:
        await scenario.sup.answer(scenario.request, "reject_once")

    [answered] = await records(scenario.busy, "permission_answered")
    assert conflict.value.hint
    assert answered.body["decision"] == "allow_once"


async def test_the_first_of_many_concurrent_answers_decides(scenario: Scenario) -> None:
    heard: list[str] = []

    async def answer() -> None:
        try:
            await scenario.sup.answer(scenario.request, "allow_once")
            heard.append("decided")
        except PermissionConflict:
            heard.append("too late")

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(answer)

    assert sorted(heard) == ["decided"] + ["too late"] * 9
    assert len(await records(scenario.busy, "permission_answered")) == 1


@pytest.mark.parametrize("end", ["interrupt", "stop", "delete", "time-out"])
async def test_a_permission_request_of_an_ended_turn_cannot_be_answered(
    sup: Supervisor, fake_agent: FakeAgent, tmp_path: Path, end: str
) -> None:
    session = await sup.create("fake", permission_timeout_seconds=300.0)
    scenario = await Scenario.create(sup, session, await begin_turn(session, fake_agent), tmp_path)
    match end:
        case "interrupt":
            await scenario.busy.interrupt()
        case "stop":
            await scenario.busy.stop()
        case "delete":
            await scenario.sup.delete(scenario.busy.id)
        case _:
            await trio.sleep(301.0)

    with pytest.raises((PermissionConflict, PermissionNotFound)) as dead:
        await scenario.sup.answer(scenario.request, "allow_always")

    assert dead.value.hint
    assert await scenario.sup.permissions() == ()


async def test_a_decision_that_is_not_offered_leaves_the_request_open(scenario: Scenario) -> None:
    with pytest.raises(InvalidDecision, match="perhaps") as refused:
        await scenario.sup.answer(scenario.request, "perhaps")  # type: ignore[arg-type]

    assert "allow_once" in refused.value.hint
    assert [request.id for request in await scenario.sup.permissions()] == [scenario.request]


# Opening --------------------------------------------------------------------------------


async def nobody(turn: Turn) -> None:
    """An agent without a name."""


OPENING: dict[str, list[Any]] = {
    "path": [5, None, [], b":memory:", "", "a\0b"],
    "agents": [5, None, [5], [None], [object()], "echo", [nobody], [FakeAgent("echo").agent]],
    "settings": [5, {}, "x", []],
}


@pytest.mark.parametrize(
    ("field", "bad"),
    [
        pytest.param(name, bad, id=f"{name} {shown(bad)}")
        for name, values in OPENING.items()
        for bad in values
    ],
)
async def test_open_refuses_invalid_options(
    field: str,
    bad: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(ConfigError) as refused:
        async with supervisor.open(**{field: bad}):
            pass

    assert refused.value.hint


@pytest.mark.parametrize(
    "names", [5, "bash", [5], [""], [None], [["bash"]], [{}], [LONE_SURROGATE]], ids=shown
)
def test_rights_are_lists_of_names(names: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError) as refused:
        Permissions(tools=names)

    assert refused.value.hint


@pytest.mark.parametrize("name", BAD_NAMES[:-2], ids=shown)
def test_an_agent_needs_a_name(name: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError) as refused:
        supervisor.agent(name)(nobody)

    assert refused.value.hint


@pytest.mark.parametrize("function", [5, None, "nobody", lambda turn: None], ids=shown)
def test_an_agent_needs_an_async_function(function: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError) as refused:
        supervisor.agent("a")(function)

    assert refused.value.hint


def test_open_under_asyncio_is_refused_with_what_to_do() -> None:
    async def main() -> None:
        async with supervisor.open():
            raise AssertionError

    with pytest.raises(ConfigError, match="needs trio") as refusal:
        asyncio.run(main())

    assert "trio.run" in refusal.value.hint
