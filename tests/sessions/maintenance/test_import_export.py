"""Out of the house and in again: same kinds, same bodies, a new id, and no rights but ours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import (
    AgentUnknown,
    ConfigError,
    Info,
    Limits,
    Permissions,
    Phase,
    Record,
    Session,
    Supervisor,
)
from supervisor.core.fold import replay
from tests.support.exported_sessions import Line, change_export, exported
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.store_samples import differences


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "session.jsonl"


async def rich(sup: Supervisor, fake_agent: FakeAgent) -> tuple[Session, AgentRun]:
    """A session in the middle of its second turn, with something of everything behind it."""
    session = await sup.create(
        "fake",
        key="fake:irc:ann",
        name="rich",
        tags=["x", "é"],
        custom={"a": "b"},
        permissions=Permissions(tools=["bash", "rm", "mv"]),
        limits=Limits(max_children=17, turns=99),
        queue_cap=500,
        answers_for_children=True,
    )
    await session.send("first")
    run = await fake_agent.next_run()
    await run.do(run.turn.think("about it"))
    await run.do(run.turn.say("so"))
    run.turn.usage(input_tokens=5, cost=0.5)
    call = await run.open_call("bash", {"cmd": "ls"})
    await call.close()
    await session.steer("shorter")
    assert run.turn.steering()
    asked = run.begin(run.turn.ask("may I?", tool="rm"))
    await settle()
    for request in await sup.permissions():
        await sup.answer(request.id, "allow_always")
    await asked.wait()
    child = await session.spawn("child-agent", "help me")
    run.finish("that is it")
    await settle()
    await child.stop()
    await session.send("second")
    return session, await fake_agent.next_run()


def as_line(record: Record) -> Line:
    names = ("seq", "at", "turn_id", "kind", "body")
    line: Line = json.loads(json.dumps({name: getattr(record, name) for name in names}))
    return line


# There and back -------------------------------------------------------------------------


async def test_an_import_has_the_kinds_and_bodies_of_the_original(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent, file: Path
) -> None:
    session, _ = await rich(sup, fake_agent)
    lines = await exported(session, file)

    made = await sup.import_(file)

    found = [as_line(record) for record in await records(made)]
    assert made.id != session.id
    assert found[: len(lines)] == lines
    assert {line["kind"] for line in lines} >= {
        "tool_call",
        "steered",
        "child_ended",
        "thought",
        "usage",
        "rule_changed",
    }
    assert child_agent.runs


async def test_an_imported_session_is_stopped_and_equals_its_folded_records(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session, _ = await rich(sup, fake_agent)
    await exported(session, file)

    made = await sup.import_(file)

    stored = await sup._services.store.read(made.id)
    assert stored is not None
    assert stored.row.phase is Phase.STOPPED
    assert differences(stored.row, replay(await records(made))) == []
    assert (await made.repair()).problems == ()


async def test_an_import_keeps_identity_fields_and_drops_permissions(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session, _ = await rich(sup, fake_agent)
    await exported(session, file)
    plain = await (await sup.create("fake")).info()

    made = await sup.import_(file)
    info = await made.info()

    assert (info.name, info.title, info.tags, info.custom) == (
        "rich-2",  # the exported session holds its name
        "first",
        ("x", "é"),
        {"a": "b"},
    )
    assert (info.permissions, info.limits) == (plain.permissions, plain.limits)
    assert await made.rules() == []
    row = await sup._parts.registry.row(made.id)
    assert (row.terms, row.key, row.lineage.parent) == (
        sup._services.settings.terms_of(sup._services.settings()),
        None,
        None,
    )
    assert (await sup.get_or_create("fake:irc:ann")).id == session.id


async def test_a_child_is_imported_as_a_root_of_its_own(
    sup: Supervisor, fake_agent: FakeAgent, child_agent: FakeAgent, file: Path
) -> None:
    session = await sup.create("fake")
    child = await session.spawn("child-agent", "help me", role="worker", ttl_seconds=50.0)
    (await child_agent.next_run()).finish("done")
    await child.wait()
    await exported(child, file)

    made = await sup.import_(file)
    await trio.sleep(100.0)

    info = await made.info()
    assert (info.parent, info.root, info.depth, info.expires_at) == (None, made.id, 0, None)
    await made.send("again")
    assert [message.text for message in (await child_agent.next_run()).turn.history] == [
        "help me",
        "done",
    ]
    assert fake_agent.runs == []


async def test_an_import_closes_an_open_turn_as_lost_and_cancels_inputs(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session, run = await rich(sup, fake_agent)
    await run.do(run.turn.say("half an ans"))
    call = await run.open_call("bash")
    waiting = await session.send("third")
    run.begin(run.turn.ask("may I?", tool="mv"))
    await trio.sleep(1.0)
    lines = await exported(session, file)

    made = await sup.import_(file)

    closing = (await records(made))[len(lines) :]
    ends = {record.kind: record.body for record in closing}
    assert (ends["turn_ended"]["outcome"], ends["turn_ended"]["turn_id"]) == ("lost", run.turn.id)
    assert ends["tool_ended"]["call_id"] == call.id
    assert ends["input_settled"] == {**ends["input_settled"], "input_id": waiting.input_id}
    assert ends["input_settled"]["outcome"] == "cancelled"
    assert await made.inputs() == []
    assert [one.session_id for one in await sup.permissions()] == [session.id]


async def test_output_of_a_lost_turn_is_counted_at_import(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session = await sup.create("fake")
    await session.send("first")
    run = await fake_agent.next_run()
    await run.do(run.turn.say("half an ans"))
    await trio.sleep(1.0)
    await exported(session, file)

    made = await sup.import_(file)

    [ended] = await records(made, "turn_ended")
    assert (ended.body["text"], ended.body["messages"]) == ("half an ans", 1)
    assert (await made.info()).messages == len(await made.transcript()) == 2


async def test_an_imported_session_continues_with_its_history(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session = await sup.create("fake")
    first = await session.send("first")
    (await fake_agent.next_run()).finish("answer")
    await session.result(first.input_id)
    await exported(session, file)
    made = await sup.import_(file)

    receipt = await made.send("and now?")
    run = await fake_agent.next_run()

    assert [(one.role, one.text) for one in run.turn.history] == [
        ("user", "first"),
        ("agent", "answer"),
    ]
    run.finish("fine")
    assert (await made.result(receipt.input_id)).text == "fine"
    await made.stop()
    assert (await made.repair()).problems == ()


async def test_importing_a_file_twice_creates_two_sessions(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session, _ = await rich(sup, fake_agent)
    await exported(session, file)

    one, two = await sup.import_(file), await sup.import_(file)

    assert len({session.id, one.id, two.id}) == 3
    assert (await one.info()).last_seq == (await two.info()).last_seq


async def test_an_import_can_be_exported_and_imported_again(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session, _ = await rich(sup, fake_agent)
    await exported(session, file)
    lines = await exported(await sup.import_(file), file)

    again = await sup.import_(file)

    assert [as_line(record) for record in await records(again)][: len(lines)] == lines
    assert (await again.repair()).problems == ()


async def test_imported_text_is_found_by_search(sup: Supervisor, file: Path) -> None:
    session = await sup.create("echo")
    await session.prompt("xylophone")
    await exported(session, file)
    await sup.delete(session.id)

    made = await sup.import_(file)

    assert {hit.session_id for hit in (await sup.search("xylophone")).items} == {made.id}


async def test_a_session_exported_and_imported_many_times_continues(
    sup: Supervisor, file: Path
) -> None:
    session = await sup.create("echo")
    for text in ("one", "two", "three"):
        await session.prompt(text)
        await session.stop()
    await session.archive()
    await exported(session, file)

    made = await sup.import_(file)

    assert not (await made.info()).archived
    assert (await made.prompt("four")).text == "four"


# Whose agent it was ---------------------------------------------------------------------


async def test_an_unknown_agent_of_an_import_is_reported_when_needed(
    sup: Supervisor, file: Path
) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await exported(session, file)
    await change_export(file, lambda lines: lines[0]["body"].update(agent="stranger"))

    made = await sup.import_(file)

    assert (await made.info()).agent == "stranger"
    assert [message.text for message in await made.transcript()] == ["hello", "hello"]
    with pytest.raises(AgentUnknown, match="stranger"):
        await made.prompt("hello?")
    assert (await made.info()).phase is Phase.STOPPED


async def test_an_import_can_name_another_agent(
    sup: Supervisor, fake_agent: FakeAgent, file: Path
) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await exported(session, file)

    made = await sup.import_(file, agent="fake")
    await made.send("your turn")

    assert [one.text for one in (await fake_agent.next_run()).turn.history] == ["hello", "hello"]


# Exports --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["markdown", "jsonl", "html"])
async def test_an_export_changes_nothing_and_works_at_any_time(
    sup: Supervisor,
    fake_agent: FakeAgent,
    form: Any,  # noqa: ANN401 - a format
) -> None:
    session, run = await rich(sup, fake_agent)
    before: Info = await session.info()

    texts = [await session.export(form)]
    run.finish("done")
    await session.stop()
    texts.append(await session.export(form))
    await session.archive()
    texts.append(await session.export(form))

    assert all("that is it" in text for text in texts)
    assert before.last_seq < (await session.info()).last_seq


async def test_an_export_redacts_secrets_on_request(sup: Supervisor) -> None:
    session = await sup.create("echo")
    secret = "ghp_" + "a1B2" * 9
    await session.prompt(f"my token is {secret}")

    for form in ("markdown", "jsonl", "html"):
        assert secret in await session.export(form)
        assert secret not in await session.export(form, redact=True)


async def test_only_the_picoclaw_meta_file_is_read_and_bounded(
    sup: Supervisor, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside = file.with_suffix(".meta.json")
    beside.write_text("{" + " " * 5_000 + "}")
    monkeypatch.setattr("supervisor.sessions.maintenance.MAX_IMPORT_BYTES", 4_000)
    file.write_text('{"role":"user","content":"hello"}\n')  # noqa: ASYNC240 - small

    with pytest.raises(ConfigError, match="is larger"):
        await sup.import_(file, "picoclaw", agent="echo")

    session = await sup.create("echo")
    file.write_text(await session.export("jsonl"))  # noqa: ASYNC240 - small
    await sup.import_(file)
