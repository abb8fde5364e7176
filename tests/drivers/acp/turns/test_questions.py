"""What an ACP agent wants to be allowed: asked, decided, and answered once, whatever happens."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor.core import events as ev
from supervisor.core.ids import RequestId, TurnId
from supervisor.core.session import Decision
from tests.drivers.acp.driver_desk import Puppet, at_work, open_desk, open_puppet
from tests.drivers.office import StandInOffice

PERMISSION = "session/request_permission"
CANCELLED = {"outcome": {"outcome": "cancelled"}}
NAMES = {"y": "allow_once", "Y": "allow_always", "n": "reject_once", "N": "reject_always"}


def asked(puppet: Puppet, title: str = "bash", options: str = "yYnN") -> int:
    """Have the puppet ask; gives the number of its question."""
    call = {"toolCallId": title, "title": title}
    offered = [
        {"optionId": f"{name}{place}", "name": name, "kind": NAMES[name]}
        for place, name in enumerate(options)
    ]
    return puppet.asks(PERMISSION, {"sessionId": "puppet", "toolCall": call, "options": offered})


async def answer_to(question: str, decision: Decision) -> object:
    """What the agent is told when this is offered, and that is decided."""
    async with open_puppet() as (desk, puppet):
        await at_work(desk, puppet)
        request = asked(puppet, options=question)
        permission = await desk.office.heard(ev.PermissionAsked)
        desk.driver.answer(permission.request, decision)
        answer = await puppet.hears_answer(request)
        return answer["result"]["outcome"].get("optionId")


# Options, by their kind --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("offered", "decided", "chosen"),
    [
        ("yYnN", "allow_once", "y0"),
        ("nYy", "allow_once", "y2"),
        ("yyn", "allow_once", "y0"),
        ("Yyn", "allow_always", "Y0"),
        ("yn", "allow_always", "y0"),
        ("Yn", "allow_once", None),  # never more than was decided
        ("yN", "reject_once", "N1"),
        ("yY", "reject_once", None),
    ],
)
async def test_an_option_is_chosen_by_its_kind(
    offered: str, decided: Decision, chosen: str | None
) -> None:
    assert await answer_to(offered, decided) == chosen


async def test_only_what_is_offered_can_be_decided() -> None:
    async with open_puppet() as (desk, puppet):
        await at_work(desk, puppet)
        asked(puppet, options="yn")
        permission = await desk.office.heard(ev.PermissionAsked)

        assert permission.options == ("allow_once", "reject_once")


async def test_what_is_asked_says_what_it_is_about() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        turn = desk.order("ask bash")
        permission = await desk.office.heard(ev.PermissionAsked)
        desk.driver.answer(permission.request, "allow_once")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (permission.turn, permission.tool, permission.question) == (turn, "bash", "bash")
        assert ended.text == "bash: allowed\n"


# Once, and whatever happens ----------------------------------------------------------------


async def test_a_question_is_answered_once() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        desk.order("ask bash\nsleep 1")
        permission = await desk.office.heard(ev.PermissionAsked)
        for decision in ("reject_once", "allow_once", "cancelled"):
            desk.driver.answer(permission.request, decision)
        desk.driver.answer(RequestId("another"), "allow_once")
        ended = await desk.office.heard(ev.TurnEnded)

        assert ended.text == "bash: rejected\n"


async def test_two_questions_wait_for_their_own_answers() -> None:
    async with open_puppet() as (desk, puppet):
        await at_work(desk, puppet)
        first, second = asked(puppet, "bash"), asked(puppet, "edit")
        last = await desk.office.heard(ev.PermissionAsked, times=2)
        by_tool = {one.tool: one.request for one in desk.office.all(ev.PermissionAsked)}
        desk.driver.answer(by_tool["edit"], "allow_once")
        answer = await puppet.hears_answer(second)
        desk.driver.answer(by_tool["bash"], "reject_once")

        assert answer["result"]["outcome"]["optionId"] == "y0"
        assert (await puppet.hears_answer(first))["result"]["outcome"]["optionId"] == "n2"
        assert last.request in by_tool.values()


async def test_every_open_question_of_a_turn_that_is_over_is_cancelled() -> None:
    async with open_puppet() as (desk, puppet):
        _, prompt = await at_work(desk, puppet)
        requests = [asked(puppet, "bash"), asked(puppet, "edit")]
        await desk.office.heard(ev.PermissionAsked, times=2)
        puppet.updates("never mind")
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)

        for request in requests:
            assert (await puppet.hears_answer(request))["result"] == CANCELLED


async def test_a_question_outside_of_a_turn_is_cancelled_at_once() -> None:
    async with open_puppet() as (desk, puppet):
        await desk.come_up()
        answer = await puppet.hears_answer(asked(puppet))

        assert answer["result"] == CANCELLED
        assert desk.office.kinds() == []


async def test_rubbish_for_a_question_is_refused() -> None:
    async with open_puppet() as (desk, puppet):
        await at_work(desk, puppet)
        for params in ({}, {"toolCall": 5}, {"toolCall": {}, "options": "yes"}):
            answer = await puppet.hears_answer(puppet.asks(PERMISSION, dict(params)))
            assert answer["error"]["code"] == -32602
        assert desk.office.kinds() == []


async def test_one_that_no_longer_needs_the_answer_is_told_so_and_the_turn_goes_on() -> None:
    async with open_puppet() as (desk, puppet):
        _, prompt = await at_work(desk, puppet)
        request = asked(puppet)
        permission = await desk.office.heard(ev.PermissionAsked)
        puppet.says({"method": "$/cancel_request", "params": {"requestId": request}})
        answer = await puppet.hears_answer(request)
        desk.driver.answer(permission.request, "allow_once")  # nobody waits for it any more
        puppet.updates("hello")
        puppet.ends(prompt)
        ended = await desk.office.heard(ev.TurnEnded)

        assert answer["error"]["code"] == -32800
        assert ended.outcome == "completed"


# Interrupts --------------------------------------------------------------------------------


async def test_an_agent_hears_first_that_its_turn_is_to_end_and_then_of_its_questions() -> None:
    async with open_puppet() as (desk, puppet):
        turn, _ = await at_work(desk, puppet)
        requests = [asked(puppet, "bash"), asked(puppet, "edit")]
        await desk.office.heard(ev.PermissionAsked, times=2)
        for permission in desk.office.all(ev.PermissionAsked):
            desk.driver.answer(permission.request, "cancelled")  # as sessions do
        desk.driver.cancel_turn(turn, "ask")
        for request in requests:
            assert (await puppet.hears_answer(request))["result"] == CANCELLED

        sent = [json.loads(line) for side, line in desk.process.wire if side == "client"]
        assert [one.get("method") for one in sent[3:]] == ["session/cancel", None, None]
        assert trio.current_time() == 0.0


async def test_one_that_waits_for_an_answer_ends_politely_when_it_is_interrupted() -> None:
    async with open_desk() as desk:
        await desk.come_up()
        turn = desk.order("ask bash\nsay so what")
        permission = await desk.office.heard(ev.PermissionAsked)
        desk.driver.answer(permission.request, "cancelled")
        desk.driver.cancel_turn(turn, "ask")
        ended = await desk.office.heard(ev.TurnEnded)

        assert (ended.outcome, ended.text) == ("interrupted", "")


async def test_a_question_that_nobody_answers_is_answered_when_the_agent_ends_its_turn() -> None:
    async with open_puppet() as (desk, puppet):
        turn, prompt = await at_work(desk, puppet)
        request = asked(puppet)
        await desk.office.heard(ev.PermissionAsked)
        desk.driver.cancel_turn(turn, "ask")
        await puppet.hears("session/cancel")
        puppet.ends(prompt, "cancelled")

        assert (await puppet.hears_answer(request))["result"] == CANCELLED
        assert (await desk.office.heard(ev.TurnEnded)).outcome == "interrupted"


# Hooks -------------------------------------------------------------------------------------


class Strict(StandInOffice):
    """Its hooks deny everything, and take their time."""

    async def before_request(
        self, turn: TurnId, request: RequestId, asked: Mapping[str, Any]
    ) -> str | None:
        await trio.sleep(5)
        return "a hook"


async def test_what_a_hook_says_goes_with_the_question() -> None:
    async with open_puppet(office=Strict()) as (desk, puppet):
        await at_work(desk, puppet)
        asked(puppet)
        permission = await desk.office.heard(ev.PermissionAsked)

        assert permission.denied_by == "a hook"


async def test_a_turn_that_is_over_before_the_hooks_are_through_asks_nobody() -> None:
    async with open_puppet(office=Strict()) as (desk, puppet):
        _, prompt = await at_work(desk, puppet)
        request = asked(puppet)
        await settle()
        puppet.updates("never mind")
        puppet.ends(prompt)
        await desk.office.heard(ev.TurnEnded)
        answer = await puppet.hears_answer(request)

        assert answer["result"] == CANCELLED
        assert desk.office.all(ev.PermissionAsked) == []
