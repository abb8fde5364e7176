"""Prompts: each is answered by the end of its own turn, after all updates of that turn."""

from __future__ import annotations

import pytest
import trio

import supervisor
from tests.support.acp_editor import Editor, Refused, accepted, editing, opened_supervisor

INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
CANCELLED = -32800


async def test_a_prompt_is_answered_after_its_text(editor: Editor) -> None:
    session = await editor.new()
    request = await editor.begin(session, "say hello\nthink about it\nsay you")

    assert await editor.answer_to(request) == {"stopReason": "end_turn"}
    assert editor.text() == "helloyou"
    assert editor.text("agent_thought_chunk") == "about it"
    assert editor.order[-1] == request
    assert editor.updates("user_message_chunk") == []


async def test_a_text_that_is_only_returned_is_told() -> None:
    @supervisor.agent("quiet")
    async def quiet(turn: supervisor.Turn) -> str:
        return f"returned {turn.text}"

    async with opened_supervisor(agents=[quiet]) as sup, editing(sup, agent="quiet") as editor:
        await editor.start()
        await editor.prompt(await editor.new(), "this")

        assert editor.text() == "returned this"


async def test_a_thousand_prompts(editor: Editor) -> None:
    session = await editor.new()

    for number in range(1000):
        assert await editor.prompt(session, f"say {number};") == {"stopReason": "end_turn"}

    assert editor.text() == "".join(f"{number};" for number in range(1000))


async def test_a_second_prompt_is_queued_and_answered_by_its_own_turn(editor: Editor) -> None:
    session = await editor.new()
    first = await editor.begin(session, "say one\nsleep 0.1\nsay two")
    second = await editor.begin(session, "say three")

    await editor.answer_to(second)

    assert editor.is_answered(first)
    assert editor.text() == "onetwothree"
    assert editor.order.index(first) < editor.order.index(second)


async def test_prompts_keep_their_order(editor: Editor) -> None:
    session = await editor.new()
    requests = [await editor.begin(session, f"say {number}") for number in range(10)]

    for request in requests:
        await editor.answer_to(request)

    assert editor.text() == "0123456789"
    assert [one for one in editor.order if one in requests] == requests


async def test_a_full_queue_refuses(sup: supervisor.Supervisor, editor: Editor) -> None:
    session = await editor.new()
    await editor.begin(session, "sleep 60")
    for _ in range(10):
        await editor.begin(session, "say queued")

    with pytest.raises(Refused) as refused:
        await editor.prompt(session, "one too many")

    assert refused.value.code == INVALID_PARAMS
    assert refused.value.data["code"] == "queue_full"
    assert refused.value.data["retry"] == "later"


async def test_a_long_text_is_refused(editor: Editor) -> None:
    with pytest.raises(Refused) as refused:
        await editor.prompt(await editor.new(), "x" * 70_000)

    assert refused.value.code == INVALID_PARAMS
    assert refused.value.data["code"] == "input_too_large"


async def test_a_failed_turn_is_an_error_with_a_hint(editor: Editor) -> None:
    session = await editor.new()

    with pytest.raises(Refused, match="no more") as refused:
        await editor.prompt(session, "fail no more")

    assert refused.value.code == INTERNAL_ERROR
    assert refused.value.data["code"] == "turn_failed"
    assert refused.value.data["hint"]
    assert await editor.prompt(session, "say again") == {"stopReason": "end_turn"}


async def test_a_spent_token_budget_ends_with_max_tokens(sup: supervisor.Supervisor) -> None:
    root = await sup.create("scripted", limits=supervisor.Limits(tokens=100))
    async with editing(sup) as editor:
        await editor.start()
        await editor.call("session/resume", sessionId=root.id, cwd="/", mcpServers=[])

        assert await editor.prompt(root.id, "use 200\nsleep 60") == {"stopReason": "max_tokens"}
        with pytest.raises(Refused) as refused:
            await editor.prompt(root.id, "say more")

    assert refused.value.code == INVALID_PARAMS
    assert refused.value.data["retry"] == "never"


async def test_a_queued_prompt_over_the_turn_limit_ends_with_max_turn_requests(
    sup: supervisor.Supervisor,
) -> None:
    root = await sup.create("scripted", limits=supervisor.Limits(turns=2))
    async with editing(sup) as editor:
        await editor.start()
        await editor.call("session/resume", sessionId=root.id, cwd="/", mcpServers=[])
        texts = ("sleep 0.1", "say more", "say too much")
        requests = [await editor.begin(root.id, text) for text in texts]

        reasons = [(await editor.answer_to(one))["stopReason"] for one in requests]
        assert reasons == ["end_turn", "end_turn", "max_turn_requests"]


async def test_the_usage_of_the_turn_is_unstable(sup: supervisor.Supervisor) -> None:
    async with editing(sup, unstable=True) as editor:
        await editor.start()
        answer = await editor.prompt(await editor.new(), "use 12")

    assert answer["usage"]["totalTokens"] == 12


async def test_blocks_become_text_and_attachments(sup: supervisor.Supervisor) -> None:
    received: list[supervisor.Turn] = []

    @supervisor.agent("mine")
    async def mine(turn: supervisor.Turn) -> None:
        received.append(turn)

    async with opened_supervisor(agents=[mine]) as own, editing(own, agent="mine") as editor:
        await editor.start()
        session = await editor.new()
        await editor.call(
            "session/prompt",
            sessionId=session,
            prompt=[
                {"type": "text", "text": "look at "},
                {"type": "resource_link", "uri": "file:///a/b.py", "name": "b.py"},
                {"type": "text", "text": ", please"},
                {"type": "image", "data": "aGk=", "mimeType": "image/png"},
            ],
        )
        records = [
            record for turn in await own.session(session).history() for record in turn.records
        ]

    (body,) = [record.body for record in records if record.kind == "input_accepted"]
    assert body["text"] == "look at [@b.py](file:///a/b.py), please[image]"
    assert [one["type"] for one in body["attachments"]] == ["resource_link", "image"]
    assert received[0].text == body["text"]


async def test_the_trace_context_is_carried_on(editor: Editor) -> None:
    session = await editor.new()
    trace = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}
    answer = await editor.call(
        "session/prompt",
        sessionId=session,
        prompt=[{"type": "text", "text": "say hello"}],
        _meta={**trace, "other": 1},
    )

    assert answer["_meta"] == trace
    (told,) = [
        one for one in editor.told if one["update"]["sessionUpdate"] == "agent_message_chunk"
    ]
    assert told["_meta"] == trace


# Cancel -----------------------------------------------------------------------------------


async def test_a_cancelled_turn_ends_as_cancelled(editor: Editor) -> None:
    session = await editor.new()
    request = await editor.begin(session, "say hello\nsleep 60")
    await editor.until(lambda: editor.text() == "hello")
    await editor.notify("session/cancel", sessionId=session)

    assert await editor.answer_to(request) == {"stopReason": "cancelled"}
    assert await editor.prompt(session, "say on") == {"stopReason": "end_turn"}


async def test_a_cancel_right_behind_the_prompt_finds_it(editor: Editor) -> None:
    session = await editor.new()
    request = await editor.begin(session, "sleep 60")
    await editor.notify("session/cancel", sessionId=session)

    assert await editor.answer_to(request) == {"stopReason": "cancelled"}


async def test_a_cancel_cancels_queued_prompts_too(editor: Editor) -> None:
    session = await editor.new()
    requests = [await editor.begin(session, "sleep 60") for _ in range(3)]
    await editor.notify("session/cancel", sessionId=session)

    for request in requests:
        assert await editor.answer_to(request) == {"stopReason": "cancelled"}


async def test_a_prompt_behind_a_cancel_is_not_hit(editor: Editor) -> None:
    session = await editor.new()
    first = await editor.begin(session, "sleep 60")
    await editor.notify("session/cancel", sessionId=session)
    second = await editor.begin(session, "say after")

    assert await editor.answer_to(first) == {"stopReason": "cancelled"}
    assert await editor.answer_to(second) == {"stopReason": "end_turn"}
    assert editor.text() == "after"


async def test_a_cancel_leaves_the_inputs_of_others(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    mine = await editor.begin(session, "sleep 60")
    await accepted(sup.session(session), 1)
    receipt = await sup.session(session).send("say theirs")
    await editor.notify("session/cancel", sessionId=session)

    assert await editor.answer_to(mine) == {"stopReason": "cancelled"}
    assert (await sup.session(session).result(receipt.input_id)).outcome == "completed"


async def test_a_cancel_without_a_turn_does_nothing(editor: Editor) -> None:
    session = await editor.new()
    await editor.notify("session/cancel", sessionId=session)

    assert await editor.prompt(session, "say hello") == {"stopReason": "end_turn"}


async def test_a_withdrawn_request_cancels_its_own_prompt_only(editor: Editor) -> None:
    session = await editor.new()
    first = await editor.begin(session, "say one\nsleep 0.3")
    second = await editor.begin(session, "say two")
    await editor.until(lambda: editor.text() == "one")
    await editor.notify("$/cancel_request", requestId=second)

    with pytest.raises(Refused) as refused:
        await editor.answer_to(second)
    assert refused.value.code == CANCELLED
    assert await editor.answer_to(first) == {"stopReason": "end_turn"}
    assert editor.text() == "one"


async def test_a_withdrawn_request_interrupts_its_turn(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    request = await editor.begin(session, "say one\nsleep 60")
    await editor.until(lambda: editor.text() == "one")
    await editor.notify("$/cancel_request", requestId=request)

    info = await sup.session(session).wait_idle()
    assert info.last_outcome is not None
    assert info.last_outcome.outcome == "interrupted"


# Steering ---------------------------------------------------------------------------------


async def steer(editor: Editor, session: str, text: str, **meta: object) -> object:
    prompt = [{"type": "text", "text": text}]
    return await editor.call("_session/steering", sessionId=session, prompt=prompt, _meta=meta)


async def test_steering_is_injected() -> None:
    heard: list[str] = []

    @supervisor.agent("steered")
    async def steered(turn: supervisor.Turn) -> None:
        await turn.say("ready")
        while not heard:
            await trio.sleep(0.01)
            heard.extend(turn.steering())

    async with opened_supervisor(agents=[steered]) as sup, editing(sup, agent="steered") as editor:
        await editor.start()
        session = await editor.new()
        request = await editor.begin(session, "begin")
        await editor.until(lambda: editor.text() == "ready")

        assert await steer(editor, session, "left") == {"outcome": "injected"}
        assert await editor.answer_to(request) == {"stopReason": "end_turn"}

    assert heard == ["left"]


async def test_steering_that_the_turn_never_took_starts_a_turn(editor: Editor) -> None:
    session = await editor.new()
    await editor.begin(session, "say one\nsleep 0.1")
    await editor.until(lambda: editor.text() == "one")

    assert await steer(editor, session, "say two") == {"outcome": "startedNewTurn"}


async def test_steering_without_a_turn_starts_one(editor: Editor) -> None:
    session = await editor.new()

    assert await steer(editor, session, "say one") == {"outcome": "startedNewTurn"}
    await editor.until(lambda: editor.text() == "one")


async def test_steering_without_a_turn_may_require_a_prompt(editor: Editor) -> None:
    session = await editor.new()
    wanted = {"idleBehavior": "promptRequired"}

    assert await steer(editor, session, "go", steering=wanted) == {"outcome": "promptRequired"}


async def test_steering_is_cancelled_with_its_turn(
    sup: supervisor.Supervisor, editor: Editor
) -> None:
    session = await editor.new()
    await editor.begin(session, "say one\nsleep 60")
    await editor.until(lambda: editor.text() == "one")
    prompt = [{"type": "text", "text": "sleep 60"}]
    request = await editor.ask("_session/steering", sessionId=session, prompt=prompt)
    await editor.notify("session/cancel", sessionId=session)

    outcome = (await editor.answer_to(request))["outcome"]
    assert outcome in ("failed", "startedNewTurn")
    await sup.session(session).wait_idle()


# Our commands -----------------------------------------------------------------------------


async def test_our_commands_are_offered_after_the_session(editor: Editor) -> None:
    await editor.new()
    await editor.until(lambda: editor.updates("available_commands_update"))

    (update,) = editor.updates("available_commands_update")
    names = {one["name"] for one in update["availableCommands"]}
    assert names == {"understudy:why", "understudy:tree", "understudy:budget"}
    assert editor.order.index("session/update") > editor.order.index(2)


@pytest.mark.parametrize(
    ("command", "shown"),
    [("why", "waits for tool"), ("tree", "(scripted, running)"), ("budget", "tokens: 0")],
)
async def test_our_commands_are_answered_during_a_turn(
    sup: supervisor.Supervisor, editor: Editor, command: str, shown: str
) -> None:
    session = await editor.new()
    await editor.begin(session, "tool build 60")
    await editor.until(lambda: editor.updates("tool_call"))

    assert await editor.prompt(session, f"/understudy:{command}") == {"stopReason": "end_turn"}
    assert shown in editor.text()
    assert (await sup.session(session).info()).turns == 1
