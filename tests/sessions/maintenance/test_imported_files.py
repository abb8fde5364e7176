"""Imports of hostile, broken and foreign files."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from actors.testing import settle
from supervisor import (
    ConfigError,
    ImportFailed,
    Phase,
    Supervisor,
    SupervisorError,
)
from tests.support.exported_sessions import Line, change_export, exported
from tests.support.fake_agents import FakeAgent


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


# Files that mean no good ----------------------------------------------------------------


def approve_all(lines: list[Line]) -> None:
    lines[0]["body"]["permissions"] = {"mode": "approve_all"}


def no_limits(lines: list[Line]) -> None:
    lines[0]["body"]["limits"] = {
        **lines[0]["body"]["limits"],
        "max_children": 10**6,
        "max_depth": 99,
    }


def no_limits_later(lines: list[Line]) -> None:
    changed = {"limits": {"max_children": 10**6, "max_depth": 99, "max_spawns": 10**9}}
    lines.append({**lines[0], "kind": "session_changed", "body": changed})


def somebodys_key(lines: list[Line]) -> None:
    lines[0]["body"]["key"] = "echo:irc:ann"


def somebodys_child(lines: list[Line]) -> None:
    lines[0]["body"]["lineage"] = {
        **lines[0]["body"]["lineage"],
        "parent": "s_1",
        "root": "s_1",
        "depth": 1,
    }


def a_rule(lines: list[Line]) -> None:
    body = {"rule_id": "req_1", "tool": "bash", "decision": "allow_always"}
    lines.append({**lines[0], "kind": "rule_changed", "body": body})


def an_import(lines: list[Line]) -> None:
    granted = {name: lines[0]["body"][name] for name in ("terms", "limits")}
    body = {"imported": {"format": "x", **granted, "permissions": {"mode": "approve_all"}}}
    lines.append({**lines[0], "kind": "session_changed", "body": body})


def long_queues(lines: list[Line]) -> None:
    terms = lines[0]["body"]["terms"]
    terms.update(queue_cap=10**9, max_text_bytes=10**12, answers_for_children=True)


def a_mode_of_the_agent(lines: list[Line]) -> None:
    body = {"by": "user", "options": {"mode": "bypass"}}
    lines.append({**lines[0], "kind": "options_changed", "body": body})


def a_malformed_offer(lines: list[Line]) -> None:
    body = {"by": "agent", "offered": [{"id": ["x"], "values": [{}]}]}
    lines.append({**lines[0], "kind": "options_changed", "body": body})


def an_epoch(lines: list[Line]) -> None:
    lines.append({**lines[0], "kind": "session_changed", "body": {"epoch": 10**9}})


def far_away(lines: list[Line]) -> None:
    for line in lines:
        line["at"] = 1e300


def long_ago(lines: list[Line]) -> None:
    for line in lines:
        line["at"] = -1e300


def backwards(lines: list[Line]) -> None:
    for place, line in enumerate(lines):
        line["at"] = 1e6 - place


HOSTILE = [
    approve_all, no_limits, no_limits_later, somebodys_key, somebodys_child, a_rule, an_import,
    long_queues, a_mode_of_the_agent, a_malformed_offer, an_epoch, far_away, long_ago, backwards,
]  # fmt: skip


@pytest.mark.parametrize("change", HOSTILE, ids=lambda change: change.__name__)
async def test_an_imported_file_grants_no_rights(
    sup: Supervisor, file: Path, change: Callable[[list[Line]], None]
) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await session.stop()
    plain = await session.info()
    await exported(session, file)
    await change_export(file, change)

    try:
        made = await sup.import_(file)
    except ImportFailed:
        return

    info = await made.info()
    same = (
        "permissions",
        "limits",
        "options",
        "key",
        "parent",
        "depth",
        "expires_at",
        "phase",
        "children",
    )
    assert [getattr(info, name) for name in same] == [getattr(plain, name) for name in same]
    assert await made.rules() == []
    assert (await sup._parts.registry.row(made.id)).terms == (
        await sup._parts.registry.row(session.id)
    ).terms
    assert (await made.prompt("go on")).text == "go on"
    for form in ("markdown", "html", "jsonl"):
        assert await made.export(form)


def asking(**changes: Any) -> Callable[[list[Line]], None]:  # noqa: ANN401 - of a record
    def change(lines: list[Line]) -> None:
        body: Line = {"request_id": "req_1", "tool": "rm", "question": "may I?", "input": None}
        body |= {"options": ["allow_once"], "asks": "people"}
        asked = {**lines[-1], "kind": "permission_asked", "turn_id": "turn_1", "body": body}
        lines.append({**asked, **changes})

    return change


ASKING = {
    "a turn that is over": asking(),
    "no turn": asking(turn_id=None),
    "nothing to choose": asking(body={**dict.fromkeys(("tool", "question", "asks"), "x"),
                                      "request_id": "req_1", "input": None, "options": 5}),
}  # fmt: skip


@pytest.mark.parametrize("change", ASKING.values(), ids=ASKING.keys())
async def test_an_imported_permission_request_is_not_pending(
    sup: Supervisor, file: Path, change: Callable[[list[Line]], None]
) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await exported(session, file)
    await change_export(file, change)

    with contextlib.suppress(ImportFailed):
        await sup.import_(file)

    assert await sup.permissions() == ()


async def test_an_imported_answer_does_not_allow_a_tool(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session = await sup.create("fake")
    await session.send("first")
    run = await fake_agent.next_run()
    asked = run.begin(run.turn.ask("may I?", tool="rm"))
    await settle()
    await exported(session, file)

    await sup.import_(file)

    [request] = await sup.permissions()
    await sup.answer(request.id, "allow_once")
    assert await asked.wait()


BROKEN: Mapping[str, Callable[[str], str]] = {
    "nothing": lambda _: "",
    "no header": lambda text: text.partition("\n")[2],
    "only a header": lambda text: text.partition("\n")[0] + "\n",
    "a newer form": lambda text: text.replace('"understudy":1', '"understudy":2', 1),
    "a missing line": lambda text: "\n".join(text.split("\n")[:3] + text.split("\n")[4:]),
    "a line twice": lambda text: "\n".join([*text.split("\n")[:4], *text.split("\n")[3:]]),
    "no json": lambda text: text.replace('"kind"', '"kind', 3),
    "a text": lambda _: "dear diary\n",
    "a deep one": lambda text: text + "[" * 100_000 + "\n",
    "a large number": lambda text: text.replace('"at":', '"at":1e999, "_":', 2),
    "half a character": lambda text: text.replace("hello", "\\ud800"),
    "an unknown kind": lambda text: text.replace("user_text", "user_texts"),
    "a body that is none": lambda text: text.replace('"body":{', '"body":[{', 1),
}


@pytest.mark.parametrize("breaking", BROKEN.values(), ids=BROKEN.keys())
async def test_a_broken_file_is_refused_and_leaves_nothing(
    sup: Supervisor, file: Path, breaking: Callable[[str], str]
) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    file.write_text(breaking(await session.export("jsonl")))  # noqa: ASYNC240 - small

    with pytest.raises(ImportFailed) as refused:
        await sup.import_(file)

    assert refused.value.hint
    assert "hello" not in str(refused.value)
    assert [info.id for info in (await sup.list()).items] == [session.id]


async def test_a_truncated_file_is_imported_up_to_its_end(
    sup: Supervisor, file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    text = await session.export("jsonl")
    file.write_text(text[:-30])  # noqa: ASYNC240 - small

    made = await sup.import_(file)

    assert (await made.info()).phase is Phase.STOPPED
    assert "is truncated" in caplog.text


async def test_a_file_that_is_too_large_is_not_read(
    sup: Supervisor, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("supervisor.sessions.maintenance.MAX_IMPORT_BYTES", 1_000)
    file.write_text("x" * 1_001)  # noqa: ASYNC240 - small

    with pytest.raises(ConfigError, match="1000 bytes"):
        await sup.import_(file)


async def test_importing_something_other_than_a_file_is_refused(
    sup: Supervisor, tmp_path: Path
) -> None:
    for path in (tmp_path, tmp_path / "missing", "/dev/null"):
        with pytest.raises(SupervisorError) as refused:
            await sup.import_(path)
        assert refused.value.hint

    assert (await sup.list()).items == ()


async def test_importing_an_unreadable_file_is_refused(
    sup: Supervisor, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    file.touch()  # noqa: ASYNC240 - small
    monkeypatch.setattr(Path, "open", refuse)

    with pytest.raises(ConfigError, match="Permission denied"):
        await sup.import_(file)


# Others' files --------------------------------------------------------------------------


PICOCLAW = [
    {"role": "user", "content": "list the files"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "ls", "arguments": '{"path": "."}'},
            }
        ],
    },
    {"role": "tool", "content": "a.txt", "tool_call_id": "c1"},
    {"role": "assistant", "content": "There is a.txt."},
]


async def test_an_imported_picoclaw_session_continues(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in PICOCLAW))  # noqa: ASYNC240 - small
    meta = {"key": "agent:main", "summary": "files", "created_at": "2026-01-02T03:04:05Z"}
    file.with_suffix(".meta.json").write_text(json.dumps(meta))

    made = await sup.import_(file, format="picoclaw", agent="fake")

    info = await made.info()
    assert (info.phase, info.custom["picoclaw_key"]) == (Phase.STOPPED, "agent:main")
    assert [one.text for one in await made.transcript()] == ["list the files", "There is a.txt."]
    await made.send("and now?")
    assert len((await fake_agent.next_run()).turn.history) == 2


GGCODE: list[Line] = [
    {"type": "meta", "session_id": "1", "title": "A parser", "workspace": "/srv/project"},
    {
        "type": "message",
        "timestamp": "2026-03-11T12:00:00Z",
        "message": {"role": "user", "content": [{"type": "text", "text": "write a parser"}]},
    },
    {
        "type": "message",
        "timestamp": "2026-03-11T12:00:05Z",
        "message": {"role": "assistant", "content": [{"type": "text", "text": "Here it is."}]},
    },
]


async def test_an_imported_ggcode_session_continues(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in GGCODE))  # noqa: ASYNC240 - small

    made = await sup.import_(file, format="ggcode", agent="fake")

    info = await made.info()
    assert (info.phase, info.title, info.turns) == (Phase.STOPPED, "A parser", 1)
    assert (await made.repair()).problems == ()
    await made.send("and now?")
    history = (await fake_agent.next_run()).turn.history
    assert [one.text for one in history] == ["write a parser", "Here it is."]


@pytest.mark.parametrize("form", ["picoclaw", "ggcode"])
async def test_an_import_without_an_agent_uses_the_agent_of_the_format(
    sup: Supervisor,
    file: Path,
    form: Any,  # noqa: ANN401 - a format
) -> None:
    lines = PICOCLAW if form == "picoclaw" else GGCODE
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))  # noqa: ASYNC240 - small

    assert (await (await sup.import_(file, format=form)).info()).agent == form


@pytest.mark.parametrize("workspace", ["../..", "here", "/srv/../etc", "a\0b", ""], ids=ascii)
async def test_a_workspace_from_a_file_is_a_whole_path_or_none(
    sup: Supervisor, file: Path, workspace: str
) -> None:
    session = await sup.create("echo")
    await exported(session, file)
    await change_export(file, lambda lines: lines[0]["body"].update(workspace=workspace))

    with contextlib.suppress(ImportFailed):
        info = await (await sup.import_(file)).info()
        assert info.workspace in (None, "/etc")


async def test_a_file_in_another_format_is_refused_with_a_hint(sup: Supervisor, file: Path) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in PICOCLAW))  # noqa: ASYNC240 - small

    with pytest.raises(ImportFailed) as refused:
        await sup.import_(file)

    assert "format" in refused.value.hint
