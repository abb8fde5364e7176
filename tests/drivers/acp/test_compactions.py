"""Reports of compactions become few records; see acp/compactions.py."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.core.state import ContextUse
from supervisor.drivers.acp.compactions import MAX_COMPACTIONS, MAX_SUMMARY_BYTES, Compactions

FULL, SMALL = ContextUse(180_000, 200_000), ContextUse(20_000, 200_000)


def update(status: str = "in_progress", /, **fields: object) -> dict[str, Any]:
    report = {"sessionUpdate": "compaction_update", "compactionId": "c1", "status": status}
    return {**report, **fields}


def chunk(said: str, **fields: object) -> dict[str, Any]:
    content = {"type": "text", "text": said}
    report = {"sessionUpdate": "compaction_summary_chunk", "compactionId": "c1", "content": content}
    return {**report, **fields}


def block(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def bodies(*updates: dict[str, Any], context: ContextUse | None = None) -> list[Any]:
    compactions = Compactions()
    found = [compactions.on_update(update, context) for update in updates]
    return [body for body in found if body is not None]


def test_a_compaction_has_a_record_at_its_begin_and_one_at_its_end() -> None:
    began, ended = bodies(update(), chunk("what "), chunk("was said"), update("completed"))

    assert (began["status"], began["summary"]) == ("in_progress", None)
    assert (ended["status"], ended["summary"]) == ("completed", "what was said")
    assert began["compaction_id"] == ended["compaction_id"] == "c1"


def test_a_chunk_begins_a_compaction() -> None:
    (began,) = bodies(chunk("a"), chunk("b"))

    assert began["status"] == "in_progress"


def test_tokens_are_those_of_the_reported_context() -> None:
    compactions = Compactions()
    compactions.on_update(update(), FULL)

    body = compactions.on_update(update("completed"), SMALL)

    assert isinstance(body, dict)
    assert (body["tokens_before"], body["tokens_after"]) == (180_000, 20_000)


def test_tokens_after_are_unknown_if_the_context_was_not_reported_again() -> None:
    _, ended = bodies(update(), update("completed"), context=FULL)

    assert (ended["tokens_before"], ended["tokens_after"]) == (180_000, None)


def test_a_later_summary_of_an_ended_compaction_is_another_record() -> None:
    *_, again = bodies(
        update("completed"),
        update("completed"),
        chunk("late"),
        update("completed", summary=[block("all of it")]),
    )

    assert again["summary"] == "all of it"
    assert len(bodies(update("completed"), update("completed"))) == 1


@pytest.mark.parametrize("cleared", [None, []])
def test_null_and_an_empty_list_clear_the_summary(cleared: object) -> None:
    *_, ended = bodies(chunk("a"), update("completed", summary=cleared))

    assert ended["summary"] is None


def test_an_absent_field_keeps_its_value_and_null_clears_it() -> None:
    _, kept = bodies(update(error="no model"), update("failed"))
    _, cleared = bodies(update(error="no model"), update("failed", error=None))

    assert (kept["error"], cleared["error"]) == ("no model", None)


def test_an_unknown_status_counts_as_in_progress() -> None:
    (began,) = bodies(update("_thinking"), update("_writing"))

    assert began["status"] == "in_progress"


def test_a_summary_is_bounded() -> None:
    *_, ended = bodies(*[chunk("x" * 10_000)] * 50, update("completed"))

    assert len(ended["summary"]) < MAX_SUMMARY_BYTES + 100


def test_an_update_without_an_id_is_a_problem() -> None:
    assert bodies({"sessionUpdate": "compaction_update"}) == ["a compaction without an id"]


def test_the_oldest_compactions_are_forgotten() -> None:
    compactions = Compactions()
    for number in range(3 * MAX_COMPACTIONS):
        assert compactions.on_update(update(compactionId=f"c{number}"), None) is not None

    assert len(compactions._known) == MAX_COMPACTIONS
