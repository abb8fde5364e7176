"""The states page lists exactly the values of the code."""

import ast
import functools
import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import pytest

import supervisor
from supervisor.core.endings import ENDINGS, NOT_RESUMED_BY_INPUT, UNUSED_CAUSES, Cause
from supervisor.core.ids import InputId, RequestId, SessionId, TurnId
from supervisor.core.info import Badge, badge_of
from supervisor.core.limits import Lifetime, Limits, OnEnd, OnStall, RestartKind
from supervisor.core.state import (
    InputOutcome,
    OpenRequest,
    OpenTurn,
    Outcome,
    Phase,
    SessionState,
    Silence,
    WhenBusy,
)
from supervisor.core.table import decide
from supervisor.drivers.turn import CallOutcome
from tests.support.event_histories import history

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/states.md"
HISTORIES = 900
LENGTH = 100
WORD = re.compile(r"`([^`]+)`")
CAPS = {"max_depth", "max_children", "max_descendants", "max_spawns"}
CAPS_OF_THE_PROCESS = {"max_sessions", "max_running_turns", "max_agent_processes"}
BUDGETS = {"turns", "tokens", "cost", "wall_seconds"}
USED_ENDINGS = {cause: one for cause, one in ENDINGS.items() if cause not in UNUSED_CAUSES}


# The page -----------------------------------------------------------------------------------------


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table under a heading, without its header."""
    _, _, after = PAGE.read_text().partition(f"\n## {heading}\n")
    section = after.partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def words(cell: str) -> list[str]:
    return WORD.findall(cell)


def word(cell: str) -> str:
    (only,) = words(cell)
    return only


def first_words(heading: str) -> list[str]:
    return [word(cells[0]) for cells in rows(heading)]


# The code -----------------------------------------------------------------------------------------


def nodes(path: str, function: str | None = None) -> Iterator[ast.AST]:
    """Yield every node of a file, or of one function in it."""
    tree = ast.parse((ROOT / path).read_text())
    if function is None:
        yield from ast.walk(tree)
        return
    (found,) = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name == function
    ]
    for statement in found.body[1:]:  # without the docstring
        yield from ast.walk(statement)


def text_of(node: ast.AST | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def calls(found: Iterator[ast.AST], name: str) -> Iterator[ast.Call]:
    for node in found:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def everywhere(name: str) -> Iterator[ast.Call]:
    """Yield every call of that name in the package."""
    for path in sorted((ROOT / "supervisor").rglob("*.py")):
        yield from calls(nodes(str(path.relative_to(ROOT))), name)


def argument(call: ast.Call, place: int, name: str) -> str | None:
    """Return the literal argument of a call by position or name, or None."""
    named = [keyword.value for keyword in call.keywords if keyword.arg == name]
    given = named[0] if named else call.args[place] if place < len(call.args) else None
    return text_of(given)


def texts(found: Iterator[ast.AST]) -> set[str]:
    return {text for node in found if (text := text_of(node)) is not None}


def limits_named_in_the_code() -> set[str]:
    admission = "supervisor/core/tree/admission.py"
    named = {argument(call, 3, "limit") for call in everywhere("SpawnRefused")}
    named |= {argument(call, 2, "limit") for call in calls(nodes(admission), "_refusal")}
    named |= {argument(call, 0, "limit") for call in calls(nodes(admission), "_require")}
    return {limit for limit in named if limit is not None} | BUDGETS


def waits_without_a_turn() -> set[str]:
    found = nodes("supervisor/handles/why.py", "_wait_without_turn")
    firsts = {text_of(node.elts[0]) for node in found if isinstance(node, ast.Tuple) and node.elts}
    return {first for first in firsts if first is not None}


def waits_of_turns() -> set[str]:
    made = calls(nodes("supervisor/sessions/liveness.py", "find_evidence"), "Evidence")
    blocked = everywhere("BlockedOn")
    named = {argument(call, 0, "waits_for") for call in itertools.chain(made, blocked)}
    return {text for text in named if text is not None}


# States of every kind -----------------------------------------------------------------------------


def some_turn(*, asks: bool, silence: Silence | None) -> OpenTurn:
    request = OpenRequest(RequestId("r_1"), "rm", "May I?", ("allow_once",), 1.0)
    requests = (request,) if asks else ()
    turn_id, input_id = TurnId("t_1"), InputId("i_1")
    return OpenTurn(turn_id, input_id, "user", 1.0, requests=requests, silence=silence)


def all_kinds() -> Iterator[SessionState]:
    """Yield states in every phase, with and without a turn, requests, silence and a zombie."""
    silences = (None, *get_args(Silence))
    turns = [None, *(some_turn(asks=a, silence=s) for a in (True, False) for s in silences)]
    reasons = [ending.reason for ending in USED_ENDINGS.values()]
    for phase, turn, zombie in itertools.product(Phase, turns, (None, TurnId("t_0"))):
        for reason in reasons if phase is Phase.STOPPED else (None,):
            yield SessionState(
                id=SessionId("s_1"),
                agent_name="coder",
                phase=phase,
                turn=turn,
                zombie=zombie,
                stop_reason=reason,
            )


def shown_as_failed() -> set[str]:
    """Return the reasons with the badge `failed` on the page."""
    return {word(cells[1]) for cells in rows("Causes and reasons") if word(cells[2]) == "failed"}


# The condition of each badge, for a state that matches no earlier badge of the page.
FITS: dict[str, Callable[[SessionState], bool]] = {
    "failed": lambda s: s.phase is Phase.STOPPED and s.stop_reason in shown_as_failed(),
    "stopped": lambda s: s.phase is Phase.STOPPED,
    "waiting-for-auth": lambda s: s.waits_for_auth,
    "waiting-for-you": lambda s: s.turn is not None and bool(s.turn.requests),
    "hung": lambda s: s.turn is not None and s.turn.silence == "stalled",
    "unhealthy": lambda s: s.zombie is not None,
    "restarting": lambda s: s.phase is Phase.RESTARTING,
    "running": lambda s: (
        s.phase in (Phase.RUNNING, Phase.INTERRUPTING)
        or (s.phase is Phase.STOPPING and s.turn is not None)
    ),
    "idle": lambda s: s.phase is Phase.IDLE,
    "suspended": lambda s: s.phase is Phase.SUSPENDED,
    "unknown": lambda _: True,
}


@functools.cache
def phases_seen() -> dict[str, set[str]]:
    """Return the phases in which random histories show each badge."""
    seen: dict[str, set[str]] = {badge: set() for badge in get_args(Badge)}
    for seed in range(HISTORIES):
        for session, event in history(seed, LENGTH):
            after = decide(session, event).state
            seen[badge_of(after)].add(str(after.phase))
    return seen


# Badges and phases --------------------------------------------------------------------------------


def test_the_page_lists_the_badges_in_their_order() -> None:
    assert first_words("Badges") == list(get_args(Badge))


def test_the_first_matching_badge_of_the_page_is_shown() -> None:
    order = first_words("Badges")

    for session in all_kinds():
        assert badge_of(session) == next(badge for badge in order if FITS[badge](session))


def test_the_page_lists_the_phases_of_each_badge() -> None:
    listed = {word(cells[0]): set(words(cells[1])) for cells in rows("Badges")}

    assert listed == phases_seen()


def test_every_badge_occurs_in_some_history() -> None:
    assert all(phases_seen().values())


def test_the_page_lists_the_phases() -> None:
    assert first_words("Phases") == [str(phase) for phase in Phase]


# Ends ---------------------------------------------------------------------------------------------


def test_the_page_lists_every_cause_with_its_ending() -> None:
    listed = [tuple(map(word, cells[:4])) for cells in rows("Causes and reasons")]

    assert list(ENDINGS) == list(get_args(Cause))
    assert listed == [(c, e.reason, e.badge, e.inputs) for c, e in USED_ENDINGS.items()]


def test_the_page_lists_the_stop_reasons_that_input_resumes() -> None:
    listed = {word(cells[1]): cells[4] for cells in rows("Causes and reasons")}
    said = {reason: "no" if reason in NOT_RESUMED_BY_INPUT else "yes" for reason in listed}

    assert listed == said


def test_the_page_lists_the_kinds_of_failure_that_are_used() -> None:
    made = itertools.chain(everywhere("Failure"), everywhere("HandshakeFailed"))
    used = {argument(call, 0, "kind") for call in made} - {None}

    assert set(first_words("Kinds of failure")) == used


# Limits -------------------------------------------------------------------------------------------


def test_the_page_lists_every_limit_that_a_refusal_names() -> None:
    assert sorted(first_words("Why a spawn is refused")) == sorted(limits_named_in_the_code())


def test_the_page_lists_the_refusals_with_numbers() -> None:
    listed = {word(cells[0]) for cells in rows("Why a spawn is refused") if cells[2] == "yes"}

    assert listed == CAPS | BUDGETS | CAPS_OF_THE_PROCESS


def test_every_limit_of_the_settings_is_covered() -> None:
    fields = {field.name for field in Limits.__attrs_attrs__}
    settings = {field.name for field in supervisor.Settings.__attrs_attrs__}

    assert fields == CAPS | BUDGETS
    assert settings >= CAPS_OF_THE_PROCESS


# Waiting ------------------------------------------------------------------------------------------


def test_the_page_lists_every_wait_of_a_session() -> None:
    waited = waits_without_a_turn() | waits_of_turns()

    assert sorted(first_words("What a session waits for")) == sorted(waited)


def test_the_page_lists_every_wait_of_a_silent_turn() -> None:
    silent = waits_of_turns() - {"person", "input"}  # neither is a silent turn

    assert sorted(first_words("What a silent turn waits for")) == sorted(silent)


def test_the_page_lists_the_values_of_info_waiting_for() -> None:
    own = texts(nodes("supervisor/core/info.py", "waiting_for"))
    admission = texts(nodes("supervisor/sessions/admission.py", "waits_for"))
    other = texts(nodes("supervisor/sessions/session_info.py", "_waits_for_other"))

    assert sorted(first_words("`info().waiting_for`")) == sorted(own | admission | other)


# Other words --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("heading", "kind"),
    [
        ("Outcomes of turns", Outcome),
        ("Outcomes of tool calls", CallOutcome),
        ("Ends of inputs", InputOutcome),
        ("Silence", Silence),
    ],
)
def test_the_page_lists_the_values_of(heading: str, kind: object) -> None:
    assert first_words(heading) == list(get_args(kind))


def test_the_page_lists_the_values_users_choose() -> None:
    listed = {word(cells[0]): words(cells[1]) for cells in rows("Values that you choose")}

    assert listed == {
        "on_stall": list(get_args(OnStall)),
        "Restart.policy": list(get_args(RestartKind)),
        "lifetime": list(get_args(Lifetime)),
        "on_end": list(get_args(OnEnd)),
        "when_busy": list(get_args(WhenBusy)),
    }
