"""One script as it is played: what a step may do, and what it may wait for.

Rule 1: a step is a function of the turn and the rest of its line. If it has to wait it is a
        generator that yields what it waits for, and somebody else sees to it that it goes on.
Rule 2: a cancelled turn finds `Cancelled` where it waits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from supervisor.core.errors import ConfigError

from .flags import Flags
from .outbox import Outbox
from .sessions import Session
from .wants import Want
from .wire import INTERNAL_ERROR, REQUEST_CANCELLED, Id, Json, Refusal, Reply

T = TypeVar("T")


class Cancelled(Exception):
    """Somebody has cancelled the turn."""


class Pause(NamedTuple):
    """Until then; for ever if there is no then."""

    until: float | None


class Answer(NamedTuple):
    """Until the client has answered that request."""

    request: int


class Done(NamedTuple):
    """Until the order was carried out."""

    want: Want


class Room(NamedTuple):
    """Until what was put out is on its way."""


class Guidance(NamedTuple):
    """Until it is steered to go on."""


Wait: TypeAlias = Pause | Answer | Done | Room | Guidance
Waiting: TypeAlias = Generator[Wait, object, T]
Step: TypeAlias = Callable[["Turn", str], Waiting[None] | None]


class Surroundings:
    """What a turn has around it: all that is the agent's and not the session's."""

    def __init__(self, flags: Flags, environment: Mapping[str, str]) -> None:
        self.flags = flags
        self.environment = environment
        self.outbox = Outbox(swaps=flags.out_of_order)
        # What the client said that it can do.
        self.client: Json = {}
        # How many prompts came for a session that was busy with another.
        self.overlaps = 0
        # Whether it ends when its input does, as a proper agent would.
        self.leaves_at_end = True


class Turn:
    """A script, the session that it is played in, and whoever waits for the end of it."""

    def __init__(
        self,
        around: Surroundings,
        session: Session,
        blocks: Sequence[Json],
        *,
        request: Id = None,
        is_owed: bool = True,
    ) -> None:
        self.around = around
        self.session = session
        self.request_id = request
        # Whether somebody waits for an answer that it has not had.
        self.is_owed = is_owed
        self.is_over = False
        # Whether it hears nothing of being cancelled.
        self.is_deaf = False
        texts = [place for place, block in enumerate(blocks) if block.get("type") == "text"]
        # The last text is the script. What a client has to say first it says in blocks before.
        self.script: str = blocks[texts[-1]]["text"] if texts else ""
        self.context = [block for place, block in enumerate(blocks) if place not in texts[-1:]]
        self.tokens = 0
        self.wait: Wait = Pause(around.outbox.now)
        self._can_answer = is_owed
        self._steered: list[str] = []
        self._playing: Waiting[None] | None = None

    # For steps ------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """Put text out."""
        self._put_out("agent_message_chunk", text)

    def think(self, text: str) -> None:
        """Put out what is thought and not said."""
        self._put_out("agent_thought_chunk", text)

    def update(self, kind: str, body: Mapping[str, Any]) -> None:
        """Tell the client any other news of the session; it is part of its history."""
        update = {"sessionUpdate": kind, **body}
        self.session.history.append(update)
        self.around.outbox.notify(
            "session/update", {"sessionId": self.session.id, "update": update}
        )

    def begin_call(self, title: str, **more: object) -> str:
        """Begin a tool call; gives its id."""
        call = self.session.new_call()
        body = {"toolCallId": call, "title": title, "status": "in_progress", **more}
        self.update("tool_call", body)
        return call

    def end_call(self, call: str, *, status: str, result: str | None = None) -> None:
        """Say what came of a call."""
        body: Json = {"toolCallId": call, "status": status}
        if result is not None:
            body["rawOutput"] = result
        self.update("tool_call_update", body)

    def answer(self, result: object) -> None:
        """Answer whoever waits for the end of the turn, also if that was done before."""
        if self._can_answer:
            self.around.outbox.answer(self.request_id, result)
        self._is_answered()

    def result(self, stop_reason: str) -> Json:
        """The answer that says why it stopped."""
        if not self.around.flags.usage:
            return {"stopReason": stop_reason}
        used = {"totalTokens": self.tokens, "inputTokens": 0, "outputTokens": self.tokens}
        return {"stopReason": stop_reason, "usage": used}

    def pause(self, seconds: float | None) -> Waiting[None]:
        """Wait so long, or for ever."""
        yield Pause(None if seconds is None else self.around.outbox.now + seconds)

    def room(self) -> Waiting[None]:
        """Wait until there is room for more output."""
        while self.around.outbox.is_full:
            yield Room()

    def guidance(self) -> Waiting[None]:
        """Wait until it is steered to go on."""
        yield Guidance()

    def order(self, want: Want) -> Waiting[str]:
        """Have something done, and wait until it is; gives what there is to say of it."""
        self.around.outbox.want(want)
        said = yield Done(want)
        assert isinstance(said, str)
        return said

    def ask(self, method: str, params: Json) -> Waiting[Reply]:
        """Ask the client something about this session, and wait for the answer."""
        reply = yield Answer(self.send(method, params))
        assert isinstance(reply, Reply)
        return reply

    def send(self, method: str, params: Json) -> int:
        """Ask it, and do not wait."""
        return self.around.outbox.request(method, {"sessionId": self.session.id, **params})

    # For the agent --------------------------------------------------------------------------

    def play(self, playing: Waiting[None]) -> None:
        """Play this, from now on."""
        self._playing = playing
        self.go_on(None)

    @property
    def has_begun(self) -> bool:
        """Whether it is being played."""
        return self._playing is not None

    def go_on(self, given: object) -> None:
        """What it waited for is there."""
        playing = self._playing
        assert playing is not None
        self._run(lambda: playing.send(given))

    def cancel(self) -> None:
        """Have it end, if it hears that."""
        if self.is_deaf or self.is_over:
            return
        if isinstance(self.wait, Answer):
            # The client may still have somebody thinking about it.
            self.around.outbox.notify("$/cancel_request", {"requestId": self.wait.request})
        playing = self._playing
        if playing is None:
            self._end_with(self.result("cancelled"))
        else:
            self._run(lambda: playing.throw(Cancelled()))

    def cancel_request(self) -> None:
        """Somebody no longer wants the answer: say that there will be none, and end."""
        if self.is_owed and not self.is_deaf:
            self.around.outbox.refuse(self.request_id, REQUEST_CANCELLED, "request cancelled")
            self._is_answered()
            self.cancel()

    def end(self) -> None:
        """Have it answered as if all had been said, and end."""
        if self.is_owed:
            self.answer(self.result("end_turn"))
        self._is_answered()
        self.cancel()

    def steer(self, text: str) -> None:
        """Have this said as soon as it runs again."""
        self._steered.append(text)

    def take_steering(self) -> None:
        """Say what was steered in; `enough` is what ends a step that waits for it."""
        steered, self._steered = self._steered, []
        for text in steered:
            self.say(f"{text}; ")
            if text == "enough" and isinstance(self.wait, Guidance):
                self.go_on(None)

    # Inside -----------------------------------------------------------------------------------

    def _put_out(self, kind: str, text: str) -> None:
        if text:
            self.update(kind, {"content": {"type": "text", "text": text}})

    def _is_answered(self) -> None:
        self.is_owed = False
        if self.session.turn is self:
            self.session.turn = None

    def _run(self, going_on: Callable[[], Wait]) -> None:
        try:
            self.wait = going_on()
        except StopIteration:
            self._end_with(self.result("end_turn"))
        except Cancelled:
            self._end_with(self.result("cancelled"))
        except Refusal as refusal:
            self._fail(refusal.code, refusal.text)
        except ConfigError as error:
            self._fail(INTERNAL_ERROR, str(error))

    def _end_with(self, result: Json) -> None:
        self.is_over = True
        if self.is_owed:
            self.answer(result)
        self._is_answered()

    def _fail(self, code: int, text: str) -> None:
        self.is_over = True
        if self.is_owed:
            self.around.outbox.refuse(self.request_id, code, text)
        else:
            self.around.outbox.want(Want("log", text=f"scripted: {text}\n"))
        self._is_answered()
