"""Turns of an ACP agent: what belongs to each, how each ends, and agents that know no manners."""

from __future__ import annotations

import json

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.limits import Ladder
from supervisor.drivers.acp.agent import acp
from tests.drivers.acp.driver_desk import open_desk, open_puppet
from tests.drivers.office import StandInOffice

SECRET = "sk-" + "proj0123456789" * 3


async def end_of(script: str, *flags: str) -> ev.TurnEnded:
    async with open_desk(*flags) as desk:
        await desk.come_up()
        return await desk.run(script)


# What belongs to a turn --------------------------------------------------------------------


async def test_what_it_says_is_kept_in_its_order() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        ended = await desk.run("say one\nthink two\nsay three\nupdate plan\nflood 20\nsay end")

        kinds = [kind for _, kind, _ in desk.office.output]
        assert kinds == ["agent_text", "thought", "agent_text", "plan", *["agent_text"] * 21]
        assert ended.text is not None
        assert ended.text.startswith("onethree")
        assert ended.text.endswith("overend")


async def test_all_that_came_before_the_answer_is_handled_before_the_turn_is_over() -> None:
    office = StandInOffice()
    async with open_desk(office=office) as desk:
        await desk.come_up()
        office.fall_behind()  # each of them takes its time now
        desk.order("flood 200")
        await settle()
        assert office.all(ev.TurnEnded) == []
        office.catch_up()
        ended = await office.heard(ev.TurnEnded)

        assert (ended.text or "").count("over") == 200


async def test_what_comes_after_the_answer_is_no_news() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        ended = await desk.run("say one\nanswer\nsay two\nthink three\ntool bash 0")
        await settle()

        assert ended.text == "one"
        assert [body for _, _, body in desk.office.output] == ["one"]
        assert desk.office.all(ev.CallStarted) == []


async def test_what_comes_late_is_not_the_next_turns_either() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        desk.order("first")
        puppet.updates("one")
        puppet.ends(await puppet.hears("session/prompt"))
        puppet.updates("late")
        await desk.office.heard(ev.TurnEnded)
        await settle()
        desk.order("second")
        prompt = await puppet.hears("session/prompt", times=2)
        puppet.updates("two")
        puppet.ends(prompt)
        ended = await desk.office.heard(ev.TurnEnded, times=2)

        assert ended.text == "two"


async def test_what_it_says_of_another_session_is_not_ours() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        desk.order("go")
        prompt = await puppet.hears("session/prompt")
        puppet.updates("theirs", session="another")
        puppet.updates("ours")
        puppet.ends(prompt)

        assert (await desk.office.heard(ev.TurnEnded)).text == "ours"


# How it ends -------------------------------------------------------------------------------


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
async def test_an_end_is_judged_by_more_than_its_word(
    script: str, outcome: str, reason: str | None
) -> None:
    ended = await end_of(script)

    assert (ended.outcome, ended.stop_reason) == (outcome, reason)
    assert (ended.error is None) == (outcome != "failed")


@pytest.mark.parametrize("last_words", ["", "API Error: Request was aborted."])
async def test_an_end_that_was_asked_for_is_no_failure_however_it_is_said(last_words: str) -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        turn = desk.order("go")
        prompt = await puppet.hears("session/prompt")
        desk.driver.cancel_turn(turn, "ask")
        await puppet.hears("session/cancel")
        puppet.updates(last_words)
        puppet.ends(prompt, "end_turn")
        ended = await desk.office.heard(ev.TurnEnded)

    assert (ended.outcome, ended.stop_reason, ended.error) == ("interrupted", "end_turn", None)


async def test_one_that_says_nothing_is_no_success() -> None:
    assert "without a word" in ((await end_of("")).error or "")


@pytest.mark.parametrize("code", [400, -32603, 1001])
async def test_an_error_fails_the_turn_in_its_own_words_and_the_agent_goes_on(code: int) -> None:
    async with open_desk() as desk:
        await desk.come_up()
        failed = await desk.run(f"say partly\nerror {code} the model is gone")
        after = await desk.run("say hello")

        assert (failed.outcome, failed.text) == ("failed", "partly")
        assert failed.error == f"the model is gone (code {code})"
        assert after.outcome == "completed"


async def test_an_error_with_details_shows_them_and_no_secret() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        desk.order("go")
        prompt = await puppet.hears("session/prompt")
        detail = {"details": f"key {SECRET} is wrong"}
        error = {"code": -32603, "message": "Internal error", "data": detail}
        puppet.says({"id": prompt["id"], "error": error})
        ended = await desk.office.heard(ev.TurnEnded)

        assert ended.error is not None
        assert ended.error.startswith("Internal error: key ")
        assert SECRET not in ended.error


# Manners -----------------------------------------------------------------------------------


async def test_one_that_answers_twice_is_heard_once() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        await desk.run("say one\nanswer\nanswer refusal\nerror 5 no")
        after = await desk.run("say two")
        await settle()

        assert after.text == "two"
        assert desk.office.kinds() == ["TurnEnded", "TurnEnded"]


async def test_one_whose_answers_overtake_each_other_is_understood() -> None:
    async with open_desk("--out-of-order", "--steering", "injected") as desk:
        await desk.come_up()
        turn = desk.order("sleep 1\nsay hello")
        await settle()
        desk.hand(turn, "in_2", "quick")
        ended = await desk.office.heard(ev.TurnEnded)

        assert ended.outcome == "completed"
        assert [taken.inputs for taken in desk.office.all(ev.SteeringTaken)] == [("in_2",)]


async def test_what_nobody_knows_is_tolerated() -> None:
    script = (
        'update a_new_kind {"x": 1}\nnotify _auth/status_update {"a": 1}\nnotify no/such/method\n'
        "raw this is no JSON\nraw [1, 2]\nraw {}\ncall craft/drain {}\ncall _private {}\nsay hello"
    )
    ended = await end_of(script)

    assert ended.outcome == "completed"
    assert ended.text is not None
    for method in ("craft/drain", "_private"):
        [said] = [line for line in ended.text.splitlines() if line.startswith(f"{method}:")]
        assert json.loads(said.removeprefix(f"{method}:"))["error"]["code"] == -32601
    assert ended.text.endswith("hello")


async def test_what_was_not_offered_is_refused() -> None:
    ended = await end_of('call fs/read_text_file {"path": "/etc/passwd"}\ncall terminal/create {}')

    assert (ended.text or "").count("-32601") == 2


async def test_a_banner_on_its_output_is_no_crash() -> None:
    assert (await end_of("say hello", "--banner", "Welcome!")).text == "hello"


async def test_a_flood_without_a_newline_is_no_crash() -> None:
    ended = await end_of("spew 40000000\nraw \nsay hello")

    assert ended.text == "hello"


# Too much ----------------------------------------------------------------------------------


def patient() -> StandInOffice:
    office = StandInOffice(max_turn_bytes=1000)
    office.ladder = Ladder(ask_seconds=5.0)
    return office


async def test_one_that_says_too_much_is_told_to_end_and_has_failed() -> None:
    async with open_desk(office=patient()) as desk:
        await desk.come_up()
        ended = await desk.run("flood 50\nsleep 1000")

        assert ended.outcome == "failed"
        assert "too much" in (ended.error or "")
        assert desk.methods() == ["session/prompt", "session/cancel"]
        assert (await desk.run("say hello")).text == "hello"


async def test_one_that_says_too_much_and_is_through_has_failed_too() -> None:
    async with open_desk(office=patient()) as desk:
        await desk.come_up()
        ended = await desk.run("flood 50")

        assert ended.outcome == "failed"
        assert "too much" in (ended.error or "")


async def test_one_that_says_too_much_and_does_not_end_is_killed_for_that() -> None:
    async with open_desk(office=patient()) as desk:
        await desk.come_up()
        desk.order("flood 50\nhang")
        exited = await desk.office.heard(ev.AgentExited)

        assert trio.current_time() < 10
        assert desk.processes.signals == [(desk.process.identity.pid, "kill")]
        assert exited.failure is not None
        assert exited.failure.kind == "protocol"
        assert "more than it may" in exited.failure.detail


# It dies -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "script", ["crash", "say half\ncrash", "tool bash 0\ncrash", "think\ncrash"]
)
async def test_one_that_dies_in_a_turn_reports_no_end_of_it(script: str) -> None:
    async with open_desk() as desk:
        await desk.come_up()
        desk.order(script)
        exited = await desk.office.heard(ev.AgentExited)
        await settle()

        assert exited.failure is not None
        assert exited.failure.kind == "process_exit"
        assert "the script says crash" in exited.failure.detail
        assert desk.office.all(ev.TurnEnded) == []
        assert desk.office.processes == []


async def test_one_that_dies_at_the_prompt_reports_no_end_of_it() -> None:
    async with open_desk("--die-at", "prompt") as desk:
        await desk.come_up()
        desk.order("say hello")
        exited = await desk.office.heard(ev.AgentExited)

        assert exited.failure is not None
        assert desk.office.all(ev.TurnEnded) == []


async def test_one_that_answers_and_leaves_has_ended_its_turn() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        desk.order("say hello\nanswer\nexit 0")
        exited = await desk.office.heard(ev.AgentExited)

        assert exited.failure is None
        assert desk.office.kinds() == ["TurnEnded", "AgentExited"]


async def test_one_that_leaves_cleanly_when_idle_has_no_failure() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        puppet.leaves(0)
        exited = await desk.office.heard(ev.AgentExited)

        assert exited.failure is None


async def test_one_that_leaves_with_a_code_when_idle_has_one() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        puppet.leaves(3)
        exited = await desk.office.heard(ev.AgentExited)

        assert exited.failure is not None
        assert "code 3" in exited.failure.detail


async def test_one_that_closes_its_output_is_let_go_of() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        desk.order("say half\nclose-stdout\nsleep 1000")
        exited = await desk.office.heard(ev.AgentExited)

        assert exited.failure is not None
        assert exited.failure.kind == "transport"
        assert "closed its output" in exited.failure.detail
        assert desk.processes.alive == []
        assert trio.current_time() < 10


async def test_one_that_never_reads_is_let_go_of_when_its_pipe_is_full() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        await desk.run("say hello\nanswer\ndeaf")
        turn = desk.order("say " + "x" * 70_000)  # fills the pipe
        await settle()
        desk.driver.cancel_turn(turn, "ask")  # there is no room for this
        exited = await desk.office.heard(ev.AgentExited)

        assert exited.failure is not None
        assert "does not read" in exited.failure.detail
        assert trio.current_time() < 60


async def test_one_that_closes_its_input_is_let_go_of_at_the_next_prompt() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        await desk.run("ignore-eof\nsay hello")
        desk.process.close_input()
        desk.order("say more")
        exited = await desk.office.heard(ev.AgentExited)

        assert exited.failure is not None
        assert (exited.failure.kind, exited.failure.detail) == (
            "transport",
            "the agent's input is closed",
        )
        assert trio.current_time() < 10


# Authenticated only now --------------------------------------------------------------------


async def test_one_that_asks_who_we_are_at_the_prompt_is_told_and_prompted_again() -> None:
    knows = acp("puppet", ["puppet"], auth="key")
    async with open_puppet(agent=knows) as (desk, puppet):
        await desk.come_up()
        desk.order("go")
        puppet.refuses(await puppet.hears("session/prompt"), -32000, "who are you?")
        puppet.answers(await puppet.hears("authenticate"), {})
        prompt = await puppet.hears("session/prompt", times=2)
        puppet.updates("hello")
        puppet.ends(prompt)
        ended = await desk.office.heard(ev.TurnEnded)

        assert ended.outcome == "completed"
        assert [one.method for one in desk.office.all(ev.AuthenticationAsked)] == ["key", None]


async def test_one_that_asks_at_the_prompt_and_is_not_told_says_how() -> None:
    async with open_puppet({"authMethods": [{"id": "login", "name": "Log in"}]}) as (desk, puppet):
        await desk.come_up()
        desk.order("go")
        puppet.refuses(await puppet.hears("session/prompt"), -32000, "who are you?")
        ended = await desk.office.heard(ev.TurnEnded)

        assert ended.outcome == "failed"
        assert "login" in (ended.error or "")
        assert "auth=" in (ended.error or "")


async def test_an_interrupt_ends_a_turn_that_waits_for_a_login() -> None:
    knows = acp("puppet", ["puppet"], auth="key")
    async with open_puppet(agent=knows) as (desk, puppet):
        await desk.come_up()
        turn = desk.order("go")
        puppet.refuses(await puppet.hears("session/prompt"), -32000, "who are you?")
        await puppet.hears("authenticate")
        desk.driver.cancel_turn(turn, "ask")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.outcome, trio.current_time()) == ("interrupted", 0.0)
        assert [one.method for one in desk.office.all(ev.AuthenticationAsked)] == ["key", None]
