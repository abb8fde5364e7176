"""Scripted agents: perform the actions in the input text and report them to the oracle."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

import trio

from supervisor import PythonAgent, Supervisor, SupervisorError, Turn
from supervisor.drivers.python import AgentDied
from tests.simulation.timing import random_pause

from .oracle import Oracle

QUIET = ("say", "think", "tool", "use", "steering", "pause", "update")
ROUGH = (*QUIET, "raise", "ask")
DEADLY = (*QUIET, "crash", "raise", "hang", "hang")


class ScriptedAgents:
    """The agents of one run."""

    def __init__(self, oracle: Oracle) -> None:
        self.oracle = oracle
        # Set when it is open: for what an agent does through tools.
        self.sup: Supervisor | None = None
        self._actions: dict[str, Callable[[Turn], Awaitable[None]]] = {
            "say": self._say,
            "think": self._think,
            "tool": self._tool,
            "update": self._update,
            "use": self._use,
            "steering": self._steer,
            "pause": self._pause,
            "ask": self._ask,
            "question": self._put_question,
            "raise": self._raise,
            "crash": self._crash,
            "hang": self._hang,
            "flood": self._flood,
        }
        self.agents = [PythonAgent("simulated", self.run_turn)]

    async def run_turn(self, turn: Turn) -> str | None:
        self.oracle.enter_turn(turn.session_id, turn.id)
        try:
            for action in turn.text.split()[1:]:
                await self._actions[action](turn)
        finally:
            self.oracle.leave_turn(turn.session_id, turn.id)
        return random.choice((None, "done"))

    async def _say(self, turn: Turn) -> None:
        await turn.say("word ")

    async def _think(self, turn: Turn) -> None:
        await turn.think("hm ")

    async def _flood(self, turn: Turn) -> None:
        for number in range(12):
            await turn.plan([number])

    async def _tool(self, turn: Turn) -> None:
        async with turn.tool("bash") as call:
            await trio.sleep(random.choice((0.0, 0.5, 2.0)))
            call.result("ok")
        hit = self.oracle.history(turn.session_id).interrupted
        if call.interrupted:
            self.oracle.check(call.id in hit, f"{call.id} was interrupted and never named")

    async def _update(self, turn: Turn) -> None:
        async with turn.tool("edit") as call:
            call.update("half way")
            await random_pause()

    async def _use(self, turn: Turn) -> None:
        turn.usage(output_tokens=random.randrange(9))
        await trio.lowlevel.checkpoint()

    async def _steer(self, turn: Turn) -> None:
        for text in turn.steering():
            again = self.oracle.steering_taken.get(text)
            self.oracle.check(again != turn.id, f"{text!r} was delivered twice")
            self.oracle.steering_taken[text] = turn.id
        await trio.lowlevel.checkpoint()

    async def _pause(self, _: Turn) -> None:
        await random_pause()

    async def _ask(self, turn: Turn) -> None:
        await turn.ask("may I?", tool=random.choice(("bash", "edit")))

    async def _put_question(self, turn: Turn) -> None:
        """Ask people, with a pause in which the answer may come, and compare with the records."""
        assert self.sup is not None
        questions = self.sup.tool_access().questions(turn.session_id)
        try:
            request = await questions.ask("which?", random.choice(((), ("this", "that"))))
            if random.random() < 0.5:
                await random_pause()
            end = await questions.wait(request)
        except SupervisorError as error:
            self.oracle.check(bool(error.code and error.hint), f"{error!r} has no code or hint")
            return
        known = self.oracle.history(turn.session_id).question_ends.get(request)
        self.oracle.check(
            known == (end.outcome, end.text) or (known is None and end.outcome == "cancelled"),
            f"{request} ended as {end}, on record is {known}",
        )

    async def _raise(self, _: Turn) -> None:
        await trio.lowlevel.checkpoint()
        raise RuntimeError("on purpose")

    async def _crash(self, _: Turn) -> None:
        await trio.lowlevel.checkpoint()
        raise AgentDied("on purpose")

    async def _hang(self, turn: Turn) -> None:
        """Ignore interrupts for a random time, which may exceed the ladder."""
        with trio.CancelScope(shield=True):
            await trio.sleep(random.choice((1.0, 4.0, 9.0)))
        await trio.lowlevel.checkpoint()
        await turn.say("still here")
