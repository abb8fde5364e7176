"""Permission requests of an ACP agent, each answered once; see acp/pending_permissions.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor.core import agent_events
from supervisor.core.ids import RequestId, TurnId
from supervisor.core.state import Decision
from tests.support.acp_driver import ManualAgent, at_work, open_harness, open_manual_agent
from tests.support.driver_context import FakeDriverContext

PERMISSION = "session/request_permission"
CANCELLED = {"outcome": {"outcome": "cancelled"}}
NAMES = {"y": "allow_once", "Y": "allow_always", "n": "reject_once", "N": "reject_always"}


def asked(manual_agent: ManualAgent, title: str = "bash", options: str = "yYnN") -> int:
    """Send a permission request of the manual_agent; return its id."""
    call = {"toolCallId": title, "title": title}
    offered = [
        {"optionId": f"{name}{place}", "name": name, "kind": NAMES[name]}
        for place, name in enumerate(options)
    ]
    return manual_agent.asks(
        PERMISSION, {"sessionId": "manual_agent", "toolCall": call, "options": offered}
    )


async def answer_to(question: str, decision: Decision) -> object:
    """Return the result that the agent gets for these options and this decision."""
    async with open_manual_agent() as (harness, manual_agent):
        await at_work(harness, manual_agent)
        request = asked(manual_agent, options=question)
        permission = await harness.context.heard(agent_events.PermissionAsked)
        harness.driver.answer(permission.request, decision)
        answer = await manual_agent.hears_answer(request)
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


async def test_only_offered_options_can_be_decided() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await at_work(harness, manual_agent)
        asked(manual_agent, options="yn")
        permission = await harness.context.heard(agent_events.PermissionAsked)

        assert permission.options == ("allow_once", "reject_once")


async def test_a_permission_request_describes_the_tool_call() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        turn = harness.order("ask bash")
        permission = await harness.context.heard(agent_events.PermissionAsked)
        harness.driver.answer(permission.request, "allow_once")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (permission.turn, permission.tool, permission.question) == (turn, "bash", "bash")
        assert ended.text == "bash: allowed\n"


# One answer for each request ---------------------------------------------------------------


async def test_a_permission_request_is_answered_once() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        harness.order("ask bash\nsleep 1")
        permission = await harness.context.heard(agent_events.PermissionAsked)
        for decision in ("reject_once", "allow_once", "cancelled"):
            harness.driver.answer(permission.request, decision)
        harness.driver.answer(RequestId("another"), "allow_once")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert ended.text == "bash: rejected\n"


async def test_two_permission_requests_get_their_own_answers() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await at_work(harness, manual_agent)
        first, second = asked(manual_agent, "bash"), asked(manual_agent, "edit")
        last = await harness.context.heard(agent_events.PermissionAsked, times=2)
        by_tool = {
            one.tool: one.request for one in harness.context.all(agent_events.PermissionAsked)
        }
        harness.driver.answer(by_tool["edit"], "allow_once")
        answer = await manual_agent.hears_answer(second)
        harness.driver.answer(by_tool["bash"], "reject_once")

        assert answer["result"]["outcome"]["optionId"] == "y0"
        assert (await manual_agent.hears_answer(first))["result"]["outcome"]["optionId"] == "n2"
        assert last.request in by_tool.values()


async def test_open_permission_requests_are_cancelled_when_the_turn_ends() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        _, prompt = await at_work(harness, manual_agent)
        requests = [asked(manual_agent, "bash"), asked(manual_agent, "edit")]
        await harness.context.heard(agent_events.PermissionAsked, times=2)
        manual_agent.updates("never mind")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)

        for request in requests:
            assert (await manual_agent.hears_answer(request))["result"] == CANCELLED


async def test_a_permission_request_outside_a_turn_is_cancelled() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await harness.come_up()
        answer = await manual_agent.hears_answer(asked(manual_agent))

        assert answer["result"] == CANCELLED
        assert harness.context.kinds() == []


async def test_a_malformed_permission_request_is_refused() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        await at_work(harness, manual_agent)
        for params in ({}, {"toolCall": 5}, {"toolCall": {}, "options": "yes"}):
            answer = await manual_agent.hears_answer(manual_agent.asks(PERMISSION, dict(params)))
            assert answer["error"]["code"] == -32602
        assert harness.context.kinds() == []


async def test_a_withdrawn_permission_request_is_answered_and_the_turn_continues() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        _, prompt = await at_work(harness, manual_agent)
        request = asked(manual_agent)
        permission = await harness.context.heard(agent_events.PermissionAsked)
        manual_agent.says({"method": "$/cancel_request", "params": {"requestId": request}})
        answer = await manual_agent.hears_answer(request)
        harness.driver.answer(permission.request, "allow_once")  # the request was withdrawn
        manual_agent.updates("hello")
        manual_agent.ends(prompt)
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert answer["error"]["code"] == -32800
        assert ended.outcome == "completed"


# Interrupts --------------------------------------------------------------------------------


async def test_the_agent_receives_the_cancel_before_its_cancelled_requests() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        turn, _ = await at_work(harness, manual_agent)
        requests = [asked(manual_agent, "bash"), asked(manual_agent, "edit")]
        await harness.context.heard(agent_events.PermissionAsked, times=2)
        for permission in harness.context.all(agent_events.PermissionAsked):
            harness.driver.answer(permission.request, "cancelled")  # as sessions do
        harness.driver.cancel_turn(turn, "ask")
        for request in requests:
            assert (await manual_agent.hears_answer(request))["result"] == CANCELLED

        sent = [json.loads(line) for side, line in harness.process.wire if side == "client"]
        assert [one.get("method") for one in sent[3:]] == ["session/cancel", None, None]
        assert trio.current_time() == 0.0


async def test_an_agent_that_waits_for_permission_ends_when_interrupted() -> None:
    async with open_harness() as harness:
        await harness.come_up()
        turn = harness.order("ask bash\nsay so what")
        permission = await harness.context.heard(agent_events.PermissionAsked)
        harness.driver.answer(permission.request, "cancelled")
        harness.driver.cancel_turn(turn, "ask")
        ended = await harness.context.heard(agent_events.TurnEnded)

        assert (ended.outcome, ended.text) == ("interrupted", "")


async def test_an_unanswered_permission_request_is_cancelled_at_the_turn_end() -> None:
    async with open_manual_agent() as (harness, manual_agent):
        turn, prompt = await at_work(harness, manual_agent)
        request = asked(manual_agent)
        await harness.context.heard(agent_events.PermissionAsked)
        harness.driver.cancel_turn(turn, "ask")
        await manual_agent.hears("session/cancel")
        manual_agent.ends(prompt, "cancelled")

        assert (await manual_agent.hears_answer(request))["result"] == CANCELLED
        assert (await harness.context.heard(agent_events.TurnEnded)).outcome == "interrupted"


# Hooks -------------------------------------------------------------------------------------


class Strict(FakeDriverContext):
    """A context whose hooks are slow and deny everything."""

    async def before_request(
        self, turn: TurnId, request: RequestId, asked: Mapping[str, Any]
    ) -> str | None:
        await trio.sleep(5)
        return "a hook"


async def test_a_hook_denial_is_reported_with_the_permission_request() -> None:
    async with open_manual_agent(context=Strict()) as (harness, manual_agent):
        await at_work(harness, manual_agent)
        asked(manual_agent)
        permission = await harness.context.heard(agent_events.PermissionAsked)

        assert permission.denied_by == "a hook"


async def test_a_turn_that_ends_during_the_hooks_asks_no_permission() -> None:
    async with open_manual_agent(context=Strict()) as (harness, manual_agent):
        _, prompt = await at_work(harness, manual_agent)
        request = asked(manual_agent)
        await settle()
        manual_agent.updates("never mind")
        manual_agent.ends(prompt)
        await harness.context.heard(agent_events.TurnEnded)
        answer = await manual_agent.hears_answer(request)

        assert answer["result"] == CANCELLED
        assert harness.context.all(agent_events.PermissionAsked) == []
