"""Blocks laid out as lines of cells, as wide as a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Literal, TypeAlias, assert_never

from supervisor.cli.text_format import Cell, cell_width, format_duration, format_time, truncate
from supervisor.cli.wrapping import wrap_text
from supervisor.core.text import one_line

from .blocks import (
    Block,
    CallBlock,
    ChildBlock,
    Mood,
    NoteBlock,
    PlanBlock,
    RequestBlock,
    TextBlock,
    TurnEndBlock,
    TurnStartBlock,
)

Line: TypeAlias = list[Cell]

# Without a terminal nothing is cut: wider than every bounded text.
UNBOUNDED: Final = 1_000_000
_RULE: Final = "──"
_CALL_MARKS: Final = {None: ("•", "yellow"), "completed": ("✓", "green")}
_OTHER_MARK: Final = ("✗", "red")
_PLAN_MARKS: Final = {"completed": "[x]", "in_progress": "[>]"}
_MOOD_STYLES: Final[dict[Mood, str]] = {
    "plain": "dim",
    "good": "green",
    "notice": "yellow",
    "bad": "red",
}
_OUTCOME_STYLES: Final = {"completed": "dim", "interrupted": "yellow"}
_MIN_THOUGHT_WIDTH: Final = 8
_THOUSAND: Final = 1_000


def block_lines(
    block: Block, width: int = UNBOUNDED, *, thoughts: Literal["folded", "whole"] = "folded"
) -> list[Line]:
    """Return the lines of the block; a folded thought is one line."""
    if isinstance(block, TextBlock) and block.speaker == "thought" and thoughts == "folded":
        return list(_folded_thought_lines(block, width))
    return list(_lines(block, width))


def _lines(block: Block, width: int) -> Iterator[Line]:
    match block:
        case TextBlock(speaker="user"):
            yield from _user_lines(block, width)
        case TextBlock():
            style = "dim" if block.speaker == "thought" else None
            yield from ([Cell(line, style)] for line in wrap_text(block.text, width))
        case CallBlock():
            yield cut_line(_call_cells(block), width)
        case PlanBlock():
            yield from (cut_line(line, width) for line in _plan_lines(block))
        case ChildBlock():
            yield cut_line(_child_cells(block), width)
        case RequestBlock():
            yield from _request_lines(block, width)
        case NoteBlock():
            style = _MOOD_STYLES[block.mood]
            said = wrap_text(f"{_RULE} {block.text}", width)
            yield from ([Cell(line, style)] for line in said)
        case TurnStartBlock():
            yield []
            yield cut_line(_turn_start_cells(block), width)
        case TurnEndBlock():
            yield from _turn_end_lines(block, width)
        case _:
            assert_never(block)


def cut_line(line: Line, width: int) -> Line:
    """Return the line cut to the width."""
    fitted: Line = []
    for cell in line:
        text = truncate(cell.text, width)
        fitted.append(Cell(text, cell.style))
        width -= cell_width(text)
        if width <= 0:
            break
    return fitted


def _user_lines(block: TextBlock, width: int) -> Iterator[Line]:
    mark = "> " if block.is_first else "  "
    if block.how is not None and block.is_first:
        yield [Cell(mark, "cyan"), Cell(block.how, "dim")]
        mark = "  "
    for line in wrap_text(block.text, max(1, width - 2)):
        yield [Cell(mark, "cyan"), Cell(line, "cyan")]
        mark = "  "


def _folded_thought_lines(block: TextBlock, width: int) -> Iterator[Line]:
    if not block.is_first:
        return
    text = block.text.strip()
    first, _, rest = text.partition("\n")
    count = rest.count("\n") + 1
    more = f" (+{count} lines)" if rest or not block.is_last else ""
    first = truncate(first, max(_MIN_THOUGHT_WIDTH, width - cell_width(more) - 2))
    yield cut_line([Cell(f"~ {first}{more}", "dim")], width)


def _turn_start_cells(block: TurnStartBlock) -> Line:
    source = f" from {block.source}" if block.source else ""
    time = format_time(block.at).partition(".")[0]
    return [Cell(f"{_RULE} {time}{source} {_RULE}", "dim")]


def _call_cells(block: CallBlock) -> Line:
    mark, style = _CALL_MARKS.get(block.outcome, _OTHER_MARK)
    line = [Cell(f"{mark} ", style), Cell(block.name, "bold")]
    if block.outcome is None:
        line.append(Cell("  running", "yellow"))
    elif block.outcome != "completed":
        line.append(Cell(f"  {block.outcome}", "red"))
    if block.seconds is not None:
        line.append(Cell(f"  {format_duration(block.seconds)}", "dim"))
    if block.about:
        line.append(Cell(f"  {block.about}"))
    if block.result:
        line.append(Cell(f"  → {block.result}", "dim"))
    return line


def _plan_lines(block: PlanBlock) -> Iterator[Line]:
    yield [Cell("plan", "bold")]
    for status, text in block.entries:
        style = "dim" if status == "completed" else None
        yield [Cell(f"  {_PLAN_MARKS.get(status, '[ ]')} {text}", style)]


def _child_cells(block: ChildBlock) -> Line:
    line = [Cell("↳ ", "blue"), Cell(block.label, "bold")]
    if block.is_resumed:
        line.append(Cell("  resumed", "dim"))
    good = block.outcome in ("completed", "finished")
    line.append(Cell(f"  {block.outcome or 'running'}", "green" if good else "yellow"))
    line.append(Cell(f"  {block.child}", "dim"))
    if block.text:
        line.append(Cell(f"  {block.text}"))
    if block.result:
        line.append(Cell(f"  → {block.result}", "dim"))
    return line


def _request_lines(block: RequestBlock, width: int) -> Iterator[Line]:
    is_open = block.decision is None
    style = "magenta" if is_open else "dim"
    by = f" by {block.by}" if block.by else ""
    end = "" if is_open else f"  {block.decision}{by}"
    about = f" ({block.tool})" if block.tool else ""
    for line in wrap_text(f"? {block.question}{about}{end}", width):
        yield [Cell(line, style)]
    if is_open:
        for line in wrap_text(block.input, max(1, width - 4)) if block.input else ():
            yield [Cell(f"    {line}")]
        if block.options:
            yield cut_line([Cell(f"    {', '.join(block.options)}", "magenta")], width)
        for place, choice in enumerate(block.choices or (), 1):
            yield cut_line([Cell(f"    {place} {one_line(choice)}", "magenta")], width)


def _turn_end_lines(block: TurnEndBlock, width: int) -> Iterator[Line]:
    style = _OUTCOME_STYLES.get(block.outcome, "red")
    if block.error:
        for line in wrap_text(f"error: {block.error}", width):
            yield [Cell(line, "red")]
    said = [block.outcome]
    if block.outcome == "interrupted" and block.ladder_step:
        said.append(f"after {block.ladder_step}")
    if block.stop_reason not in (None, "end_turn", "cancelled"):
        said.append(str(block.stop_reason))
    if block.seconds is not None:
        said.append(format_duration(block.seconds))
    if block.tokens:
        said.append(f"{format_count(block.tokens)} tokens")
    if block.cost:
        said.append(f"${block.cost:.2f}")
    yield cut_line([Cell(f"{_RULE} {', '.join(said)} {_RULE}", style)], width)


def format_count(number: int) -> str:
    """Return a number of tokens: `950`, `1.2k`, `3.4M`."""
    if number < _THOUSAND:
        return str(number)
    if number < _THOUSAND**2:
        return f"{number / _THOUSAND:.1f}k"
    return f"{number / _THOUSAND**2:.1f}M"
