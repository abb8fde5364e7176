"""What a session waits for, in lines for people: of `understudy why`, and of `/why` on a screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from .text_format import Cell, format_duration
from .wait_words import reason_words, wait_words

if TYPE_CHECKING:
    from supervisor.handles.shapes import Waits, Why


def why_lines(answer: Why, names: Mapping[str, str | None]) -> Iterator[list[Cell]]:
    """Yield a line for each session of the chain, and one for a cycle; `names` before ids."""
    for waits in answer.chain:
        name = names.get(waits.session_id)
        shown_id = "" if name is None else f"{waits.session_id}, "
        yield [
            Cell(name or waits.session_id, "bold"),
            Cell(f" ({shown_id}{waits.agent}, {waits.badge}) {_wait_text(waits)}"),
            Cell(f", for {format_duration(waits.seconds)}", "dim"),
        ]
    if answer.cycle:
        circle = " -> ".join(names.get(one) or one for one in (*answer.cycle, answer.cycle[0]))
        yield [Cell(f"They wait for each other: {circle}", "red")]


def _wait_text(waits: Waits) -> str:
    if waits.waits_for == "nothing":
        reason = "" if waits.detail is None else f" {reason_words(waits.detail)}"
        return f"has stopped{reason}, and waits for nothing"
    detail = "" if waits.detail is None else f" ({waits.detail})"
    return f"waits for {wait_words(waits.waits_for)}{detail}"
