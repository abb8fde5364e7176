"""Questions of agents on the command line: `inbox`, `answer`, and the prompt of a conversation."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
import trio
import trio.lowlevel

import supervisor
from supervisor.cli import async_runner, target
from supervisor.cli.commands.conversation import PermissionPrompt
from supervisor.cli.output import Screen
from tests.support.asking_agent import AskingAgent, asking_supervisor
from tests.support.cli_runner import Caller


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have each command find a new supervisor whose session `bob` asks this."""

    def prepare(text: str) -> None:
        @asynccontextmanager
        async def connected(*_: object, **__: object) -> AsyncIterator[supervisor.Supervisor]:
            settings = supervisor.Settings(exit_seconds=0.0)
            async with asking_supervisor("asker", settings=settings) as (sup, session):
                await session.send(text)
                while not await sup.permissions():
                    await trio.lowlevel.checkpoint()
                yield sup

        monkeypatch.setattr(target, "_connected", connected)
        monkeypatch.setattr(async_runner, "run_blocking", async_runner.run_async)

    return prepare


def test_a_question_is_listed_and_answered_with_any_text(
    call: Caller, ask: Callable[[str], None]
) -> None:
    ask("which one?\nthis\nthat")

    (request,) = call("inbox", "--json").json["items"]
    assert (request["asks"], request["options"]) == ("question", [])
    assert request["choices"] == ["this", "that"]
    shown = call("inbox").out
    assert re.search(r"req_\w+  bob  ask", shown)
    assert "    which one?\n    - this\n    - that\n" in shown
    assert call("answer", "bob", "neither of them", "--json").json["text"] == "neither of them"
    # A word that decides permission requests is a text like any other here.
    assert call("answer", "bob", "yes").out.endswith(": yes\n")
    assert call("answer", "bob", " ").code != 0


def test_attention_and_why_say_that_a_question_waits(
    call: Caller, ask: Callable[[str], None]
) -> None:
    ask("which one?")

    (info,) = call("ps", "--json").json["items"]
    assert [(one["kind"], one["detail"]) for one in info["attention"]] == [
        ("question", "which one?")
    ]
    assert info["badge"] == "waiting-for-you"
    assert "which one?" in call("why", "bob").out


async def test_a_question_is_prompted_and_a_number_stands_for_its_choice() -> None:
    prompts: list[str] = []
    typed = iter(["", "2", "some words"])

    async def type_line(prompt: str) -> str | None:
        prompts.append(prompt)
        await trio.lowlevel.checkpoint()
        return next(typed)

    async with asking_supervisor("asker") as (sup, session), trio.open_nursery() as nursery:
        nursery.start_soon(PermissionPrompt(Screen(), sup, type_line).run)
        first = await session.prompt("which one?\nthis\nthat")
        second = await session.prompt("and now?\nthis")
        nursery.cancel_scope.cancel()

    assert (first.text, second.text) == (
        "answered by person: that",
        "answered by person: some words",
    )
    assert prompts == ["which one? ", "which one? ", "and now? "]


async def test_without_a_terminal_a_question_interrupts_its_turn() -> None:
    asker = AskingAgent()
    async with supervisor.open(agents=[asker.agent]) as sup, trio.open_nursery() as nursery:
        asker.sup = sup
        nursery.start_soon(PermissionPrompt(Screen(), sup, None).run)
        session = await sup.create("asker")

        done = await session.prompt("which one?")

        assert done.outcome == "interrupted"
        nursery.cancel_scope.cancel()
