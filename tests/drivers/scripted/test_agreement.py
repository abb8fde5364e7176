"""The scripted agents in a process and in our own do the same with the same script.

Both are played without any process: one by the driver of python agents for a session that is a
stand-in, the other over the wire by a client in memory. Each tells what happened, in order.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import pytest
import trio
from hypothesis import example, given
from hypothesis import strategies as st

from actors.testing import VirtualClock
from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.ids import TurnId
from supervisor.core.state import Decision
from supervisor.drivers import builtin
from supervisor.drivers.runtime import DriverRuntime
from supervisor.drivers.scripted import steps
from tests.support.driver_context import DriverHarness, FakeDriverContext
from tests.support.scripted_client import Client, Json

CALL_OUTCOMES: Final = {"completed": "completed", "failed": "failed"}
TEXT_KINDS: Final = {"agent_message_chunk": "agent_text", "agent_thought_chunk": "thought"}


class Observed(NamedTuple):
    """What happened, how it ended, with which words, and when."""

    happened: list[tuple[str, object]]
    outcome: str
    error: str
    seconds: float


# The agent in our own process ---------------------------------------------------------------------


class RecordingContext(FakeDriverContext):
    """Keeps what is written and what is reported in one order."""

    def __init__(self) -> None:
        super().__init__()
        self.happened: list[tuple[str, object]] = []

    def _write(self, turn: TurnId, kind: str, body: object, *, size: int) -> None:
        super()._write(turn, kind, body, size=size)
        self.happened.append((kind, body))


def run_in_memory(script: str, decision: Decision) -> Observed:
    async def main() -> Observed:
        context = RecordingContext()
        ended = trio.Event()

        def hear(event: ev.Event) -> None:
            match event:
                case agent_events.CallStarted():
                    context.happened.append(("call", event.name))
                case agent_events.CallEnded():
                    context.happened.append(("call over", event.outcome))
                case agent_events.UsageReported():
                    context.happened.append(("used", event.usage.output_tokens))
                case agent_events.PermissionAsked():
                    context.happened.append(("asked", event.tool))
                    harness.driver.answer(event.request, decision)
                case agent_events.TurnEnded() | agent_events.AgentExited():
                    ended.set()

        context.on_report = hear
        async with trio.open_nursery() as nursery:
            harness = DriverHarness(builtin.scripted, DriverRuntime(nursery), context)
            harness.order(script)
            await ended.wait()
        return Observed(merged(context.happened), *ending(context.events[-1]))

    return trio.run(main, clock=VirtualClock())


def ending(event: ev.Event) -> tuple[str, str, float]:
    if isinstance(event, agent_events.TurnEnded):
        return event.outcome, plain_error((event.error or "").partition(": ")[2]), event.at
    return "died", "", event.at


# The one in a process ----------------------------------------------------------------------------


def run_over_acp(script: str, decision: Decision) -> Observed:
    client = Client()
    session = client.open()
    began = len(client.heard)
    asked = client.prompt(session, script)
    answered = 0
    while not client.answers_to(asked) and not client.is_gone:
        if len(client.requests()) > answered:
            answer(client, client.requests()[answered], decision)
            answered += 1
            continue
        deadline = client.agent.next_deadline()
        assert deadline is not None
        client.wait(deadline - client.now)
    happened = merged(list(filter(None, map(EventTranslator(), client.heard[began:]))))
    if client.is_gone:
        return Observed(happened, "died", "", client.now)
    (end,) = client.answers_to(asked)
    if "error" in end:
        return Observed(happened, "failed", plain_error(end["error"]["message"]), client.now)
    return Observed(happened, "completed", "", client.now)


def answer(client: Client, request: Json, decision: Decision) -> None:
    options = request["params"]["options"]
    (chosen,) = [option["optionId"] for option in options if option["kind"] == decision]
    client.answer(request["id"], {"outcome": {"outcome": "selected", "optionId": chosen}})


class EventTranslator:
    """Tells what a message says, in the words of the other."""

    def __init__(self) -> None:
        self._used = 0

    def __call__(self, said: Mapping[str, Any]) -> tuple[str, object] | None:
        if said.get("method") == "session/request_permission":
            return "asked", said["params"]["toolCall"]["title"]
        if said.get("method") != "session/update":
            return None
        update = said["params"]["update"]
        match update["sessionUpdate"]:
            case "tool_call":
                return "call", update["title"]
            case "tool_call_update":
                return "call over", CALL_OUTCOMES[update["status"]]
            case "usage_update":
                spent, self._used = update["used"] - self._used, update["used"]
                return ("used", spent) if spent else None
            case kind:
                return TEXT_KINDS[kind], update["content"]["text"]


# Both ---------------------------------------------------------------------------------------------


def merged(happened: list[tuple[str, object]]) -> list[tuple[str, object]]:
    """Merge adjacent texts of the same kind."""
    result: list[tuple[str, object]] = []
    for kind, body in happened:
        if result and result[-1][0] == kind and kind in TEXT_KINDS.values():
            result[-1] = (kind, f"{result[-1][1]}{body}")
        else:
            result.append((kind, body))
    return result


def plain_error(error: str) -> str:
    """Return the error without the list of steps, which differs."""
    return error.strip().partition(" (hint: the steps are")[0]


def agree_on(script: str, decision: Decision = "allow_once") -> Observed:
    """Return what both agents do; fail the test if that differs."""
    here, there = run_in_memory(script, decision), run_over_acp(script, decision)
    assert there.seconds == pytest.approx(here.seconds)
    assert there._replace(seconds=0.0) == here._replace(seconds=0.0)
    return here


def test_both_agents_have_the_common_steps() -> None:
    assert [usage.partition(" ")[0] for usage in steps.COMMON_STEPS] == list(builtin.STEPS)


@pytest.mark.parametrize(
    "script",
    [
        "say hello, world",
        "think what now\nsay this\nsay that",
        "sleep 90\nsay awake",
        "tool bash 2.5\nsay after\ntool read a file 0",
        "flood 12",
        "use 40\nuse 0\nuse 2",
        "say last words\ncrash\nsay never",
        "say so far\nfail out of ideas\nsay never",
        "fail",
        "say so far\nsing\nsay never",
        "\n  say a  \r\n\n\t\nsay   b\n",
        "say a\u2028say b\x0bsay c\x1csay d",
        "tool bash soon",
        "tool bash",
        "tool 5",
        "tool",
        "sleep 1 2",
        "sleep inf",
        "flood 1.5",
        "use -1",
        "spawn echo",
        "ask",
    ],
)
def test_both_agents_behave_alike_for(script: str) -> None:
    agree_on(script)


@pytest.mark.parametrize("decision", ["allow_once", "allow_always", "reject_once", "reject_always"])
def test_both_agents_understand_answers_alike(decision: Decision) -> None:
    story = agree_on("say may I?\nask bash\nsay I see", decision)

    assert story.happened[1] == ("asked", "bash")


def test_neither_agent_can_spawn_without_permission() -> None:
    here = run_in_memory("spawn echo hello", "allow_once")
    there = run_over_acp("spawn echo hello", "allow_once")

    assert here.outcome == there.outcome == "failed"


WORDS = ("say", "think", "tool", "sleep", "ask", "flood", "use", "fail", "crash", "sing", "")
REST = st.one_of(
    st.text("ab 1.-\t\u2028\x00\u00e4", max_size=12),
    st.integers(0, 30).map(str),
    st.integers(0, 30).map("bash {}".format),
)
STEPS = st.builds("{} {}".format, st.sampled_from(WORDS), REST)


@given(script=st.lists(STEPS, min_size=1, max_size=8).map("\n".join))
@example(script="say \u00e4\ntool \u00e4 1\n")
def test_both_agents_behave_alike_for_any_script(script: str) -> None:
    agree_on(f"say x\n{script}", "reject_once")
