"""Write the index of decisions, `docs/decisions/index.md`, from the decision files.

`python docs/decisions.py` rewrites the index; `tests/system/test_decisions_page.py` compares both.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "decisions"
INDEX: Final = FOLDER / "index.md"

# The order of the sections of the index, and the heading of each.
AREAS: Final = {
    "actors": "The actor runtime",
    "sessions": "Sessions",
    "tree": "Trees, limits and budgets",
    "persistence": "Persistence",
    "drivers": "Agents and processes",
    "api": "HTTP and command line",
    "testing": "Testing",
    "structure": "Layout of the packages",
}
SECTIONS: Final = ("Context", "Choice", "Price", "When to reconsider")

TITLE: Final = re.compile(r"# (\d+)\. (.+)")
FIELDS: Final = re.compile(r"Status: ([^.]+)\. Date: (\d{4}-\d\d-\d\d)\. Area: (\w+)\.")

HEAD: Final = """\
# Decisions: what was chosen, why, and at what price

Each page has the context of one choice, the choice, its price, and when to reconsider it. Code and
pages refer to a decision by its number. A decision that was replaced stays, and its status names
the decision that replaced it. `python docs/decisions.py` writes this index from the pages.

To add one, take the next free number, copy the shape of an existing page, keep it to about ten
lines, and run the script.
"""

DROPPED: Final = """\
## Numbers without a page

These were not decisions, or are now described elsewhere. Their numbers are not used again.

- 11, the place of four small packages in the layers:
  [the architecture](../explanation/architecture.md).
- 22, a list of public names beyond the specification:
  [the embedding API](../reference/supervisor.md) and [records](../reference/records.md).
- 68, the cost of a durable turn and what was tried: [figures](../explanation/figures.md).
"""


class Decision(NamedTuple):
    """The head of one decision page."""

    number: int
    title: str
    status: str
    date: str
    area: str
    path: Path


def read(path: Path) -> Decision:
    """Return the head of a decision page; raise ValueError if it does not have the shape."""
    text = path.read_text(encoding="utf-8")
    title, fields = TITLE.match(text), FIELDS.search(text)
    if title is None or fields is None:
        raise ValueError(f"{path.name} needs '# N. Title' and 'Status: ... Date: ... Area: ...'")
    status, date, area = fields.groups()
    return Decision(int(title[1]), title[2], status, date, area, path)


def decisions() -> list[Decision]:
    """Return all decisions by number."""
    return sorted(read(path) for path in FOLDER.glob("[0-9]*.md"))


def page() -> str:
    """Return the index in MyST Markdown."""
    found = decisions()
    parts = [HEAD]
    for area, heading in AREAS.items():
        rows = [_row(decision) for decision in found if decision.area == area]
        if rows:
            head = f"## {heading}\n\n| | decision | status | date |\n|---|---|---|---|"
            parts.append("\n".join((head, *rows, "")))
    names = "\n".join(decision.path.stem for decision in found)
    parts += [DROPPED, f"```{{toctree}}\n:hidden:\n\n{names}\n```\n"]
    return "\n".join(parts)


def _row(decision: Decision) -> str:
    link = f"[{decision.title}]({decision.path.name})"
    return f"| {decision.number} | {link} | {decision.status} | {decision.date} |"


if __name__ == "__main__":
    INDEX.write_text(page(), encoding="utf-8")
