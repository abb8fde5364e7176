"""Nonsense at the door: a typed error that says what to do, nothing changed, and we go on.

Every parameter of every public method gets values that cannot be meant.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import trio
import trio.testing

from supervisor import (
    Permissions,
    Session,
    Supervisor,
    SupervisorError,
)
from tests.support.bad_values import BAD_IDS, BAD_NAMES, LONE_SURROGATE, Scenario, shown, watch
from tests.support.fake_agents import AgentRun

BAD_TEXTS: list[Any] = [
    5,
    1.5,
    None,
    b"hello",
    ["a"],
    {},
    "",
    " \n\t",
    f"a{LONE_SURROGATE}",
    "x" * 65537,
    "é" * 40000,
]


CONTROLS = ["a\nb", "\x1b[31mred", "a\x00", "a\x7f", "a\x85b", "a\u2028b"]
BAD_LABELS: list[Any] = [*CONTROLS, *BAD_NAMES]
BAD_WORDS: list[Any] = [5, None, True, b"queue", [], {}, "", "nonsense", LONE_SURROGATE]
BAD_SECONDS: list[Any] = [0, -1, -0.5, math.nan, math.inf, "3", True, [], {}, 10**400]
BAD_COUNTS: list[Any] = [0, -1, 1.5, math.nan, "3", None, True, []]
BAD_PLACES: list[Any] = [-1, 1.5, math.nan, "3", None, True, []]
BAD_TAGS: list[Any] = [
    ["t" * 100] * 200,
    5,
    1.5,
    True,
    "a",
    [5],
    [""],
    [" "],
    [None],
    [LONE_SURROGATE],
    [["a"]],
    ["a\nb"],
    object,
]


BAD_CUSTOM: list[Any] = [
    5,
    True,
    "a",
    [("a", "b")],
    {"a": 5},
    {5: "a"},
    {"a": None},
    {"a\n": "b"},
    object,
]
BAD_OPTIONS: list[Any] = [
    5,
    True,
    "model",
    ["model"],
    [("model", "large")],
    {"model": 5},
    {5: "large"},
    {"": "large"},
    {"model": ""},
    {"a\nb": "c"},
    {"model": LONE_SURROGATE},
    {"model": "x" * 2000},
    {f"option {number}": "x" for number in range(51)},
    object,
]
BAD_KEYS: list[Any] = [
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
    *(f"echo:irc:{name}" for name in CONTROLS),
    LONE_SURROGATE,
]


BAD_ATTACHMENTS: list[Any] = [5, 1.5, True, "abc", b"abc", ["a"], [5], [None], {"a": 1}, object]
BAD_INPUTS: list[Any] = [5, None, [], {}, "", "in_unknown", LONE_SURROGATE]
BAD_TIMES: list[Any] = [-1, math.nan, math.inf, "3", True, [], {}, 10**400]
BAD_FLAGS: list[Any] = [5, 1.0, None, "no", [], {}]
BAD_PATHS: list[Any] = [5, None, True, b"there", [], {}, "", "a\0b", LONE_SURROGATE, "x" * 300]
BAD_CURSORS: list[Any] = [5, True, b"Mg==", [], {}, "", "nonsense", "é", LONE_SURROGATE, "LTE="]
Call: TypeAlias = Callable[["Scenario", Any], Awaitable[object]]


@pytest.fixture
async def scenario(sup: Supervisor, session: Session, run: AgentRun, tmp_path: Path) -> Scenario:
    return await Scenario.create(sup, session, run, tmp_path)


async def watch_all(sup: Supervisor, after: Any) -> None:  # noqa: ANN401
    async with sup.watch(after=after):
        pass


async def watch_rows(sup: Supervisor, sessions: Any, after: Any = 0) -> None:  # noqa: ANN401
    async with sup.watch_sessions(sessions, after=after):
        pass


BAD_SERVERS: list[Any] = [
    5,
    "docs",
    {"name": "docs", "command": "/bin/docs"},
    [5],
    [{}],
    [{"name": "docs"}],
    [{"name": 5, "command": "/bin/docs"}],
    [{"name": "understudy", "command": "/bin/docs"}],
    [{"name": "docs", "command": 5}],
    [{"name": "docs", "command": "/bin/docs", "env": 5}],
    [{"name": "docs", "command": "/bin/docs"}] * 2,
    [{"name": "docs", "url": 5}],
    [{"name": "docs", "url": "http://127.0.0.1/", "type": "pigeon"}],
    [{"name": "docs", "command": "/bin/docs", "args": ["a" * 70_000]}],
]
BAD_TRACES: list[Any] = [
    5,
    "00-1",
    [],
    {"traceparent": 5},
    {"traceparent": "00-1"},
    {"tracestate": "a=1"},
    {"traceparent": "00-" + "0" * 32 + "-" + "1" * 16 + "-01"},
    {"baggage": "a" * 9_000},
    {"else": "a"},
]

OPTIONS: dict[str, list[Any]] = {
    "name": BAD_LABELS,
    "title": BAD_LABELS,
    "tags": [*BAD_TAGS, None],
    "custom": BAD_CUSTOM,
    "workspace": [5, True, b"/srv", [], {}, "", " ", LONE_SURROGATE, *CONTROLS],
    "limits": [5, "x", {}, [], True],
    "permissions": [5, "approve_all", {}, [], Permissions(tools=frozenset(CONTROLS))],
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
    "options": BAD_OPTIONS,
    "mcp_servers": BAD_SERVERS,
    "model": BAD_LABELS,
    "effort": BAD_LABELS,
    "on_stall": [5, "", "nonsense", [], {}],
    "turn_deadline_seconds": [-1, math.nan, math.inf, "3", True, [], 10**400],
    "answers_for_children": [5, "yes", 1.0, [], {}],
}


METHODS: dict[str, tuple[Call, list[Any]]] = {
    # Sessions
    "send text": (lambda g, bad: g.idle.send(bad), BAD_TEXTS),
    "send attachments": (lambda g, bad: g.idle.send("a", attachments=bad), BAD_ATTACHMENTS),
    "send trace": (lambda g, bad: g.idle.send("a", trace=bad), BAD_TRACES),
    "send when_busy": (lambda g, bad: g.idle.send("a", when_busy=bad), BAD_WORDS),
    "send idempotency_key": (lambda g, bad: g.idle.send("a", idempotency_key=bad), BAD_LABELS),
    "send ttl_seconds": (lambda g, bad: g.idle.send("a", ttl_seconds=bad), BAD_SECONDS),
    "send if_stopped": (lambda g, bad: g.idle.send("a", if_stopped=bad), BAD_WORDS),
    "send queued": (lambda g, bad: g.idle.send("a", queued=bad), BAD_WORDS),
    "send text while busy": (lambda g, bad: g.busy.send(bad, when_busy="interrupt"), BAD_TEXTS),
    "prompt text": (lambda g, bad: g.idle.prompt(bad), BAD_TEXTS),
    "prompt attachments": (lambda g, bad: g.idle.prompt("a", attachments=bad), BAD_ATTACHMENTS),
    "prompt when_busy": (lambda g, bad: g.idle.prompt("a", when_busy=bad), BAD_WORDS),
    "prompt idempotency_key": (lambda g, bad: g.idle.prompt("a", idempotency_key=bad), BAD_LABELS),
    "prompt ttl_seconds": (lambda g, bad: g.idle.prompt("a", ttl_seconds=bad), BAD_SECONDS),
    "prompt if_stopped": (lambda g, bad: g.idle.prompt("a", if_stopped=bad), BAD_WORDS),
    "input input_id": (lambda g, bad: g.busy.input(bad), BAD_INPUTS),
    "result input_id": (lambda g, bad: g.busy.result(bad), BAD_INPUTS),
    "steer text": (lambda g, bad: g.busy.steer(bad), BAD_TEXTS),
    "steer idempotency_key": (lambda g, bad: g.busy.steer("a", idempotency_key=bad), BAD_LABELS),
    "steer ttl_seconds": (lambda g, bad: g.busy.steer("a", ttl_seconds=bad), BAD_SECONDS),
    "spawn agent": (lambda g, bad: g.idle.spawn(bad, "a"), [*BAD_LABELS, None, "nobody"]),
    "spawn text": (lambda g, bad: g.idle.spawn("echo", bad), BAD_TEXTS),
    "spawn role": (lambda g, bad: g.idle.spawn("echo", "a", role=bad), BAD_LABELS),
    "spawn lifetime": (lambda g, bad: g.idle.spawn("echo", "a", lifetime=bad), BAD_WORDS),
    "spawn on_end": (lambda g, bad: g.idle.spawn("echo", "a", on_end=bad), BAD_WORDS),
    "spawn ttl_seconds": (lambda g, bad: g.idle.spawn("echo", "a", ttl_seconds=bad), BAD_SECONDS),
    "spawn idempotency_key": (
        lambda g, bad: g.idle.spawn("echo", "a", idempotency_key=bad),
        BAD_LABELS,
    ),
    "edit_input input_id": (lambda g, bad: g.busy.edit_input(bad, "a"), BAD_INPUTS),
    "edit_input text": (lambda g, bad: g.busy.edit_input(g.queued, bad), BAD_TEXTS),
    "move_input input_id": (lambda g, bad: g.busy.move_input(bad, 0), BAD_INPUTS),
    "move_input position": (lambda g, bad: g.busy.move_input(g.queued, bad), BAD_PLACES),
    "promote_input input_id": (lambda g, bad: g.busy.promote_input(bad), BAD_INPUTS),
    "cancel_input input_id": (lambda g, bad: g.busy.cancel_input(bad), BAD_INPUTS),
    "interrupt scope": (
        lambda g, bad: g.busy.interrupt(bad),
        [5, None, True, b"turn", [], {}, "", "turns", "tool_call", LONE_SURROGATE],
    ),
    "interrupt reason": (lambda g, bad: g.busy.interrupt(reason=bad), BAD_NAMES),
    "interrupt replace_with": (
        lambda g, bad: g.busy.interrupt(replace_with=bad),
        [bad for bad in BAD_TEXTS if bad is not None],
    ),
    "interrupt queued": (lambda g, bad: g.busy.interrupt(queued=bad), BAD_WORDS),
    "stop when": (lambda g, bad: g.busy.stop(when=bad), BAD_WORDS),
    "append role": (lambda g, bad: g.idle.append(bad, "a"), [*BAD_WORDS, "system"]),
    "append text": (lambda g, bad: g.idle.append("user", bad), BAD_TEXTS),
    "fork at_turn": (
        lambda g, bad: g.busy.fork(at_turn=bad),
        [5, True, [], {}, "", "turn_unknown", LONE_SURROGATE],
    ),
    "fork name": (
        lambda g, bad: g.busy.fork(name=bad),
        [bad for bad in BAD_LABELS if bad is not None],
    ),
    "set title": (lambda g, bad: g.idle.set(title=bad), BAD_LABELS),
    "set name": (lambda g, bad: g.idle.set(name=bad), BAD_LABELS),
    "set tags": (lambda g, bad: g.idle.set(tags=bad), BAD_TAGS),
    "set custom": (lambda g, bad: g.idle.set(custom=bad), BAD_CUSTOM),
    "set options": (lambda g, bad: g.idle.set(options=bad), [*BAD_OPTIONS, {"model": "large"}]),
    "set mcp_servers": (lambda g, bad: g.idle.set(mcp_servers=bad), BAD_SERVERS),
    "set model": (lambda g, bad: g.idle.set(model=bad), [*BAD_LABELS, "large"]),
    "set effort": (lambda g, bad: g.idle.set(effort=bad), [*BAD_LABELS, "high"]),
    "set limits": (lambda g, bad: g.idle.set(limits=bad), [5, True, "x", {}, []]),
    "remove_rule rule_id": (lambda g, bad: g.idle.remove_rule(bad), BAD_INPUTS),
    "watch after": (lambda g, bad: watch(g.idle, bad), BAD_PLACES),
    "export format": (lambda g, bad: g.busy.export(bad), [*BAD_WORDS, "pdf"]),
    "export redact": (lambda g, bad: g.busy.export(redact=bad), BAD_FLAGS),
    "repair dry_run": (lambda g, bad: g.stopped.repair(dry_run=bad), BAD_FLAGS),
    "repair force": (lambda g, bad: g.stopped.repair(force=bad), BAD_FLAGS),
    "replay at": (
        lambda g, bad: g.idle.replay(bad),
        [*BAD_COUNTS, {}, 1_000, 2**63, 10**400],
    ),
    # The supervisor
    "reload agents": (lambda g, bad: g.sup.reload(agents=bad), [5, "echo", ["echo"], [None]]),
    "reload settings": (lambda g, bad: g.sup.reload(settings=bad), [5, "echo", {}, [], object]),
    "create agent": (lambda g, bad: g.sup.create(bad), [*BAD_NAMES, None, "nobody"]),
    "create key": (lambda g, bad: g.sup.create("echo", key=bad), BAD_KEYS),
    "create idempotency_key": (
        lambda g, bad: g.sup.create("echo", idempotency_key=bad),
        BAD_LABELS,
    ),
    "get_or_create key": (lambda g, bad: g.sup.get_or_create(bad), [None, *BAD_KEYS]),
    "get_or_create agent": (
        lambda g, bad: g.sup.get_or_create("a:b:c", agent=bad),
        ["nobody", 5, ["a"], LONE_SURROGATE],
    ),
    "new key": (lambda g, bad: g.sup.new(bad, agent="echo"), [None, *BAD_KEYS]),
    "new agent": (
        lambda g, bad: g.sup.new("a:b:c", agent=bad),
        ["nobody", 5, ["a"], LONE_SURROGATE],
    ),
    "reset key": (lambda g, bad: g.sup.reset(bad), [None, *BAD_KEYS]),
    "get id": (lambda g, bad: g.sup.get(bad), [*BAD_IDS, "s_unknown_1"]),
    "delete id": (lambda g, bad: g.sup.delete(bad), [*BAD_IDS, "s_unknown_1"]),
    "list limit": (lambda g, bad: g.sup.list(limit=bad), BAD_COUNTS),
    "list cursor": (lambda g, bad: g.sup.list(cursor=bad), BAD_CURSORS),
    "list text": (lambda g, bad: g.sup.list(text=bad), [5, True, [], {}, b"a"]),
    "list created_after": (lambda g, bad: g.sup.list(created_after=bad), BAD_TIMES),
    "list created_before": (lambda g, bad: g.sup.list(created_before=bad), BAD_TIMES),
    "list updated_after": (lambda g, bad: g.sup.list(updated_after=bad), BAD_TIMES),
    "list updated_before": (lambda g, bad: g.sup.list(updated_before=bad), BAD_TIMES),
    "resolve text": (lambda g, bad: g.sup.resolve(bad), [None, *BAD_NAMES]),
    "resolve kind": (lambda g, bad: g.sup.resolve("a", bad), [5, [], {}, "", "nonsense"]),
    "resolve session": (
        lambda g, bad: g.sup.resolve("a", session=bad),
        [bad for bad in BAD_IDS if bad is not None],
    ),
    "search text": (lambda g, bad: g.sup.search(bad), [None, *BAD_NAMES]),
    "search session": (
        lambda g, bad: g.sup.search("a", session=bad),
        [bad for bad in BAD_IDS if bad is not None],
    ),
    "search limit": (lambda g, bad: g.sup.search("a", limit=bad), BAD_COUNTS),
    "search cursor": (lambda g, bad: g.sup.search("a", cursor=bad), BAD_CURSORS),
    "import_ path": (lambda g, bad: g.sup.import_(bad), [*BAD_PATHS, "/", "/nowhere/at.all"]),
    "import_ format": (lambda g, bad: g.sup.import_(g.file, bad), [*BAD_WORDS, "markdown"]),
    "import_ agent": (lambda g, bad: g.sup.import_(g.file, agent=bad), BAD_LABELS),
    "backup path": (lambda g, bad: g.sup.backup(bad), [*BAD_PATHS, "/", "/nowhere/at.all"]),
    "cleanup older_than_seconds": (
        lambda g, bad: g.sup.cleanup(older_than_seconds=bad),
        BAD_TIMES,
    ),
    "cleanup keep_last": (lambda g, bad: g.sup.cleanup(keep_last=bad), [-1, 1.5, "3", True, []]),
    "cleanup max_bytes": (lambda g, bad: g.sup.cleanup(max_bytes=bad), [-1, 1.5, "3", True, []]),
    "cleanup dry_run": (lambda g, bad: g.sup.cleanup(dry_run=bad), BAD_FLAGS),
    "list agent": (lambda g, bad: g.sup.list(agent=bad), [5, [], {}, b"echo"]),
    "list phase": (lambda g, bad: g.sup.list(phase=bad), [5, [], {}, "", "nonsense"]),
    "list badge": (lambda g, bad: g.sup.list(badge=bad), [5, [], {}, "", "nonsense"]),
    "list tag": (lambda g, bad: g.sup.list(tag=bad), [5, [], {}, b"a"]),
    "list workspace": (lambda g, bad: g.sup.list(workspace=bad), [5, [], {}, b"/srv"]),
    "list channel": (lambda g, bad: g.sup.list(channel=bad), [5, [], {}, b"irc"]),
    "list peer": (lambda g, bad: g.sup.list(peer=bad), [5, [], {}, b"ann"]),
    "list parent": (lambda g, bad: g.sup.list(parent=bad), [5, [], {}, b"s_1"]),
    "list root": (lambda g, bad: g.sup.list(root=bad), [5, [], {}, b"s_1"]),
    "tree root": (lambda g, bad: g.sup.tree(bad), [*BAD_IDS[:3], *BAD_IDS[4:], "s_unknown_1"]),
    "list archived": (lambda g, bad: g.sup.list(archived=bad), [5, [], {}, "yes"]),
    "answer request_id": (lambda g, bad: g.sup.answer(bad, "allow_once"), BAD_INPUTS),
    "answer decision": (
        lambda g, bad: g.sup.answer(g.request, bad),
        [*BAD_WORDS, "maybe", "cancelled"],
    ),
    "answer_question request_id": (lambda g, bad: g.sup.answer_question(bad, "blue"), BAD_INPUTS),
    "answer_question text": (lambda g, bad: g.sup.answer_question(g.request, bad), BAD_TEXTS),
    "watch_sessions sessions": (
        lambda g, bad: watch_rows(g.sup, bad),
        [5, [5], [None], ["../x"], ["s_" + "a" * 99], [f"s_{n:012}" for n in range(17)]],
    ),
    "watch_sessions after": (lambda g, bad: watch_rows(g.sup, (), bad), BAD_PLACES),
    "seen seq": (lambda g, bad: g.idle.seen(bad), [*BAD_PLACES, 1_000, 2**63]),
    "watch all after": (lambda g, bad: watch_all(g.sup, bad), BAD_PLACES),
}


def creating(option: str, how: str) -> Call:
    async def create(scenario: Scenario, bad: Any) -> None:  # noqa: ANN401
        options: dict[str, Any] = {option: bad}
        match how:
            case "create":
                await scenario.sup.create("echo", **options)
            case "get_or_create":
                await scenario.sup.get_or_create("echo:irc:ann", **options)
            case "new":
                await scenario.sup.new("echo:irc:ann", **options)
            case "spawn":
                await scenario.idle.spawn("echo", "a", **options)

    return create


def cases() -> Iterator[Any]:
    for name, (call, values) in METHODS.items():
        yield pytest.param(call, values, id=name)
    for option, values in OPTIONS.items():
        yield pytest.param(creating(option, "create"), values, id=f"create {option}")
        for how in ("get_or_create", "new", "spawn"):
            yield pytest.param(creating(option, how), values[:1], id=f"{how} {option}")


async def complaint(scenario: Scenario, call: Call, bad: object) -> str | None:
    """What is wrong with how this was refused, if anything is."""
    before = await scenario.picture()
    try:
        await call(scenario, bad)
    except SupervisorError as refused:
        if not refused.hint.strip():
            return "no hint"
    except Exception as error:  # noqa: BLE001 - this is what must not come out
        return repr(error)
    else:
        return "was taken"
    await trio.testing.wait_all_tasks_blocked()
    return None if await scenario.picture() == before else "changed something"


@pytest.mark.parametrize(("call", "values"), list(cases()))
async def test_an_invalid_argument_is_refused_and_changes_nothing(
    scenario: Scenario, call: Call, values: list[object]
) -> None:
    complaints = {shown(bad): await complaint(scenario, call, bad) for bad in values}

    assert {bad: said for bad, said in complaints.items() if said} == {}
    assert (await scenario.idle.prompt("still here")).text == "still here"


def test_every_parameter_of_every_method_is_tried() -> None:
    tried = {*METHODS, *(f"create {option}" for option in OPTIONS)}
    parameters = {
        f"{name} {parameter}"
        for owner in (Session, Supervisor)
        for name, method in inspect.getmembers(owner, inspect.isfunction)
        if not name.startswith("_")
        for parameter, declared in list(inspect.signature(method).parameters.items())[1:]
        if declared.kind is not inspect.Parameter.VAR_KEYWORD
    }

    # Those two have a test of their own below.
    assert parameters - tried == {"session id", "exists id"}
