"""The report of a failing schedule, as lines that a person reads from top to bottom."""

from __future__ import annotations

import re
from collections.abc import Sequence

import attrs

from ._schedule import Step

# Lines that are shown at the beginning, at the end, and around each line with a note.
SHOWN_FIRST = 3
SHOWN_LAST = 25
SHOWN_AROUND = 2


@attrs.frozen
class Counts:
    """Preemptions, early time-outs and steps of one run."""

    preemptions: int
    early_timeouts: int
    steps: int

    def __str__(self) -> str:
        return (
            f"{_plural(self.preemptions, 'preemption')},"
            f" {_plural(self.early_timeouts, 'early time-out')}, {_plural(self.steps, 'step')}"
        )


@attrs.frozen
class _Line:
    """Consecutive steps of one task, or a move of the clock."""

    first: int | None
    last: int | None
    text: str
    is_notable: bool = False

    def __str__(self) -> str:
        if self.first is None:
            return f"{'':>11}  {self.text}"
        numbers = str(self.first) if self.first == self.last else f"{self.first}-{self.last}"
        return f"{numbers:>11}  {self.text}"


def describe(trace: Sequence[Step]) -> list[str]:
    """Return the lines of a detailed trace: which task ran, from where, and moves of the clock."""
    lines: list[_Line] = []
    # trio's own tasks are not part of the program, and are shown only where they preempt it.
    shown = [
        attrs.evolve(step, task=_short(step.task), note=_short(step.note))
        for step in trace
        if step.note or not step.task.startswith("<")
    ]
    now, width = 0.0, max((len(step.task) for step in shown), default=0)
    group: list[Step] = []
    for step in shown:
        moves = step.at != now and step.task != "clock"
        if group and (moves or step.note or step.task != group[0].task):
            lines.append(_line_of(group, width))
            group = []
        if moves:
            lines.append(_Line(None, None, f"all tasks wait: time moves to {step.at:g} s"))
        now = step.at
        group.append(step)
    if group:
        lines.append(_line_of(group, width))
    return _shortened(lines)


def _line_of(group: Sequence[Step], width: int) -> _Line:
    first = group[0]
    if first.task == "clock":
        text = f"clock moves to {first.at:g} s: {first.note}"
    else:
        origin = f"from {first.where}" if first.where else "starts"
        note = f"{first.note}; " if first.note else ""
        text = f"{first.task:<{width}}  {note}{origin}"
    return _Line(first.number, group[-1].number, text, is_notable=bool(first.note))


def _shortened(lines: Sequence[_Line]) -> list[str]:
    """Leave out lines far from the beginning, from the end and from every note."""
    shown = {*range(SHOWN_FIRST), *range(len(lines) - SHOWN_LAST, len(lines))}
    for number, line in enumerate(lines):
        if line.is_notable:
            shown.update(range(number - SHOWN_AROUND, number + SHOWN_AROUND + 1))
    texts: list[str] = []
    left_out = 0
    for number, line in enumerate(lines):
        if number in shown:
            if left_out:
                texts.append(f"{'...':>11}  {_plural(left_out, 'line')} left out")
            left_out = 0
            texts.append(str(line).rstrip())
        else:
            left_out += 1
    return texts


def shown_error(error: BaseException | None) -> str:
    """Return the repr of a program's error; its type if the repr itself raises."""
    try:
        return repr(error)
    except Exception:  # noqa: BLE001 - the program's own code, and the seed must be reported
        return f"<{type(error).__name__}, whose repr raises>"


def _short(label: str) -> str:
    """Return the label with the last two parts of each dotted name: `Timers.run#3`."""
    return re.sub(r"(?:[\w<>]+\.)+(?=[\w<>]+\.\w)", "", label)


def _plural(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
