"""Output of the demo, and the state that its scenes share.

The output is lines in a pipe, JSON for programs, and a live tree on a terminal.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractContextManager, aclosing, asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs
import trio
from trio_util import periodic

from supervisor.cli.command_table import wrap_words
from supervisor.cli.output import Screen
from supervisor.cli.text_format import Cell
from supervisor.core.errors import SupervisorError
from supervisor.core.records import Record
from supervisor.handles.session import Session
from supervisor.handles.supervisor import Supervisor
from supervisor.sessions.feed import Watcher

if TYPE_CHECKING:
    from supervisor.core.info import Node
    from supervisor.sessions.hooks import HookEvent

# The words of the events, and their colours.
WORDS: Final = {
    "spawn": "green",
    "queue": "cyan",
    "steer": "blue",
    "interrupt": "yellow",
    "stall": "magenta",
    "crash": "red",
    "recovery": "green",
    "done": "bold",
}
WORD_WIDTH: Final = 9


class Stopwatch:
    """Seconds since the first call, so that import time does not count."""

    def __init__(self) -> None:
        self._began: float | None = None

    def seconds(self) -> float:
        """Return the elapsed seconds."""
        now = time.monotonic()
        if self._began is None:
            self._began = now
        return now - self._began


@attrs.frozen
class PromiseResult:
    """One promise of Understudy that a scene has tested, and what it has measured."""

    promise: str
    figure: str
    kept: bool

    @property
    def verdict(self) -> str:
        """The word for the result."""
        return "kept" if self.kept else "BROKEN"


class DemoOutput(Protocol):
    """The output of the demo."""

    # How long a scene pauses for viewers; 0 in a pipe.
    pause_seconds: float

    def shown(self) -> AbstractContextManager[object]:
        """Show the output during the block."""

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """Start a scene of the demo: print its number, label and description."""

    def tell(self, word: str, sentence: str, **facts: Any) -> None:  # noqa: ANN401 - plain data
        """Print one event: seconds since the start, its label, and its description.

        The keyword arguments are facts about the event, for the JSON output.
        """

    def show(self, roots: Sequence[Node], activity: dict[str, str], remark: str) -> None:
        """Show the current sessions; `remark` is shown if there are none."""

    def promises(self, promises: Sequence[PromiseResult]) -> None:
        """Print the promises, and what was measured of each."""


class _LineOutput:
    """Output line by line, which needs no pause and no block."""

    pause_seconds = 0.0

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._time = Stopwatch()

    def shown(self) -> AbstractContextManager[object]:
        """Do nothing."""
        return nullcontext()


class PlainOutput(_LineOutput):
    """Output as plain lines."""

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """Print a headline."""
        self._screen.line()
        for line in self._lines(f"{number}/{count} {word}: {sentence}"):
            self._screen.line(Cell(line, "bold"))

    def tell(self, word: str, sentence: str, **_: Any) -> None:  # noqa: ANN401 - see DemoOutput
        """Print one event: seconds since the start, its label, and its description."""
        when, label = f"{self._time.seconds():6.2f} s  ", f"{word:<{WORD_WIDTH}} "
        first, *rest = self._lines(sentence, beside=len(when + label))
        self._screen.line(Cell(when, "dim"), Cell(label, WORDS.get(word)), first)
        for line in rest:
            self._screen.line(" " * len(when + label), line)

    def show(self, roots: Sequence[Node], activity: dict[str, str], remark: str) -> None:
        """Do nothing: plain lines cannot show a live tree."""

    def promises(self, promises: Sequence[PromiseResult]) -> None:
        """Print one line for each promise, with its figure below it on a narrow terminal."""
        self._screen.line()
        width = max(len(one.promise) for one in promises)
        for one in promises:
            verdict = Cell(f"{one.verdict:<6}", "green" if one.kept else "red")
            if self._screen.width is None or width + len(one.figure) + 10 <= self._screen.width:
                self._screen.line(verdict, f"  {one.promise:<{width}}  ", Cell(one.figure, "dim"))
                continue
            self._screen.line(verdict, f"  {one.promise}")
            for line in self._lines(one.figure, beside=8):
                self._screen.line(" " * 8, Cell(line, "dim"))

    def _lines(self, text: str, *, beside: int = 0) -> list[str]:
        """Return one line in a pipe, and wrapped lines on a terminal."""
        width = self._screen.width
        return [text] if width is None else wrap_words(text, width - beside)


class JsonOutput(_LineOutput):
    """Output as one JSON object per line."""

    def scene(self, number: int, count: int, word: str, sentence: str) -> None:
        """Print the scene."""
        self._put({"scene": number, "of": count, "word": word, "text": sentence})

    def tell(self, word: str, sentence: str, **facts: Any) -> None:  # noqa: ANN401 - see DemoOutput
        """Print the event with its facts as one JSON object."""
        self._put({"word": word, "text": sentence, **facts})

    def show(self, roots: Sequence[Node], activity: dict[str, str], remark: str) -> None:
        """Do nothing: the JSON output has no live tree."""

    def promises(self, promises: Sequence[PromiseResult]) -> None:
        """Print one JSON object with all promises."""
        self._put({"promises": [attrs.asdict(one) for one in promises]})

    def _put(self, said: dict[str, Any]) -> None:
        self._screen.data({"seconds": round(self._time.seconds(), 3), **said})


_LONGEST: Final = 200


class Activity:
    """The current activity of each session, for the live tree.

    Pass `on_record` to `sup.hooks.add("record_written", ...)`.
    """

    def __init__(self) -> None:
        self.by_session: dict[str, str] = {}
        self._calls: dict[str, dict[str, str]] = {}

    def on_record(self, event: HookEvent) -> None:
        """Update the activity of the record's session."""
        session, body = str(event.session_id), event.data["body"]
        calls = self._calls.setdefault(session, {})
        match event.data["kind"]:
            case "tool_call":
                calls[body["call_id"]] = body["name"]
            case "tool_ended":
                calls.pop(body["call_id"], None)
            case "agent_text":
                self.by_session[session] = f"says: {body['text'].strip()[-_LONGEST:]}"
                return
            case "turn_started" | "turn_ended":
                calls.clear()
                self.by_session[session] = ""
            case "quiet":
                self.by_session[session] = "is quiet"
            case "stalled":
                self.by_session[session] = "is stalled"
            case "agent_restarting":
                calls.clear()
                self.by_session[session] = "its agent died"
        if calls:
            self.by_session[session] = f"runs {', '.join(calls.values())}"


_LOOK_EVERY_SECONDS: Final = 0.1


@attrs.define
class DemoRun:
    """State of one run of the demo: the output, the supervisor, the speed and the results."""

    output: DemoOutput
    tempo: float
    # The supervisor whose sessions are shown, and their activity; None between two supervisors.
    sup: Supervisor | None = None
    activity: Activity = attrs.field(factory=Activity)
    # Shown while there are no sessions.
    remark: str = "No sessions yet."
    promises: list[PromiseResult] = attrs.field(factory=list)
    # Facts of the last line, known after the kill.
    facts: dict[str, Any] = attrs.field(factory=dict)

    def show_sessions_of(self, sup: Supervisor) -> None:
        """Show the sessions of this supervisor from now on."""
        self.sup, self.activity = sup, Activity()
        sup.hooks.add("record_written", self.activity.on_record)

    def show_no_sessions(self) -> None:
        """Show no sessions from now on."""
        self.sup = None

    def note_promise(self, promise: str, figure: str, *, kept: bool) -> None:
        """Note what a scene has measured of a promise, for the table at the end."""
        self.promises.append(PromiseResult(promise, figure, kept))

    def tell(self, word: str, sentence: str, **facts: object) -> None:
        """Print an event."""
        self.output.tell(word, sentence, **facts)

    async def pause(self) -> None:
        """Pause, so that viewers can read the last lines."""
        await trio.sleep(self.output.pause_seconds)

    async def pause_briefly(self) -> None:
        """Pause briefly, so that viewers see an intermediate state."""
        await trio.sleep(self.output.pause_seconds / 2)

    async def show(self) -> None:
        """Show the tree periodically until cancelled."""
        # aclosing: a cancelled request leaves the generator suspended, which trio warns about.
        async with aclosing(periodic(_LOOK_EVERY_SECONDS)) as ticks:
            async for _ in ticks:
                sup = self.sup
                try:
                    roots = () if sup is None else await sup.tree()
                except SupervisorError:  # the supervisor has just closed
                    roots = ()
                self.output.show(roots, self.activity.by_session, self.remark)


@asynccontextmanager
async def followed(session: Session) -> AsyncIterator[Watcher]:
    """Yield a watcher that starts after the session's newest record."""
    async with session.watch(after=(await session.info()).last_seq) as feed:
        yield feed


async def wait_for_record(feed: Watcher, kind: str, **wanted: object) -> Record:
    """Wait for a record of that kind whose body contains the given values, and return it."""
    async for item in feed:
        if not isinstance(item, Record) or item.kind != kind:
            continue
        if all(item.body.get(name) == value for name, value in wanted.items()):
            return item
    raise SupervisorError(
        f"the session ended without a record {kind}", hint="run `understudy doctor`"
    )
