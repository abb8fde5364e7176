"""Nonsense at the door: a typed error that says what to do, nothing changed, and we go on.

Every parameter of every public method gets values that cannot be meant.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import attrs
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
    Settings,
    Supervisor,
    SupervisorError,
    Turn,
)
from tests.support.fake_agents import AgentRun, FakeAgent, records

HALF = "\ud800"  # half of a character
NO_IDS: list[Any] = [
    5,
    1.5,
    True,
    None,
    b"s_1",
    [],
    {},
    "",
    "s",
    "S_1",
    "../etc",
    "s_1/..",
    "a" * 65,
    HALF,
]
NO_TEXTS: list[Any] = [
    5,
    1.5,
    None,
    b"hello",
    ["a"],
    {},
    "",
    " \n\t",
    f"a{HALF}",
    "x" * 65537,
    "é" * 40000,
]
NO_WORDS: list[Any] = [5, None, True, b"queue", [], {}, "", "nonsense", HALF]
NO_NAMES: list[Any] = [5, 1.5, True, b"x", ["a"], {"a": "b"}, "", " ", HALF, "x" * 2000]
NO_SECONDS: list[Any] = [0, -1, -0.5, math.nan, math.inf, "3", True, [], {}, 10**400]
NO_COUNTS: list[Any] = [0, -1, 1.5, math.nan, "3", None, True, []]
NO_PLACES: list[Any] = [-1, 1.5, math.nan, "3", None, True, []]
NO_TAGS: list[Any] = [
    ["t" * 100] * 200,
    5,
    1.5,
    True,
    "a",
    [5],
    [""],
    [" "],
    [None],
    [HALF],
    [["a"]],
    object,
]
NO_CUSTOM: list[Any] = [5, True, "a", [("a", "b")], {"a": 5}, {5: "a"}, {"a": None}, object]
NO_KEYS: list[Any] = [
    5,
    b"a:b:c",
    [],
    {},
    "",
    "a",
    "a:b",
    "a:b:c:d:e",
    "a::c",
    ":b:c",
    "a:b:",
    "a:b:c%zz",
    HALF,
]
NO_ATTACHMENTS: list[Any] = [5, 1.5, True, "abc", b"abc", ["a"], [5], [None], {"a": 1}, object]
NO_INPUTS: list[Any] = [5, None, [], {}, "", "in_unknown", HALF]
NO_TIMES: list[Any] = [-1, math.nan, math.inf, "3", True, [], {}, 10**400]
NO_FLAGS: list[Any] = [5, 1.0, None, "no", [], {}]
NO_PATHS: list[Any] = [5, None, True, b"there", [], {}, "", "a\0b", HALF, "x" * 300]
NO_CURSORS: list[Any] = [5, True, b"Mg==", [], {}, "", "nonsense", "é", HALF, "LTE="]
TOO_LARGE = "MTAwMDAwMDAwMDAwMDAwMDAwMDA="  # a cursor of which no page ever was the end

Call: TypeAlias = Callable[["Ground", Any], Awaitable[object]]


@attrs.define
class Ground:
    """A supervisor in full swing: one session is busy, asks and has a queue, the other is idle.

    Besides there is one that is over, and a file that could be imported.
    """

    sup: Supervisor
    busy: Session
    idle: Session
    stopped: Session
    queued: str
    request: str
    file: Path

    async def picture(self) -> list[object]:
        """All that could have changed."""
        infos = (await self.sup.list()).items
        found: list[object] = [infos, await self.sup.permissions()]
        for info in infos:
            found.append(await records(self.sup.session(info.id)))
            found.append(await self.sup.session(info.id).inputs())
        return found


@pytest.fixture
async def ground(sup: Supervisor, session: Session, run: AgentRun, tmp_path: Path) -> Ground:
    queued = await session.send("second")
    run.begin(run.turn.ask("may I?", tool="bash"))
    idle, stopped = await sup.create("echo"), await sup.create("echo")
    await stopped.stop()
    file = tmp_path / "session.jsonl"
    file.write_text(await stopped.export("jsonl"))
    await trio.testing.wait_all_tasks_blocked()
    [request] = await sup.permissions()
    return Ground(sup, session, idle, stopped, queued.input_id, request.id, file)


async def watch(session: Session, after: Any) -> None:  # noqa: ANN401
    async with session.watch(after=after):
        pass


async def watch_all(sup: Supervisor, after: Any) -> None:  # noqa: ANN401
    async with sup.watch(after=after):
        pass


OPTIONS: dict[str, list[Any]] = {
    "name": NO_NAMES,
    "title": NO_NAMES,
    "tags": [*NO_TAGS, None],
    "custom": NO_CUSTOM,
    "workspace": [5, True, b"/srv", [], {}, "", " ", HALF, "a\0b"],
    "limits": [5, "x", {}, [], True],
    "permissions": [5, "approve_all", {}, []],
    "restart": [5, "never", {}, []],
    "ladder": [5, "ask", {}, []],
    "queue_cap": [0, -1, 1001, 1.5, "3", True, []],
    "max_text_bytes": [0, -1, 1.5, "3", True, []],
    "max_turn_bytes": [0, -1, 1.5, "3", True, []],
    "steer_fallback": [5, "", "nonsense", [], {}],
    "permission_timeout_seconds": [-1, math.nan, "3", True, [], 10**400],
    "suspend_after_seconds": [-1, math.nan, "3", True, [], 10**400],
    "quiet_after_seconds": [-1, math.nan, "3", True, [], 10**400],
    "stalled_after_seconds": [-1, math.nan, math.inf, "3", True, [], 10**400],
    "tool_stalled_after_seconds": [-1, math.nan, math.inf, "3", True, [], 10**400],
    "on_stall": [5, "", "nonsense", [], {}],
    "turn_deadline_seconds": [-1, math.nan, math.inf, "3", True, [], 10**400],
    "answers_for_children": [5, "yes", 1.0, [], {}],
}

METHODS: dict[str, tuple[Call, list[Any]]] = {
    # Sessions
    "send text": (lambda g, bad: g.idle.send(bad), NO_TEXTS),
    "send attachments": (lambda g, bad: g.idle.send("a", attachments=bad), NO_ATTACHMENTS),
    "send when_busy": (lambda g, bad: g.idle.send("a", when_busy=bad), NO_WORDS),
    "send idempotency_key": (lambda g, bad: g.idle.send("a", idempotency_key=bad), NO_NAMES),
    "send ttl_seconds": (lambda g, bad: g.idle.send("a", ttl_seconds=bad), NO_SECONDS),
    "send if_stopped": (lambda g, bad: g.idle.send("a", if_stopped=bad), NO_WORDS),
    "send queued": (lambda g, bad: g.idle.send("a", queued=bad), NO_WORDS),
    "send text while busy": (lambda g, bad: g.busy.send(bad, when_busy="interrupt"), NO_TEXTS),
    "prompt text": (lambda g, bad: g.idle.prompt(bad), NO_TEXTS),
    "prompt attachments": (lambda g, bad: g.idle.prompt("a", attachments=bad), NO_ATTACHMENTS),
    "prompt when_busy": (lambda g, bad: g.idle.prompt("a", when_busy=bad), NO_WORDS),
    "prompt idempotency_key": (lambda g, bad: g.idle.prompt("a", idempotency_key=bad), NO_NAMES),
    "prompt ttl_seconds": (lambda g, bad: g.idle.prompt("a", ttl_seconds=bad), NO_SECONDS),
    "prompt if_stopped": (lambda g, bad: g.idle.prompt("a", if_stopped=bad), NO_WORDS),
    "input input_id": (lambda g, bad: g.busy.input(bad), NO_INPUTS),
    "result input_id": (lambda g, bad: g.busy.result(bad), NO_INPUTS),
    "steer text": (lambda g, bad: g.busy.steer(bad), NO_TEXTS),
    "steer idempotency_key": (lambda g, bad: g.busy.steer("a", idempotency_key=bad), NO_NAMES),
    "steer ttl_seconds": (lambda g, bad: g.busy.steer("a", ttl_seconds=bad), NO_SECONDS),
    "spawn agent": (lambda g, bad: g.idle.spawn(bad, "a"), [*NO_NAMES, None, "nobody"]),
    "spawn text": (lambda g, bad: g.idle.spawn("echo", bad), NO_TEXTS),
    "spawn role": (lambda g, bad: g.idle.spawn("echo", "a", role=bad), NO_NAMES),
    "spawn lifetime": (lambda g, bad: g.idle.spawn("echo", "a", lifetime=bad), NO_WORDS),
    "spawn on_end": (lambda g, bad: g.idle.spawn("echo", "a", on_end=bad), NO_WORDS),
    "spawn ttl_seconds": (lambda g, bad: g.idle.spawn("echo", "a", ttl_seconds=bad), NO_SECONDS),
    "spawn idempotency_key": (
        lambda g, bad: g.idle.spawn("echo", "a", idempotency_key=bad),
        NO_NAMES,
    ),
    "edit_input input_id": (lambda g, bad: g.busy.edit_input(bad, "a"), NO_INPUTS),
    "edit_input text": (lambda g, bad: g.busy.edit_input(g.queued, bad), NO_TEXTS),
    "move_input input_id": (lambda g, bad: g.busy.move_input(bad, 0), NO_INPUTS),
    "move_input position": (lambda g, bad: g.busy.move_input(g.queued, bad), NO_PLACES),
    "promote_input input_id": (lambda g, bad: g.busy.promote_input(bad), NO_INPUTS),
    "cancel_input input_id": (lambda g, bad: g.busy.cancel_input(bad), NO_INPUTS),
    "interrupt scope": (
        lambda g, bad: g.busy.interrupt(bad),
        [5, None, True, b"turn", [], {}, "", "turns", "tool_call", HALF],
    ),
    "interrupt reason": (lambda g, bad: g.busy.interrupt(reason=bad), NO_NAMES),
    "interrupt replace_with": (
        lambda g, bad: g.busy.interrupt(replace_with=bad),
        [bad for bad in NO_TEXTS if bad is not None],
    ),
    "interrupt queued": (lambda g, bad: g.busy.interrupt(queued=bad), NO_WORDS),
    "stop when": (lambda g, bad: g.busy.stop(when=bad), NO_WORDS),
    "append role": (lambda g, bad: g.idle.append(bad, "a"), [*NO_WORDS, "system"]),
    "append text": (lambda g, bad: g.idle.append("user", bad), NO_TEXTS),
    "fork at_turn": (
        lambda g, bad: g.busy.fork(at_turn=bad),
        [5, True, [], {}, "", "turn_unknown", HALF],
    ),
    "set title": (lambda g, bad: g.idle.set(title=bad), NO_NAMES),
    "set tags": (lambda g, bad: g.idle.set(tags=bad), NO_TAGS),
    "set custom": (lambda g, bad: g.idle.set(custom=bad), NO_CUSTOM),
    "set limits": (lambda g, bad: g.idle.set(limits=bad), [5, True, "x", {}, []]),
    "remove_rule rule_id": (lambda g, bad: g.idle.remove_rule(bad), NO_INPUTS),
    "watch after": (lambda g, bad: watch(g.idle, bad), NO_PLACES),
    "export format": (lambda g, bad: g.busy.export(bad), [*NO_WORDS, "pdf"]),
    "export redact": (lambda g, bad: g.busy.export(redact=bad), NO_FLAGS),
    "repair dry_run": (lambda g, bad: g.stopped.repair(dry_run=bad), NO_FLAGS),
    "repair force": (lambda g, bad: g.stopped.repair(force=bad), NO_FLAGS),
    "replay at": (
        lambda g, bad: g.idle.replay(bad),
        [*NO_COUNTS, {}, 1_000, 2**63, 10**400],
    ),
    # The supervisor
    "reload agents": (lambda g, bad: g.sup.reload(agents=bad), [5, "echo", ["echo"], [None]]),
    "reload settings": (lambda g, bad: g.sup.reload(settings=bad), [5, "echo", {}, [], object]),
    "create agent": (lambda g, bad: g.sup.create(bad), [*NO_NAMES, None, "nobody"]),
    "create key": (lambda g, bad: g.sup.create("echo", key=bad), NO_KEYS),
    "create idempotency_key": (
        lambda g, bad: g.sup.create("echo", idempotency_key=bad),
        NO_NAMES,
    ),
    "get_or_create key": (lambda g, bad: g.sup.get_or_create(bad), [None, *NO_KEYS]),
    "get_or_create agent": (
        lambda g, bad: g.sup.get_or_create("a:b:c", agent=bad),
        ["nobody", 5, ["a"], HALF],
    ),
    "new key": (lambda g, bad: g.sup.new(bad, agent="echo"), [None, *NO_KEYS]),
    "new agent": (lambda g, bad: g.sup.new("a:b:c", agent=bad), ["nobody", 5, ["a"], HALF]),
    "reset key": (lambda g, bad: g.sup.reset(bad), [None, *NO_KEYS]),
    "get id": (lambda g, bad: g.sup.get(bad), [*NO_IDS, "s_unknown_1"]),
    "delete id": (lambda g, bad: g.sup.delete(bad), [*NO_IDS, "s_unknown_1"]),
    "list limit": (lambda g, bad: g.sup.list(limit=bad), NO_COUNTS),
    "list cursor": (lambda g, bad: g.sup.list(cursor=bad), NO_CURSORS),
    "list text": (lambda g, bad: g.sup.list(text=bad), [5, True, [], {}, b"a"]),
    "list created_after": (lambda g, bad: g.sup.list(created_after=bad), NO_TIMES),
    "list created_before": (lambda g, bad: g.sup.list(created_before=bad), NO_TIMES),
    "list updated_after": (lambda g, bad: g.sup.list(updated_after=bad), NO_TIMES),
    "list updated_before": (lambda g, bad: g.sup.list(updated_before=bad), NO_TIMES),
    "search text": (lambda g, bad: g.sup.search(bad), [None, *NO_NAMES]),
    "search session": (
        lambda g, bad: g.sup.search("a", session=bad),
        [bad for bad in NO_IDS if bad is not None],
    ),
    "search limit": (lambda g, bad: g.sup.search("a", limit=bad), NO_COUNTS),
    "search cursor": (lambda g, bad: g.sup.search("a", cursor=bad), NO_CURSORS),
    "import_ path": (lambda g, bad: g.sup.import_(bad), [*NO_PATHS, "/", "/nowhere/at.all"]),
    "import_ format": (lambda g, bad: g.sup.import_(g.file, bad), [*NO_WORDS, "markdown"]),
    "import_ agent": (lambda g, bad: g.sup.import_(g.file, agent=bad), NO_NAMES),
    "backup path": (lambda g, bad: g.sup.backup(bad), [*NO_PATHS, "/", "/nowhere/at.all"]),
    "cleanup older_than_seconds": (
        lambda g, bad: g.sup.cleanup(older_than_seconds=bad),
        NO_TIMES,
    ),
    "cleanup keep_last": (lambda g, bad: g.sup.cleanup(keep_last=bad), [-1, 1.5, "3", True, []]),
    "cleanup max_bytes": (lambda g, bad: g.sup.cleanup(max_bytes=bad), [-1, 1.5, "3", True, []]),
    "cleanup dry_run": (lambda g, bad: g.sup.cleanup(dry_run=bad), NO_FLAGS),
    "list agent": (lambda g, bad: g.sup.list(agent=bad), [5, [], {}, b"echo"]),
    "list phase": (lambda g, bad: g.sup.list(phase=bad), [5, [], {}, "", "nonsense"]),
    "list badge": (lambda g, bad: g.sup.list(badge=bad), [5, [], {}, "", "nonsense"]),
    "list tag": (lambda g, bad: g.sup.list(tag=bad), [5, [], {}, b"a"]),
    "list workspace": (lambda g, bad: g.sup.list(workspace=bad), [5, [], {}, b"/srv"]),
    "list channel": (lambda g, bad: g.sup.list(channel=bad), [5, [], {}, b"irc"]),
    "list peer": (lambda g, bad: g.sup.list(peer=bad), [5, [], {}, b"ann"]),
    "list parent": (lambda g, bad: g.sup.list(parent=bad), [5, [], {}, b"s_1"]),
    "list root": (lambda g, bad: g.sup.list(root=bad), [5, [], {}, b"s_1"]),
    "tree root": (lambda g, bad: g.sup.tree(bad), [*NO_IDS[:3], *NO_IDS[4:], "s_unknown_1"]),
    "list archived": (lambda g, bad: g.sup.list(archived=bad), [5, [], {}, "yes"]),
    "answer request_id": (lambda g, bad: g.sup.answer(bad, "allow_once"), NO_INPUTS),
    "answer decision": (
        lambda g, bad: g.sup.answer(g.request, bad),
        [*NO_WORDS, "maybe", "cancelled"],
    ),
    "watch all after": (lambda g, bad: watch_all(g.sup, bad), NO_PLACES),
}


def creating(option: str, how: str) -> Call:
    async def create(ground: Ground, bad: Any) -> None:  # noqa: ANN401
        options: dict[str, Any] = {option: bad}
        match how:
            case "create":
                await ground.sup.create("echo", **options)
            case "get_or_create":
                await ground.sup.get_or_create("echo:irc:ann", **options)
            case "new":
                await ground.sup.new("echo:irc:ann", **options)
            case "spawn":
                await ground.idle.spawn("echo", "a", **options)

    return create


def cases() -> Iterator[Any]:
    for name, (call, values) in METHODS.items():
        yield pytest.param(call, values, id=name)
    for option, values in OPTIONS.items():
        yield pytest.param(creating(option, "create"), values, id=f"create {option}")
        for how in ("get_or_create", "new", "spawn"):
            yield pytest.param(creating(option, how), values[:1], id=f"{how} {option}")


def shown(bad: object) -> str:
    # Without addresses: every worker must give a test the same name.
    return re.sub(" at 0x[0-9a-f]+", "", ascii(bad))[:40]


async def complaint(ground: Ground, call: Call, bad: object) -> str | None:
    """What is wrong with how this was refused, if anything is."""
    before = await ground.picture()
    try:
        await call(ground, bad)
    except SupervisorError as refused:
        if not refused.hint.strip():
            return "no hint"
    except Exception as error:  # noqa: BLE001 - this is what must not come out
        return repr(error)
    else:
        return "was taken"
    await trio.testing.wait_all_tasks_blocked()
    return None if await ground.picture() == before else "changed something"


@pytest.mark.parametrize(("call", "values"), list(cases()))
async def test_an_invalid_argument_is_refused_and_changes_nothing(
    ground: Ground, call: Call, values: list[object]
) -> None:
    complaints = {shown(bad): await complaint(ground, call, bad) for bad in values}

    assert {bad: said for bad, said in complaints.items() if said} == {}
    assert (await ground.idle.prompt("still here")).text == "still here"


def test_every_parameter_of_every_method_is_tried() -> None:
    tried = {*METHODS, *(f"create {option}" for option in OPTIONS)}
    parameters = {
        f"{name} {parameter}"
        for owner in (Session, Supervisor)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
        for parameter in list(inspect.signature(method).parameters)[1:]
        if parameter != "options"
    }

    # Those two have a test of their own below.
    assert parameters - tried == {"session id", "exists id"}


# Unknown sessions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", NO_IDS, ids=shown)
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
}


@pytest.mark.parametrize("name", UNKNOWN)
async def test_a_handle_on_nothing_finds_nothing_and_leaves_nothing(
    sup: Supervisor, name: str
) -> None:
    session = sup.session("s_unknown_1")

    with pytest.raises(SessionNotFound) as missing:
        await UNKNOWN[name](session)
    await trio.testing.wait_all_tasks_blocked()

    assert missing.value.hint
    assert sup._parts.registry._slots == {}
    assert (await sup.list()).items == ()


def test_every_method_of_a_handle_is_tried_on_nothing() -> None:
    methods = {name for name in dir(Session) if not name.startswith("_")} - {"id"}

    assert methods == UNKNOWN.keys()


# Bounds -------------------------------------------------------------------------------------------


async def test_text_is_measured_in_bytes(sup: Supervisor) -> None:
    session = await sup.create("echo", max_text_bytes=10)

    assert (await session.prompt("é" * 5)).text == "é" * 5
    with pytest.raises(InputTooLarge, match="11 bytes of 10"):
        await session.send("é" * 5 + "x")


async def test_a_session_may_choose_its_own_bounds_within_reason(sup: Supervisor) -> None:
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


# Names without end, and numbers without sense -----------------------------------------------------


@pytest.mark.parametrize("field", ["agent", "tag", "workspace", "channel", "peer", "text"])
async def test_a_list_filter_that_matches_no_session_returns_an_empty_page(
    on_file: Supervisor, field: str
) -> None:
    await on_file.create("echo", title="a")

    try:
        found: tuple[Any, ...] = (await on_file.list(**{field: HALF})).items  # type: ignore[arg-type]
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
async def test_a_number_beyond_all_is_answered_or_refused(on_file: Supervisor, name: str) -> None:
    await (await on_file.create("echo")).prompt("a")

    with contextlib.suppress(ConfigError):
        assert (await LARGE[name](on_file)).next is None


@pytest.fixture
async def on_file(tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with supervisor.open(tmp_path / "state.db") as opened:
        yield opened


# Requests that are dead ---------------------------------------------------------------------------


async def test_answering_twice_is_a_conflict(ground: Ground) -> None:
    await ground.sup.answer(ground.request, "allow_once")

    with pytest.raises(PermissionConflict) as conflict:
        await ground.sup.answer(ground.request, "reject_once")

    [answered] = await records(ground.busy, "permission_answered")
    assert conflict.value.hint
    assert answered.body["decision"] == "allow_once"


async def test_the_first_of_many_concurrent_answers_decides(ground: Ground) -> None:
    heard: list[str] = []

    async def answer() -> None:
        try:
            await ground.sup.answer(ground.request, "allow_once")
            heard.append("decided")
        except PermissionConflict:
            heard.append("too late")

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(answer)

    assert sorted(heard) == ["decided"] + ["too late"] * 9
    assert len(await records(ground.busy, "permission_answered")) == 1


@pytest.mark.parametrize("end", ["interrupt", "stop", "delete", "time-out"])
async def test_a_request_whose_turn_is_over_cannot_be_answered(ground: Ground, end: str) -> None:
    match end:
        case "interrupt":
            await ground.busy.interrupt()
        case "stop":
            await ground.busy.stop()
        case "delete":
            await ground.sup.delete(ground.busy.id)
        case _:
            await trio.sleep(Settings().permission_timeout_seconds + 1.0)

    with pytest.raises((PermissionConflict, PermissionNotFound)) as dead:
        await ground.sup.answer(ground.request, "allow_always")

    assert dead.value.hint
    assert await ground.sup.permissions() == ()


async def test_a_decision_that_is_not_offered_leaves_the_request_open(ground: Ground) -> None:
    with pytest.raises(InvalidDecision, match="perhaps") as refused:
        await ground.sup.answer(ground.request, "perhaps")  # type: ignore[arg-type]

    assert "allow_once" in refused.value.hint
    assert [request.id for request in await ground.sup.permissions()] == [ground.request]


# Opening ------------------------------------------------------------------------------------------


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
async def test_a_supervisor_that_cannot_be_meant_is_not_opened(
    field: str,
    bad: Any,  # noqa: ANN401
) -> None:
    with pytest.raises(ConfigError) as refused:
        async with supervisor.open(**{field: bad}):
            pass

    assert refused.value.hint


@pytest.mark.parametrize(
    "names", [5, "bash", [5], [""], [None], [["bash"]], [{}], [HALF]], ids=shown
)
def test_rights_are_lists_of_names(names: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError) as refused:
        Permissions(tools=names)

    assert refused.value.hint


@pytest.mark.parametrize("name", NO_NAMES[:-2], ids=shown)
def test_an_agent_needs_a_name(name: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError) as refused:
        supervisor.agent(name)(nobody)

    assert refused.value.hint


@pytest.mark.parametrize("function", [5, None, "nobody", lambda turn: None], ids=shown)
def test_an_agent_needs_an_async_function(function: Any) -> None:  # noqa: ANN401
    with pytest.raises(ConfigError) as refused:
        supervisor.agent("a")(function)

    assert refused.value.hint
