"""Permission requests, questions, children and notices."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import supervisor
from tests.support.acp_editor import Editor, editing, opened_supervisor, recorded
from tests.support.asking_agent import AskingAgent

PERMISSION = "session/request_permission"
FORM = "elicitation/create"


def chosen(option: str) -> dict[str, Any]:
    return {"outcome": {"outcome": "selected", "optionId": option}}


# Requests ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "said"),
    [("allow_once", "allowed"), ("reject_once", "rejected"), ("allow_always", "allowed")],
)
async def test_the_answer_of_the_editor_decides(editor: Editor, option: str, said: str) -> None:
    session = await editor.new()
    request = await editor.begin(session, "ask delete")
    asked = await editor.asked_for(PERMISSION)
    await editor.allow(asked, option)

    await editor.answer_to(request)
    assert editor.text().strip() == f"delete: {said}"
    params = asked["params"]
    assert params["sessionId"] == session
    assert {one["kind"] for one in params["options"]} >= {"allow_once", "reject_once"}


async def test_the_request_is_about_a_tool_call_that_is_known(editor: Editor) -> None:
    session = await editor.new()
    await editor.begin(session, "ask delete")
    asked = await editor.asked_for(PERMISSION)

    (card,) = editor.updates("tool_call")
    assert card["toolCallId"] == asked["params"]["toolCall"]["toolCallId"]
    assert card["status"] == "pending"
    await editor.allow(asked)
    await editor.until(lambda: editor.updates("tool_call_update"))
    assert editor.updates("tool_call_update")[-1]["status"] == "completed"


async def test_an_answer_given_elsewhere_withdraws_the_request(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    request = await editor.begin(session, "ask delete")
    asked = await editor.asked_for(PERMISSION)
    (pending,) = await sup.permissions()
    await sup.answer(pending.id, "allow_once")

    assert await editor.answer_to(request) == {"stopReason": "end_turn"}
    await editor.until(lambda: editor.cancelled)
    assert editor.cancelled == [asked["id"]]
    await editor.answer(asked, chosen("reject_once"))  # too late, and no harm
    assert await editor.prompt(session, "say on") == {"stopReason": "end_turn"}


async def test_the_first_editor_that_answers_wins(sup: supervisor.Supervisor) -> None:
    async with editing(sup) as first, editing(sup) as second:
        await first.start()
        await second.start()
        session = await first.new()
        await second.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        request = await first.begin(session, "ask delete")
        asked = await first.asked_for(PERMISSION)
        await second.allow(await second.asked_for(PERMISSION), "reject_once")

        await first.answer_to(request)
        await first.until(lambda: first.cancelled == [asked["id"]])
        assert first.text().strip() == second.text().strip() == "delete: rejected"


async def test_a_cancelled_turn_withdraws_its_request(editor: Editor) -> None:
    session = await editor.new()
    request = await editor.begin(session, "ask delete")
    asked = await editor.asked_for(PERMISSION)
    await editor.notify("session/cancel", sessionId=session)
    await editor.answer(asked, {"outcome": {"outcome": "cancelled"}})

    assert await editor.answer_to(request) == {"stopReason": "cancelled"}


async def test_a_cancelled_answer_interrupts_the_turn(editor: Editor) -> None:
    session = await editor.new()
    request = await editor.begin(session, "ask delete")
    await editor.answer(await editor.asked_for(PERMISSION), {"outcome": {"outcome": "cancelled"}})

    assert await editor.answer_to(request) == {"stopReason": "cancelled"}


async def test_the_request_of_an_editor_that_left_waits_in_the_inbox(
    sup: supervisor.Supervisor,
) -> None:
    async with editing(sup) as editor:
        await editor.start()
        session = await editor.new()
        await editor.begin(session, "ask delete")
        await editor.asked_for(PERMISSION)

    (pending,) = await sup.permissions()
    async with editing(sup) as other:
        await other.start()
        await other.call("session/load", sessionId=session, cwd="/", mcpServers=[])
        await other.allow(await other.asked_for(PERMISSION))
        await sup.session(session).wait_idle()

    assert pending.session_id == session


async def test_a_refused_request_waits_in_the_inbox(sup: supervisor.Supervisor) -> None:
    async with editing(sup) as editor:
        await editor.start(session={"notices": {}})
        await editor.begin(await editor.new(), "ask delete")
        asked = await editor.asked_for(PERMISSION)
        error = {"code": -32601, "message": "no such method"}
        line = b'{"jsonrpc":"2.0","id":%d,"error":{"code":%d,"message":"no"}}\n'
        await editor.write(line % (asked["id"], error["code"]))
        await editor.until(lambda: editor.updates("notice"))

        (pending,) = await sup.permissions()
        assert pending.id in editor.updates("notice")[0]["description"]


async def test_only_own_turns_ask(sup: supervisor.Supervisor) -> None:
    async with editing(sup, only_own_turns=True) as editor:
        await editor.start()
        session = await editor.new()
        receipt = await sup.session(session).send("ask delete\nsay theirs")
        await recorded(sup.session(session), "permission_asked")
        (pending,) = await sup.permissions()
        await sup.answer(pending.id, "allow_once")
        await sup.session(session).result(receipt.input_id)
        await editor.prompt(session, "say mine")

        assert editor.text() == "mine"
        assert editor.asked == []
        assert editor.updates("user_message_chunk") == []


# Questions --------------------------------------------------------------------------------


COLOURS = "Which colour?\nblue\nred"


@asynccontextmanager
async def asking(**offers: object) -> AsyncIterator[Editor]:
    asker = AskingAgent()
    async with (
        opened_supervisor(agents=[asker.agent]) as sup,
        editing(sup, agent="asker") as editor,
    ):
        asker.sup = sup
        await editor.start(**offers)
        yield editor


@pytest.mark.parametrize(
    ("question", "content", "said"),
    [
        (COLOURS, {"choice": "red"}, "red"),
        (COLOURS, {"choice": "red", "text": "green"}, "green"),
        (COLOURS, {"choice": "red", "text": " "}, "red"),
        ("Which colour?", {"text": "green"}, "green"),
    ],
)
async def test_a_question_is_a_form_where_forms_are_offered(
    question: str, content: dict[str, Any], said: str
) -> None:
    async with asking(elicitation={"form": {}}) as editor:
        request = await editor.begin(await editor.new(), question)
        asked = await editor.asked_for(FORM)
        assert asked["params"]["message"] == "Which colour?"
        assert content.keys() <= asked["params"]["requestedSchema"]["properties"].keys()
        await editor.answer(asked, {"action": "accept", "content": content})
        await editor.answer_to(request)

        assert editor.text() == f"answered by person: {said}"
        assert editor.updates("tool_call_update")[-1]["status"] == "completed"


@pytest.mark.parametrize(
    "answer", [{"action": "cancel"}, {"action": "decline"}, {"action": "accept", "content": {}}]
)
async def test_a_form_without_an_answer_is_said_to_wait_in_the_inbox(
    answer: dict[str, Any],
) -> None:
    async with asking(elicitation={"form": {}}, session={"notices": {}}) as editor:
        await editor.begin(await editor.new(), COLOURS)
        await editor.answer(await editor.asked_for(FORM), answer)
        await editor.until(lambda: editor.updates("notice"))

        assert editor.updates("notice")[0]["description"].endswith(" TEXT")


async def test_the_choices_of_a_question_are_the_options_of_a_request_elsewhere() -> None:
    async with asking() as editor:
        request = await editor.begin(await editor.new(), COLOURS)
        asked = await editor.asked_for(PERMISSION)
        assert asked["params"]["toolCall"]["title"] == "Which colour?"
        options = {one["name"]: one["optionId"] for one in asked["params"]["options"]}
        await editor.allow(asked, options["red"])
        await editor.answer_to(request)

        assert editor.text() == "answered by person: red"


async def test_a_question_without_choices_waits_in_the_inbox_without_forms() -> None:
    async with asking(session={"notices": {}}) as editor:
        await editor.begin(await editor.new(), "Which colour?")
        await editor.until(lambda: editor.updates("notice"))

        assert editor.asked == []


# Children ---------------------------------------------------------------------------------


async def test_a_child_is_one_card_that_is_kept_current(editor: Editor) -> None:
    session = await editor.new()
    await editor.prompt(session, "spawn scripted say working | sleep 0.2 | say done")

    await editor.until(
        lambda: any(one.get("status") == "completed" for one in editor.updates("tool_call_update"))
    )
    (card,) = editor.updates("tool_call")
    cards = editor.updates("tool_call_update")
    assert {one["toolCallId"] for one in cards} == {card["toolCallId"]}
    assert card["toolCallId"].startswith("child:")


async def test_a_request_of_a_child_is_asked_in_the_parent(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    child = await sup.session(session).spawn("scripted", "ask delete", name="helper")
    grandchild = await child.spawn("scripted", "ask edit", name="second")
    first = await editor.asked_for(PERMISSION, 1)
    second = await editor.asked_for(PERMISSION, 2)

    titles = {one["params"]["toolCall"]["title"].partition(":")[0] for one in (first, second)}
    assert titles == {"helper", "second"}
    assert {one["params"]["sessionId"] for one in (first, second)} == {session}
    calls = {one["params"]["toolCall"]["toolCallId"] for one in (first, second)}
    assert calls == {f"child:{child.id}"}
    await editor.allow(first)
    await editor.allow(second)
    await child.wait()
    await grandchild.wait()
    assert await sup.permissions() == ()


async def test_a_request_of_a_child_answered_elsewhere_is_withdrawn(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await sup.session(session).spawn("scripted", "ask delete")
    asked = await editor.asked_for(PERMISSION)
    (pending,) = await sup.permissions()
    await sup.answer(pending.id, "allow_once")

    await editor.until(lambda: editor.cancelled == [asked["id"]])


async def test_requests_of_other_trees_are_not_asked(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    other = await sup.create("scripted")
    await other.spawn("scripted", "ask delete")

    await editor.prompt(session, "sleep 0.1")
    assert editor.asked == []


# Notices ----------------------------------------------------------------------------------


async def test_a_stall_is_a_notice() -> None:
    settings = supervisor.Settings(quiet_after_seconds=0.1, stalled_after_seconds=0.2)
    async with opened_supervisor(settings=settings) as sup, editing(sup) as editor:
        await editor.start(session={"notices": {}})
        session = await editor.new()
        await editor.begin(session, "sleep 60")
        await editor.until(lambda: editor.updates("notice"))
        await editor.notify("session/cancel", sessionId=session)

        assert "No progress" in editor.updates("notice")[0]["title"]


async def test_a_client_that_offers_no_notices_gets_none() -> None:
    settings = supervisor.Settings(quiet_after_seconds=0.1, stalled_after_seconds=0.2)
    async with opened_supervisor(settings=settings) as sup, editing(sup) as editor:
        await editor.start()
        session = await editor.new()
        request = await editor.begin(session, "sleep 60")
        await recorded(sup.session(session), "stalled")
        await editor.notify("session/cancel", sessionId=session)
        await editor.answer_to(request)

        assert editor.updates("notice") == []
