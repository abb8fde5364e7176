"""Sessions to export: one with every kind of record, and small ones made to order."""

from __future__ import annotations

from typing import Any

import attrs

from supervisor.core.creation import SessionSpec, create
from supervisor.core.facts import Fact, number_facts
from supervisor.core.fold import replay
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.info import Info, make_info
from supervisor.core.records import Record, RecordKind
from supervisor.store.export import ExportFormat, export

ONE = SessionId("s_one")
BEGAN = 1_790_000_000.0


class SampleHistory:
    """A builder of facts, two seconds apart."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self._at = BEGAN
        self._turn: TurnId | None = None
        self._calls = 0

    def note(self, kind: RecordKind, **body: Any) -> None:  # noqa: ANN401 - a record's body
        self._at += 2
        self.facts.append(Fact(kind, self._at, body, self._turn))

    def begin(self, text: str, source: str = "user") -> None:
        turn = TurnId(f"turn_{sum(f.kind == 'turn_started' for f in self.facts) + 1}")
        self._turn = turn
        self.note("turn_started", turn_id=turn, input_id=f"in_{turn}", source=source)
        self.note("user_text", text=text, part=f"in_{turn}")

    def say(self, *pieces: str, kind: RecordKind = "agent_text") -> None:
        for number, piece in enumerate(pieces):
            self.note(kind, text=piece, part=f"{self._turn}.{number}", continues=number > 0)

    def think(self, *pieces: str) -> None:
        self.say(*pieces, kind="thought")

    def call(self, name: str, given: Any, result: Any, outcome: str = "completed") -> None:  # noqa: ANN401 - plain data
        self._calls += 1
        call = {"call_id": f"call_{self._calls}", "name": name}
        self.note("tool_call", **call, input=given, cancellable=True)
        self.note("tool_update", **call, update="half way")
        self.note("tool_ended", **call, outcome=outcome, result=result)

    def finish(self, outcome: str = "completed", **more: Any) -> None:  # noqa: ANN401 - as above
        usage = {"input_tokens": 1200, "output_tokens": 340, "cost": 0.0125}
        body = {
            "turn_id": self._turn,
            "outcome": outcome,
            "stop_reason": "end_turn" if outcome == "completed" else "cancelled",
            "text": "",
            "messages": 1,
            "error": None,
            "zombie": False,
            "ladder_step": None,
            "seconds": 12.5,
            "usage": usage,
        }
        self.note("usage", **usage)
        self.note("turn_ended", **{**body, **more})
        self._turn = None


PLAN = SessionSpec(
    agent="coder",
    name="nightly",
    tags=("parser", "urgent"),
    custom={"ticket": "PR-12"},
    workspace="/srv/project",
)


def records_of(history: SampleHistory, plan: SessionSpec = PLAN) -> list[Record]:
    """Return the records of a session with these facts."""
    _, made = create(ONE, plan, at=BEGAN)
    return list(number_facts(ONE, (*made, *history.facts), after=0))


def info_for(records: list[Record]) -> Info:
    session = replay(records)
    assert session is not None
    return make_info(session, last_seq=len(records))


def exported(
    format: ExportFormat,  # noqa: A002 - as in `export`
    records: list[Record],
    *,
    redact: bool = False,
    **changes: Any,  # noqa: ANN401 - fields of Info
) -> str:
    info = attrs.evolve(info_for(records), **changes)
    return "".join(export(format, info, records, redact=redact))


def agent_says(text: str) -> list[Record]:
    """Return one turn with this text as output, thought, tool input and result."""
    history = SampleHistory()
    history.begin(text)
    history.think(text)
    history.say(text)
    history.call(text, {text: text}, text)
    history.note("interrupted", scope="turn", turn_id="turn_1", reason=text, step="ask")
    history.finish(error=text)
    return records_of(history)


def rich() -> list[Record]:
    """Return a session with every kind of record."""
    history = SampleHistory()
    history.begin("The parser loses the last line of a file.\nPlease find out why, and mend it.")
    history.think("The reader splits at newlines. ", "A last line without one is probably dropped.")
    history.note(
        "plan",
        entries=[
            "read the parser",
            "write a failing test",
            {"content": "mend it", "status": "pending"},
        ],
    )
    history.say(
        "I look at the parser first",
        " and then write a test that fails.\n\n```python\n",
        "for line in text.split('\\n')[:-1]:\n    yield line\n```\nThere it is.",
    )
    history.call("read", {"path": "src/parser.py"}, "def lines(text):\n    ...")
    history.call("bash", {"cmd": "pytest -q", "timeout": 60}, {"exit": 1, "failed": 1}, "failed")
    history.note("user_text", text="shorter, please", part="in_9", steered=True)
    history.note(
        "permission_asked",
        request_id="req_1",
        tool="edit",
        question="May I edit src/parser.py?",
        input={"path": "src/parser.py"},
        options=["allow_once", "reject_once"],
        asks="people",
    )
    history.note("permission_answered", request_id="req_1", decision="allow_once", by="person")
    history.call("edit", {"path": "src/parser.py"}, "ok")
    child = {"child": "s_2", "agent": "tester", "name": None, "role": "worker"}
    history.note("child_started", **child, text="run all tests", resumed=False)
    history.note(
        "child_ended", **child, outcome="completed", text="41 passed", reason=None, detail=None
    )
    history.say("Done: the last line is kept, and a test says so.")
    history.finish()
    waits = {"waits_for": "tool", "detail": "bash", "since": BEGAN, "seconds": 300.0}
    history.begin("Now make it ten times faster.", source="schedule")
    history.note("quiet", **waits)
    history.note("stalled", **waits)
    history.note("progress_resumed", was="stalled")
    history.note(
        "interrupted", scope="turn", turn_id="turn_2", reason="changed my mind", step="ask"
    )
    history.call("bash", {"cmd": "make -j8 " + "very-long-target " * 20}, None, "interrupted")
    history.finish("interrupted", error="the agent was asked to stop")
    history.note("session_cleared", chapter=1)
    history.begin("Hello again. שלום, مرحبا, 你好 😀")
    history.say("Hello! A fresh start.")
    failure = {"kind": "process_exit", "detail": "exit code 1"}
    history.note("agent_restarting", attempt=1, after_seconds=0.5, failure=failure, recent=[BEGAN])
    history.note("session_stopped", reason="agent_crashed", detail="gave up", failure=failure)
    return records_of(history)
