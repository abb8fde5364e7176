"""Reports of an agent's own subagents; see acp/subagents.py."""

from __future__ import annotations

from typing import Any

from supervisor.drivers.acp.subagents import MAX_SUBAGENTS, Subagents


def update(name: str = "child", /, **fields: object) -> dict[str, Any]:
    return {"sessionUpdate": "subagent_update", "sessionId": name, **fields}


def record(subagents: Subagents, name: str = "child", /, **fields: object) -> Any:  # noqa: ANN401 - a body
    return subagents.on_update(update(name, **fields))


def test_the_first_report_of_a_subagent_is_a_record() -> None:
    assert record(Subagents(), title="Explorer", state={"state": "running"}) == {
        "subagent_id": "child",
        "title": "Explorer",
        "description": None,
        "state": "running",
        "detail": None,
        "above": None,
    }


def test_only_a_change_is_another_record() -> None:
    subagents = Subagents()
    record(subagents, title="Explorer", state={"state": "running"})

    assert record(subagents, title="Explorer") is None
    assert record(subagents, cwd="/project") is None
    ended = record(subagents, state={"state": "idle", "stopReason": "end_turn"})
    assert (ended["title"], ended["state"], ended["detail"]) == ("Explorer", "idle", "end_turn")


def test_null_clears_a_field() -> None:
    subagents = Subagents()
    record(subagents, title="Explorer", state={"state": "running"})

    cleared = record(subagents, title=None, state=None)

    assert (cleared["title"], cleared["state"]) == (None, None)
    assert subagents.name_of("child") == "child"


def test_an_error_is_the_detail_of_a_state() -> None:
    failed = record(Subagents(), state={"state": "idle", "error": {"code": 1, "message": "no"}})

    assert failed["detail"] == "no"


def test_a_subagent_of_a_subagent_names_the_one_above() -> None:
    subagents = Subagents()
    record(subagents, "child", title="Explorer")

    routed = subagents.routed({"sessionId": "child", "update": update("grandchild")})

    assert isinstance(routed, dict)
    assert "sessionId" not in routed
    body = subagents.on_update(routed["update"])
    assert isinstance(body, dict)
    assert (body["subagent_id"], body["above"]) == ("grandchild", "child")


def test_other_updates_of_subagents_and_unknown_sessions_are_not_routed() -> None:
    subagents = Subagents()
    record(subagents, "child")
    text = {"sessionId": "child", "update": {"sessionUpdate": "agent_message_chunk"}}
    foreign = {"sessionId": "other", "update": update("grandchild")}

    assert subagents.routed(text) is text
    assert subagents.routed(foreign) is foreign
    assert subagents.routed(None) is None


def test_malformed_reports_are_problems() -> None:
    assert record(Subagents(), "") == "a subagent without an id"
    strange = record(Subagents(), title=4, description=[], state="running")
    assert {strange[name] for name in ("title", "description", "state")} == {None}


def test_the_number_of_subagents_is_bounded() -> None:
    subagents = Subagents()
    for number in range(MAX_SUBAGENTS):
        record(subagents, f"c{number}")

    assert record(subagents, "one more") == "too many subagents"
    assert record(subagents, "c0", title="known") is not None
