"""Records and deltas become blocks."""

from __future__ import annotations

from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.cli.transcript.blocks import MAX_BLOCK_CHARACTERS, MAX_LINE_CHARACTERS, TextBlock
from supervisor.cli.transcript.lines import block_lines
from supervisor.cli.transcript.model import TranscriptModel
from supervisor.core.records import Gap, Item, Record
from tests.support.hostile_text import HOSTILE
from tests.support.transcript_items import ItemMaker, delta


def model_of(*items: Item) -> TranscriptModel:
    model = TranscriptModel()
    for item in items:
        model.apply(item)
    return model


def shown(model: TranscriptModel, width: int = 80) -> list[str]:
    """Return the lines that are not blank, without the time of the turn."""
    lines = [
        "".join(cell.text for cell in line)
        for one in model.blocks
        for line in block_lines(one, width)
    ]
    return [line for line in lines if line.strip() and ":00:0" not in line]


def test_text_of_deltas_is_replaced_by_its_record() -> None:
    make = ItemMaker()
    model = model_of(*make.turn("hello"), delta("wor"), delta("ld", offset=3))

    assert shown(model) == ["> hello", "world"]

    model.apply(make.text("world, all"))
    assert shown(model) == ["> hello", "world, all"]


def test_a_tool_name_that_comes_late_replaces_the_title() -> None:
    make = ItemMaker()
    model = model_of(*make.turn())
    model.apply(make.record("tool_call", call_id="c1", name="List files", input=None))

    update = {"name": "bash", "title": "List files"}
    model.apply(make.record("tool_update", call_id="c1", name="List files", update=update))

    assert shown(model)[-1].startswith("• bash  running")


def test_a_tool_call_is_one_line_that_changes() -> None:
    make = ItemMaker()
    model = model_of(*make.turn())
    model.apply(make.record("tool_call", call_id="c1", name="bash", input={"command": "ls -la"}))
    assert shown(model)[-1] == "• bash  running  ls -la"

    model.apply(make.text("waiting"))
    first = model.apply(
        make.record("tool_ended", call_id="c1", name="bash", outcome="failed", result="no\nway")
    )

    assert first == 2
    assert shown(model)[1:] == ["✗ bash  failed  200 ms  ls -la  → no (+1 lines)", "waiting"]


def test_a_record_comes_before_text_that_has_only_deltas() -> None:
    make = ItemMaker()
    model = model_of(*make.turn(), delta("before"), delta("after", part="p2"))

    model.apply(make.text("before"))
    model.apply(make.record("tool_call", call_id="c1", name="bash", input=None))

    assert shown(model)[1:] == ["before", "• bash  running", "after"]


def test_text_after_a_missed_delta_waits_for_its_record() -> None:
    make = ItemMaker()
    model = model_of(*make.turn(), delta("one "), delta("three", offset=8))
    assert shown(model)[-1] == "one "

    model.apply(make.text("one two three"))
    assert shown(model)[-1] == "one two three"


def test_an_input_says_how_it_came() -> None:
    make = ItemMaker()
    accepted: dict[str, Any] = {"text": "later", "when_busy": "queue"}
    model = model_of(
        make.record("input_accepted", input_id="in_1", **accepted),
        make.record("input_accepted", input_id="in_2", **accepted),
    )
    assert [one.id for one in model.pending] == ["in_1", "in_2"]

    for item in (
        make.record("input_settled", input_id="in_2", outcome="cancelled", detail=None),
        make.record("input_settled", input_id="in_1", outcome="delivered", detail=None),
        *make.turn("later"),
        make.record("user_text", text="softly", part="in_9", steered=True),
    ):
        model.apply(item)

    assert shown(model) == [
        "── an input was cancelled: later",
        "> queued 300 ms",
        "  later",
        "> steered",
        "  softly",
    ]
    assert not list(model.pending)


def test_a_request_is_open_until_its_decision() -> None:
    make = ItemMaker()
    turn = make.turn()
    asked = make.record(
        "permission_asked",
        request_id="req_1",
        tool="bash",
        question="May I?",
        input={"command": "rm x"},
        options=["allow_once", "reject_once"],
    )
    model = model_of(*turn, asked)
    assert shown(model)[1:] == [
        "? May I? (bash)",
        "    command: rm x",
        "    allow_once, reject_once",
    ]
    assert list(model.requests) == ["req_1"]

    model.apply(
        make.record("permission_answered", request_id="req_1", decision="allow_once", by="person")
    )
    assert shown(model)[1:] == ["? May I? (bash)  allow_once by person"]
    assert not model.requests


def test_a_turn_ends_with_outcome_error_time_and_cost() -> None:
    make = ItemMaker()
    usage = {"input_tokens": 1000, "output_tokens": 234, "cost": 0.5}
    model = model_of(*make.turn(), make.end("failed", error="no\x1b[2J luck", usage=usage))

    assert shown(model)[1:] == ["error: no luck", "── failed, 2.0 s, 1.2k tokens, $0.50 ──"]


def test_children_plans_and_notes_are_lines() -> None:
    make = ItemMaker()
    child: dict[str, Any] = {"child": "s_2", "agent": "echo", "name": "kid", "text": "do it"}
    entries = [{"content": "one", "status": "completed"}, {"content": "two", "status": "pending"}]
    model = model_of(
        *make.turn(),
        make.record("child_started", **child, resumed=False),
        make.record("plan", entries=entries),
        make.record("plan", entries=[entries[0], {**entries[1], "status": "in_progress"}]),
        make.record("child_ended", **child | {"text": "done"}, outcome="completed"),
        make.record("stalled", waits_for="model", detail=None, since=1.0, seconds=9.0),
        make.record("interrupted", scope="turn", reason="Ctrl-C", step="ask"),
        make.record("interrupted", scope="turn", reason="Ctrl-C", step="kill"),
        Gap(20, 30),
    )

    assert shown(model)[1:] == [
        "↳ kid (echo)  completed  s_2  do it  → done",
        "plan",
        "  [x] one",
        "  [ ] two",
        "plan",
        "  [>] two",
        "── stalled: nothing for 9.0 s, waiting for model",
        "── the turn is interrupted (kill): Ctrl-C",
        "── records 20 to 30 were skipped: the screen was too slow",
    ]


def test_the_calls_of_a_lost_turn_are_lost_with_it() -> None:
    make = ItemMaker()
    model = model_of(
        *make.turn(),
        make.record("tool_call", call_id="c1", name="ls", input=None),
        make.record("tool_ended", call_id="c1", name="ls", outcome="interrupted", result=None),
        make.record("tool_call", call_id="c2", name="bash", input=None),
        make.record("tool_ended", call_id="c2", name="bash", outcome="interrupted", result=None),
    )
    ended = make.end("lost", error="the supervisor died")
    model.apply(attrs.evolve(ended, at=ended.at - 0.1))
    failure = {"kind": "process_exit", "detail": "the supervisor died"}
    model.apply(make.record("agent_restarting", attempt=1, after_seconds=0.5, failure=failure))

    assert shown(model)[1:] == [
        "✗ ls  interrupted  100 ms",
        "✗ bash  lost",
        "error: the supervisor died",
        "── lost ──",
        "── the agent is started again in 500 ms, attempt 1: the supervisor died",
    ]


def test_records_that_come_again_change_nothing() -> None:
    make = ItemMaker()
    records = [*make.turn(), make.text("once")]
    model = model_of(*records)

    assert [model.apply(record) for record in records] == [None, None, None]
    assert shown(model) == ["> go", "once"]


def test_a_line_of_5_mb_is_cut_and_many_lines_are_many_blocks() -> None:
    make = ItemMaker()
    model = model_of(
        *make.turn(), make.text("x" * 5_000_000 + "\n" + "word " * 1000 + "\n" * 20_000)
    )

    blocks = [one for one in model.blocks if isinstance(one, TextBlock) and one.speaker == "agent"]
    assert len(blocks) > 2
    assert max(len(one.text) for one in blocks) <= MAX_BLOCK_CHARACTERS + MAX_LINE_CHARACTERS + 90
    assert f"… {5_000_000 - MAX_LINE_CHARACTERS} more characters; `understudy log" in blocks[0].text


def test_the_oldest_blocks_are_dropped_beyond_the_maximum() -> None:
    make = ItemMaker()
    model = TranscriptModel(max_blocks=10)
    for _ in range(20):
        for item in (*make.turn(), make.end()):
            model.apply(item)

    assert 10 <= len(model.blocks) < 20
    assert model.dropped + len(model.blocks) == 60


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_harmless_in_every_block(text: str) -> None:
    make = ItemMaker()
    turn = make.turn(text)
    evil: dict[str, Any] = {"name": text, "text": text, "agent": text, "question": text}
    kinds = ("agent_text", "thought", "tool_call", "child_started", "permission_asked", "warning")
    items = [
        make.record(kind, call_id=text, tool=text, input={text: text}, **evil) for kind in kinds
    ]
    items += [
        make.record("tool_update", call_id=text, update={"title": text, "content": text}),
        make.record("tool_ended", call_id=text, outcome=text, result=text),
        make.record("plan", entries=[text, {"content": text, "status": text}]),
        make.record("interrupted", scope="turn", reason=text, step=text),
        make.record("session_stopped", reason=text, detail=text),
        make.end(text, error=text, stop_reason=text),
    ]
    model = model_of(*turn, delta(text), *items)

    for line in shown(model, width=20):
        assert "\x1b" not in line
        assert "\u202e" not in line
        assert line.replace("\t", " ").isprintable(), ascii(line)


STEPS = st.lists(
    st.sampled_from(["agent_text", "thought", "tool_call", "interrupted", "user_text"]).flatmap(
        lambda kind: st.tuples(st.just(kind), st.text("ab\x1b[m\n", max_size=6), st.booleans())
    ),
    max_size=12,
)


@given(STEPS, st.randoms(use_true_random=False))
def test_deltas_and_records_lead_to_the_blocks_of_the_records(
    steps: list[tuple[str, str, bool]],
    random: Any,  # noqa: ANN401 - made by Hypothesis
) -> None:
    make = ItemMaker()
    records: list[Record] = make.turn()
    mixed: list[Item] = [*records]
    for place, (kind, text, continues) in enumerate(steps):
        part = f"p{place}"
        record = make.record(
            kind, text=text, part=part, continues=continues, call_id=part, name=text, scope=part
        )
        records.append(record)
        if kind in ("agent_text", "thought"):
            cut = random.randint(0, len(text))
            # Deltas arrive before records that were written earlier.
            at = random.randint(max(0, len(mixed) - 2), len(mixed))
            mixed[at:at] = [delta(text[:cut], part, kind=kind), delta(text[cut:], part, cut, kind)]
        mixed.append(record)
    ended = make.end()

    assert shown(model_of(*mixed, ended)) == shown(model_of(*records, ended))
