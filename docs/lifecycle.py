"""Draw the lifecycle of a session, page and picture, from `supervisor.core.table`.

`python docs/lifecycle.py` writes both files; a test compares them with the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import copysign, cos, hypot, sin, tau
from pathlib import Path

from supervisor.core.endings import ENDINGS, UNUSED_CAUSES
from supervisor.core.events import EVENTS, Event
from supervisor.core.state import Phase
from supervisor.core.table import ROWS, Row, ignore

DOCS = Path(__file__).parent
PAGE = DOCS / "reference" / "lifecycle.md"
PICTURE = DOCS / "_static" / "lifecycle.svg"

HEAD = """\
# The lifecycle of a session

This page is drawn from the table in `supervisor/core/table.py`, and a test compares them. The
result of an event depends only on the session's phase and state; every pair of a phase and an
event has a row.

```{figure} ../_static/lifecycle.svg
:alt: The eight phases of a session, and which lead to which.
:width: 100%

The phases, and which can follow which. The tables below list the events.
```
"""


def page() -> str:
    """Return the whole page, in MyST Markdown."""
    return "\n".join((HEAD, *_arrows(), "", *_answers(), "", *_endings(), ""))


def arrows() -> dict[tuple[Phase, Phase], list[str]]:
    """Return which phase can follow which, and on which events, in the order of the table."""
    found: dict[tuple[Phase, Phase], list[str]] = {}
    for row in ROWS:
        for phase in sorted(row.next_phases, key=list(Phase).index):
            if phase is not row.phase:
                found.setdefault((row.phase, phase), []).append(_words(row.event))
    return found


def _arrows() -> Iterator[str]:
    yield "## From phase to phase"
    yield ""
    yield "| from | to | when |"
    yield "|---|---|---|"
    taken = arrows()
    for before in Phase:
        for after in Phase:
            if (before, after) in taken:
                yield f"| {before} | {after} | {', '.join(taken[before, after])} |"


def _answers() -> Iterator[str]:
    yield "## What each event does in each phase"
    yield ""
    yield "The name of the rule that decides; `·` marks late events that are ignored."
    yield ""
    yield f"| event | {' | '.join(Phase)} |"
    yield "|---" * (len(Phase) + 1) + "|"
    by_pair = {(row.phase, row.event): row for row in ROWS}
    for event in EVENTS:
        rules = " | ".join(_rule(by_pair[phase, event]) for phase in Phase)
        yield f"| {_words(event)} | {rules} |"


def _endings() -> Iterator[str]:
    yield "## Why a session is stopped"
    yield ""
    yield "| cause | reason shown | badge | waiting inputs |"
    yield "|---|---|---|---|"
    for cause, ending in ENDINGS.items():
        if cause not in UNUSED_CAUSES:
            yield f"| {cause} | {ending.reason} | {ending.badge} | {ending.inputs} |"


def _rule(row: Row) -> str:
    return "·" if row.rule is ignore else row.rule.__name__.replace("_", " ")


def _words(event: type[Event]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", event.__name__).lower()


# The picture ------------------------------------------------------------------------------

WIDTH, HEIGHT = 860, 440
BOX_WIDTH, BOX_HEIGHT = 128, 44
GAP = 6  # between the two arrows of a pair that goes both ways
# Around an ellipse, so that no arrow runs through a box.
PLACES = {
    phase: (WIDTH / 2 - 340 * cos(turn * tau / 8), HEIGHT / 2 - 180 * sin(turn * tau / 8))
    for turn, phase in enumerate(
        (
            Phase.STARTING,
            Phase.RESTARTING,
            Phase.IDLE,
            Phase.RUNNING,
            Phase.INTERRUPTING,
            Phase.STOPPING,
            Phase.STOPPED,
            Phase.SUSPENDED,
        )
    )
}


def picture() -> str:
    """Return the phases and the arrows between them, as SVG."""
    pairs = arrows()
    lines = [_line(before, after) for before, after in pairs]
    boxes = [_box(phase) for phase in Phase]
    return "\n".join((_SVG_HEAD, *lines, *boxes, "</svg>", ""))


_SVG_HEAD = f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif">
<title>The phases of a session</title>
<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"
 orient="auto"><path d="M0 0 10 5 0 10z" fill="#7a8aa0"/></marker></defs>"""


def _box(phase: Phase) -> str:
    x, y = PLACES[phase]
    left, top = x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2
    return (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="8"'
        f' fill="#e8eef7" stroke="#7a8aa0"/>\n'
        f'<text x="{x:.0f}" y="{y + 5:.0f}" text-anchor="middle" font-size="15"'
        f' fill="#1b2a41">{phase}</text>'
    )


def _line(before: Phase, after: Phase) -> str:
    (x1, y1), (x2, y2) = PLACES[before], PLACES[after]
    dx, dy = x2 - x1, y2 - y1
    aside = (-dy / hypot(dx, dy) * GAP, dx / hypot(dx, dy) * GAP)
    begin, end = _way_out(dx, dy, aside), _way_out(-dx, -dy, aside)
    path = f"M{x1 + begin[0]:.0f} {y1 + begin[1]:.0f} {x2 + end[0]:.0f} {y2 + end[1]:.0f}"
    return f'<path d="{path}" stroke="#7a8aa0" fill="none" marker-end="url(#tip)"/>'


def _way_out(dx: float, dy: float, aside: tuple[float, float]) -> tuple[float, float]:
    """Return where a line in that direction, a little off the middle, leaves a box."""
    reaches = [
        (copysign(half, step) - offset) / step
        for step, offset, half in ((dx, aside[0], BOX_WIDTH / 2), (dy, aside[1], BOX_HEIGHT / 2))
        if abs(step) > 1.0
    ]
    return aside[0] + dx * min(reaches), aside[1] + dy * min(reaches)


if __name__ == "__main__":
    PAGE.write_text(page())
    PICTURE.write_text(picture())
