"""Turns of an ACP agent: output, ends, and misbehaving agents; see acp/acp_session.py."""

from __future__ import annotations

import json

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.limits import Ladder
from supervisor.drivers.acp.agent import acp
from tests.support.acp_driver import open_harness, open_manual_agent
from tests.support.driver_context import FakeDriverContext

SECRET = "sk-" + "proj0123456789" * 3


async def end_of(script: str, *flags: str) -> agent_events.TurnEnded:
    async with open_harness(*flags) as harness:
        await harness.come_up()
        return await harness.run(script)


INVALID_ANSWERS = {
    "NaN": b'{"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn", "x": NaN}}',
    "1e999": b'{"jsonrpc": "2.0", "id": 3, "result": {"stopReason": "end_turn", "x": 1e999}}',
    "cut": b'{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_',
    "too deep": b'{"id":3,"result":' + b"[" * 200 + b"]" * 200 + b"}",
    "batch": b'[{"method":"m"}, {"id":9,"result":1}, {"id":3,"result":{"stopReason":"end_turn"}}]',
}


@pytest.mark.parametrize("line", INVALID_ANSWERS.values(), ids=INVALID_ANSWERS)
async def test_an_answer_that_is_not_json_fails_the_turn_with_a_warning(line: bytes) -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        turn = harness.order("go")
        assert (await manual_agent.hears("session/prompt"))["id"] == 3
        manual_agent.writes(line)
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.outcome == "failed"
        assert ended.error is not None
        assert ended.error.startswith("the agent's answer cannot be read: the ")
        assert harness.context.output == [(turn, "warning", {"text": ended.error})]


@pytest.mark.parametrize("wrong", ["4", '"3"', "null"])
async def test_an_answer_with_a_wrong_id_is_a_warning_of_its_turn(wrong: str) -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        turn = harness.order("go")
        prompt = await manual_agent.hears("session/prompt")
        for _ in range(2):
            manual_agent.writes(b'{"id": %b, "result": {}}' % wrong.encode())
        await settle()
        [(warned, kind, body)] = harness.context.output
        manual_agent.answers(prompt, {"stopReason": "end_turn"})
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (warned, kind, ended.stop_reason) == (turn, "warning", "end_turn")
        assert "belongs to no open call" in body["text"]


# Output of a turn --------------------------------------------------------------------------


async def test_agent_output_is_recorded_in_order() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        ended = await harness.run("say one\nthink two\nsay three\nupdate plan\nflood 20\nsay end")

        kinds = [kind for _, kind, _ in harness.context.output]
        assert kinds == ["agent_text", "thought", "agent_text", "plan", *["agent_text"] * 21]
        assert ended.text is not None
        assert ended.text.startswith("onethree")
        assert ended.text.endswith("overend")


async def test_updates_before_the_answer_are_handled_before_the_turn_ends() -> None:
    context = FakeDriverContext()
    async with open_harness(context=context) as harness:
        await harness.come_up()
        context.fall_behind()  # each update now waits for the store
        harness.order("flood 200")
        await settle()
        assert context.all(agent_events.TurnEnded) == []
        context.catch_up()
        ended = await context.heard(agent_events.TurnEnded)

        assert (ended.text or "").count("over") == 200


async def test_an_update_after_the_answer_is_ignored() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        ended = await harness.run("say one\nanswer\nsay two\nthink three\ntool bash 0")
        await settle()

        assert ended.text == "one"
        assert [body for _, _, body in harness.context.output] == ["one"]
        assert harness.context.all(agent_events.CallStarted) == []


async def test_a_late_update_does_not_count_for_the_next_turn() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        harness.order("first")
        manual_agent.updates("one")
        manual_agent.ends(await manual_agent.hears("session/prompt"))
        manual_agent.updates("late")
        await harness.context.heard(agent_events.TurnEnded)
        await settle()
        harness.order("second")
        prompt = await manual_agent.hears("session/prompt", times=2)
        manual_agent.updates("two")
        manual_agent.ends(prompt)
        ended = await harness.context.heard(agent_events.TurnEnded, times=2)

        assert ended.text == "two"


async def test_an_update_of_another_session_is_ignored() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        harness.order("go")
        prompt = await manual_agent.hears("session/prompt")
        manual_agent.updates("theirs", session="another")
        manual_agent.updates("ours")
        manual_agent.ends(prompt)

        assert (await harness.context.heard(agent_events.TurnEnded)).text == "ours"


# Ends --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "outcome", "reason"),
    [
        ("say hello", "completed", "end_turn"),
        ("say hello\nanswer max_tokens", "completed", "max_tokens"),
        ("say hello\nanswer max_turn_requests", "completed", "max_turn_requests"),
        ("say hello\nanswer refusal", "failed", "refusal"),
        ("say hello\nanswer cancelled", "interrupted", "cancelled"),
        ("say hello\nanswer tired", "completed", "tired"),
        ("think hm", "completed", "end_turn"),
        ("tool bash 0", "completed", "end_turn"),
        ("", "failed", "end_turn"),
        ('reply "rubbish"', "failed", None),
        ("say hello\nreply 7", "completed", None),
        ("reply {}", "failed", None),
        ('say hello\nreply {"stopReason": 5}', "completed", None),
    ],
)
async def test_a_turn_outcome_depends_on_more_than_the_stop_reason(
    script: str, outcome: str, reason: str | None
) -> None:
    ended = await end_of(script)

    assert (ended.outcome, ended.stop_reason) == (outcome, reason)
    assert (ended.error is None) == (outcome != "failed")


@pytest.mark.parametrize("last_words", ["", "API Error: Request was aborted."])
async def test_a_cancelled_turn_is_interrupted_for_any_last_text(last_words: str) -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        turn = harness.order("go")
        prompt = await manual_agent.hears("session/prompt")
        harness.driver.cancel_turn(turn, "ask")
        await manual_agent.hears("session/cancel")
        manual_agent.updates(last_words)
        manual_agent.ends(prompt, "end_turn")
        ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.outcome, ended.stop_reason, ended.error) == ("interrupted", "end_turn", None)


async def test_a_turn_without_output_fails() -> None:
    assert "without output" in ((await end_of("")).error or "")


@pytest.mark.parametrize("code", [400, -32603, 1001])
async def test_an_rpc_error_fails_the_turn_and_keeps_the_agent(code: int) -> None:
    async with open_harness() as harness:
        await harness.come_up()
        failed = await harness.run(f"say partly\nerror {code} the model is gone")
        after = await harness.run("say hello")

        assert (failed.outcome, failed.text) == ("failed", "partly")
        assert failed.error == f"the model is gone (code {code})"
        assert after.outcome == "completed"


async def test_an_rpc_error_shows_details_and_no_secret() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        harness.order("go")
        prompt = await manual_agent.hears("session/prompt")
        detail = {"details": f"key {SECRET} is wrong"}
        error = {"code": -32603, "message": "Internal error", "data": detail}
        manual_agent.says({"id": prompt["id"], "error": error})
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.error is not None
        assert ended.error.startswith("Internal error: key ")
        assert SECRET not in ended.error


# Misbehaving agents ------------------------------------------------------------------------


async def test_a_second_answer_to_a_prompt_is_ignored() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        await harness.run("say one\nanswer\nanswer refusal\nerror 5 no")
        after = await harness.run("say two")
        await settle()

        assert after.text == "two"
        assert harness.context.kinds() == ["TurnEnded", "TurnEnded"]


async def test_answers_out_of_order_reach_their_calls() -> None:
    async with open_harness("--out-of-order", "--steering", "injected") as harness:
        await harness.come_up()
        turn = harness.order("sleep 1\nsay hello")
        await settle()
        harness.hand(turn, "in_2", "quick")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.outcome == "completed"
        assert [taken.inputs for taken in harness.context.all(agent_events.SteeringTaken)] == [
            ("in_2",)
        ]


async def test_unknown_messages_are_tolerated() -> None:
    script = (
        'update a_new_kind {"x": 1}\nnotify _auth/status_update {"a": 1}\nnotify no/such/method\n'
        "raw this is no JSON\nraw [1, 2]\nraw {}\nrequest craft/drain {}\nrequest _private {}\n"
        "say hello"
    )
    ended = await end_of(script)

    assert ended.outcome == "completed"
    assert ended.text is not None
    for method in ("craft/drain", "_private"):
        [said] = [line for line in ended.text.splitlines() if line.startswith(f"{method}:")]
        assert json.loads(said.removeprefix(f"{method}:"))["error"]["code"] == -32601
    assert ended.text.endswith("hello")


async def test_a_request_for_an_unannounced_method_is_refused() -> None:
    ended = await end_of(
        'request fs/read_text_file {"path": "/etc/passwd"}\nrequest terminal/create {}'
    )

    assert (ended.text or "").count("-32601") == 2


async def test_a_banner_on_the_output_is_not_a_crash() -> None:
    assert (await end_of("say hello", "--banner", "Welcome!")).text == "hello"


async def test_a_flood_without_a_newline_is_not_a_crash() -> None:
    ended = await end_of("spew 40000000\nraw \nsay hello")

    assert ended.text == "hello"


# Too much output ---------------------------------------------------------------------------


def patient() -> FakeDriverContext:
    context = FakeDriverContext(max_turn_bytes=1000)
    context.ladder = Ladder(ask_seconds=5.0)
    return context


async def test_a_turn_with_too_much_output_is_cancelled_and_fails() -> None:
    async with open_harness(context=patient()) as harness:
        await harness.come_up()
        ended = await harness.run("flood 50\nsleep 1000")

        assert ended.outcome == "failed"
        assert "too much" in (ended.error or "")
        assert harness.methods() == ["session/prompt", "session/cancel"]
        assert (await harness.run("say hello")).text == "hello"


async def test_a_finished_turn_with_too_much_output_fails_too() -> None:
    async with open_harness(context=patient()) as harness:
        await harness.come_up()
        ended = await harness.run("flood 50")

        assert ended.outcome == "failed"
        assert "too much" in (ended.error or "")


async def test_an_agent_that_floods_and_ignores_the_cancel_is_killed() -> None:
    async with open_harness(context=patient()) as harness:
        await harness.come_up()
        harness.order("flood 50\nhang")
        exited = await harness.context.heard(agent_events.AgentExited)

        assert trio.current_time() < 10
        assert harness.processes.signals == [(harness.process.identity.pid, "kill")]
        assert exited.failure is not None
        assert exited.failure.kind == "protocol"
        assert "too large" in exited.failure.detail


# Exits -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script", ["crash", "say half\ncrash", "tool bash 0\ncrash", "think\ncrash"]
)
async def test_an_agent_that_exits_in_a_turn_reports_no_turn_end(script: str) -> None:
    async with open_harness() as harness:
        await harness.come_up()
        harness.order(script)
        exited = await harness.context.heard(agent_events.AgentExited)
        await settle()

        assert exited.failure is not None
        assert exited.failure.kind == "process_exit"
        assert "the script says crash" in exited.failure.detail
        assert harness.context.all(agent_events.TurnEnded) == []
        assert harness.context.processes == []


async def test_an_agent_that_exits_at_the_prompt_reports_no_turn_end() -> None:
    async with open_harness("--die-at", "prompt") as harness:
        await harness.come_up()
        harness.order("say hello")
        exited = await harness.context.heard(agent_events.AgentExited)

        assert exited.failure is not None
        assert harness.context.all(agent_events.TurnEnded) == []


async def test_an_agent_that_answers_and_exits_has_ended_its_turn() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        harness.order("say hello\nanswer\nexit 0")
        exited = await harness.context.heard(agent_events.AgentExited)

        assert exited.failure is None
        assert harness.context.kinds() == ["TurnEnded", "AgentExited"]


async def test_a_clean_exit_of_an_idle_agent_has_no_failure() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        manual_agent.leaves(0)
        exited = await harness.context.heard(agent_events.AgentExited)

        assert exited.failure is None


async def test_an_idle_agent_that_exits_with_a_code_has_a_failure() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        manual_agent.leaves(3)
        exited = await harness.context.heard(agent_events.AgentExited)

        assert exited.failure is not None
        assert "code 3" in exited.failure.detail


async def test_an_agent_that_closes_its_output_is_ended() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        harness.order("say half\nclose-stdout\nsleep 1000")
        exited = await harness.context.heard(agent_events.AgentExited)

        assert exited.failure is not None
        assert exited.failure.kind == "transport"
        assert "closed its output" in exited.failure.detail
        assert harness.processes.alive == []
        assert trio.current_time() < 10


async def test_an_agent_that_never_reads_is_ended_when_its_pipe_is_full() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        await harness.run("say hello\nanswer\ndeaf")
        turn = harness.order("say " + "x" * 70_000)  # fills the pipe
        await settle()
        harness.driver.cancel_turn(turn, "ask")  # the pipe is full, so this cannot be written
        exited = await harness.context.heard(agent_events.AgentExited)

        assert exited.failure is not None
        assert "does not read" in exited.failure.detail
        assert trio.current_time() < 60


async def test_an_agent_that_closes_its_input_is_ended_at_the_next_prompt() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        await harness.run("ignore-eof\nsay hello")
        harness.process.close_input()
        harness.order("say more")
        exited = await harness.context.heard(agent_events.AgentExited)

        assert exited.failure is not None
        assert (exited.failure.kind, exited.failure.detail) == (
            "transport",
            "the agent's input is closed",
        )
        assert trio.current_time() < 10


# Authentication at the prompt --------------------------------------------------------------


async def test_a_prompt_is_repeated_after_authentication() -> None:
    knows = acp("manual_agent", ["manual_agent"], auth="key")
    async with open_manual_agent(agent=knows) as (harness, manual_agent):
        await harness.come_up()
        harness.order("go")
        manual_agent.refuses(await manual_agent.hears("session/prompt"), -32000, "who are you?")
        manual_agent.answers(await manual_agent.hears("authenticate"), {})
        prompt = await manual_agent.hears("session/prompt", times=2)
        manual_agent.updates("hello")
        manual_agent.ends(prompt)
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.outcome == "completed"
        assert [
            one.method for one in harness.context.all(agent_events.AuthenticationRequested)
        ] == [
            "key",
            None,
        ]


async def test_a_prompt_that_requires_authentication_fails_with_a_hint() -> None:
    async with open_manual_agent({"authMethods": [{"id": "login", "name": "Log in"}]}) as (
        harness,
        manual_agent,
    ):
        await harness.come_up()
        harness.order("go")
        manual_agent.refuses(await manual_agent.hears("session/prompt"), -32000, "who are you?")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.outcome == "failed"
        assert "login" in (ended.error or "")
        assert "auth=" in (ended.error or "")


async def test_an_interrupt_ends_a_turn_that_waits_for_authentication() -> None:
    knows = acp("manual_agent", ["manual_agent"], auth="key")
    async with open_manual_agent(agent=knows) as (harness, manual_agent):
        await harness.come_up()
        turn = harness.order("go")
        manual_agent.refuses(await manual_agent.hears("session/prompt"), -32000, "who are you?")
        await manual_agent.hears("authenticate")
        harness.driver.cancel_turn(turn, "ask")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.outcome, trio.current_time()) == ("interrupted", 0.0)
        assert [
            one.method for one in harness.context.all(agent_events.AuthenticationRequested)
        ] == [
            "key",
            None,
        ]
