"""What these tests know about the inside of the runtime: a change there is one change here."""

from __future__ import annotations

from typing import Protocol, cast

from actors import Ended, Group, Ref
from actors._cell import Cell
from actors._child import Child
from actors._message import Question
from actors._supervisor import Supervisor


class Numbered(Protocol):
    """A message of ours: each has a number."""

    @property
    def number(self) -> int: ...


def cell_of(ref: Ref) -> Cell:
    """The actor behind a reference."""
    return ref._child


def group_of(group: Group) -> Supervisor:
    """The supervisor behind a group."""
    return group._child


def is_over(handle: Ref | Group) -> bool:
    """Whether it has ended for good."""
    return handle._child.reason is not None


def has_incarnation(cell: Cell) -> bool:
    """From launch to the end of the incarnation, also before its task had a turn."""
    return cell._scope is not None


def letters(cell: Cell) -> list[Numbered]:
    """The ordinary messages inside, without news of ends, which needs no room."""
    return [unwrap(m) for m in cell.mailbox.ordinary if not isinstance(m, Ended)]


def urgent_letters(cell: Cell) -> list[Numbered]:
    """The urgent messages inside."""
    return [unwrap(m) for m in cell.mailbox.urgent or ()]


def news_inside(cell: Cell) -> list[Ended]:
    """News of ends that the actor has yet to read."""
    return [m for m in cell.mailbox.ordinary if isinstance(m, Ended)]


def unwrap(message: object) -> Numbered:
    """What was asked or told, without the envelope that knows who waits."""
    inner = message.message if isinstance(message, Question) else message
    return cast("Numbered", inner)


def sleeps(cell: Cell) -> bool:
    """Whether the actor waits for a message."""
    return cell.mailbox.reader is not None


def is_recovering(group: Supervisor) -> bool:
    """Whether someone is at work to bring children of the group back."""
    return bool(group._recoveries)


def child_of(handle: Ref | Group) -> Child:
    """What stands behind either handle."""
    return handle._child
