"""How a session is shown in one line: its short id, its state in words, tokens and cost.

A turn that failed is never shown as a happy one: the state names it until a person has seen it, and
afterwards names the outcome beside the badge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, cast, get_args

from supervisor.core.info import Badge, need_of
from supervisor.core.text import one_line

from .text_format import BADGE_STYLES, Cell, badge_cell
from .wait_words import wait_words

if TYPE_CHECKING:
    from supervisor.core.info import Info, Need
    from supervisor.core.session_values import AttentionKind
    from supervisor.handles.session_rows import SessionRow

# Of the random part of an id; more where others in the list begin with the same.
_MIN_RANDOM: Final = 4

ATTENTION_WORDS: Final[dict[AttentionKind, str]] = {
    "permission": "waiting-for-you",
    "question": "waiting-for-you",
    "login": "waiting-for-auth",
    "stall": "hung",
    "failed_session": "failed",
    "lost_turn": "turn lost",
    "failed_turn": "turn failed",
    "budget": "over budget",
    "permission_timeout": "unanswered",
    "refused_spawn": "spawn refused",
}
# Shorter words for the narrow column of `top`; the others are those of `ps`.
SHORT_STATES: Final[Mapping[str, str]] = {
    "waiting-for-you": "waiting",
    "waiting-for-auth": "login",
    "spawn refused": "no spawn",
}
# A turn that runs waits for these; the state says that it runs.
_ORDINARY_WAITS: Final = frozenset({"model", "tool"})
_BAD_OUTCOMES: Final = frozenset({"failed", "timed_out", "lost"})


def shorten_ids(ids: Iterable[str]) -> dict[str, str]:
    """Return for each id its beginning that no other id of the list begins with."""
    found = sorted(set(ids))
    shorter: dict[str, str] = {}
    for place, one in enumerate(found):
        beside = [*found[max(0, place - 1) : place], *found[place + 1 : place + 2]]
        unique = max((_common_length(one, other) + 1 for other in beside), default=0)
        least = one.find("_") + 1 + _MIN_RANDOM
        shorter[one] = one[: max(unique, least)]
    return shorter


def _common_length(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    least = min(len(one), len(other))
    return next((place for place, (this, that) in pairs if this != that), least)


def state_cell(info: Info | SessionRow, need: Need | None = None) -> Cell:
    """Return what a session needs, or its badge, in words and in a colour."""
    # A row has all that `need_of` reads, under the same names.
    need = need_of(cast("Info", info)) if need is None else need
    if need == "failed":
        return Cell(ATTENTION_WORDS[info.attention[0].kind], "red")
    ended = info.last_outcome
    if need == "finished" and ended is not None:
        if ended.outcome in ("completed", "interrupted"):
            word = "finished" if ended.outcome == "completed" else "interrupted"
            return Cell(word, "green" if word == "finished" else "yellow")
        return Cell(ended.outcome.replace("_", " "), "red")
    if ended is not None and ended.outcome in _BAD_OUTCOMES and info.turn_id is None:
        shown = f"{info.badge}, {ended.outcome.replace('_', ' ')}"
        return Cell(shown, BADGE_STYLES.get(info.badge))
    return badge_cell(info.badge)


def state_words(info: Info | SessionRow, need: Need | None = None) -> frozenset[str]:
    """Return the words that select the session in a filter: its badge, and those of its state.

    A session that a failure is shown of is found by `failed`, too.
    """
    need = need_of(cast("Info", info)) if need is None else need
    words = {info.badge, *state_cell(info, need).text.split(", ")}
    words |= {SHORT_STATES[word] for word in words & SHORT_STATES.keys()}
    return frozenset(map(filter_word, words | ({"failed"} if need == "failed" else set())))


def filter_word(text: str) -> str:
    """Return the word of a filter for what is shown or typed: `turn failed` is `turn-failed`."""
    return "-".join(text.casefold().replace("_", " ").split())


def all_state_words() -> tuple[str, ...]:
    """Return every word that `state_words` can contain, the badges first."""
    states = (*ATTENTION_WORDS.values(), "finished", "interrupted", *sorted(_BAD_OUTCOMES))
    found = (*get_args(Badge), *states, *SHORT_STATES.values())
    return tuple(dict.fromkeys(map(filter_word, found)))


def name_cell(info: Info, short_id: str) -> Cell:
    """Return a word that names the session in a command: its name, its key, or its short id."""
    return Cell(info.name, "bold") if info.name is not None else Cell(info.key or short_id, "dim")


def named_id(session_id: str, name: str | None) -> str:
    """Return the id behind the name, if there is one: `builder (s_4f9k2x81bz0c)`."""
    return session_id if name is None else f"{one_line(name)} ({session_id})"


def about_cell(info: Info) -> Cell:
    """Return what is most useful to know now: a problem, a wait, a bad end, or the title."""
    problem = attention_text(info)
    if problem is not None:
        return Cell(problem, "yellow")
    if info.waiting_for is not None and info.waiting_for not in _ORDINARY_WAITS:
        return Cell(f"waits for {wait_words(info.waiting_for)}", "yellow")
    ended = info.last_outcome
    if ended is not None and ended.outcome in _BAD_OUTCOMES and info.turn_id is None:
        return Cell(ended.reason or info.title or "", "dim")
    return Cell(info.stop_detail or info.title or "", "dim")


def attention_text(info: Info) -> str | None:
    """Return the detail of what a person should look at first; None without such a thing."""
    return info.attention[0].detail if info.attention else None


def outcome_text(info: Info) -> str | None:
    """Return how the last turn ended, with its reason; None if that is not known."""
    ended = info.last_outcome
    if ended is None:
        return None
    word = ended.outcome.replace("_", " ")
    is_plain = ended.reason is None or ended.outcome == "completed"
    return word if is_plain else f"{word}: {ended.reason}"


def format_tokens(count: int) -> str:
    """Format a number of tokens in at most five characters: `950`, `12.3k`, `1.2M`."""
    for unit, name in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= unit:
            amount = count / unit
            return f"{amount:.0f}{name}" if amount >= 100 else f"{amount:.1f}{name}"  # noqa: PLR2004 - three digits
    return str(count) if count else ""


def format_cost(cost: float) -> str:
    """Format a cost with two decimals, a small one with more; nothing for none."""
    if not cost:
        return ""
    return f"{cost:.2f}" if cost >= 0.01 else f"{cost:.2g}"  # noqa: PLR2004 - what two decimals show
