"""Access to private parts of the actor runtime, in one place."""

from __future__ import annotations

from typing import Protocol, cast

from actors import Ended, Group, Ref
from actors._cell import Cell
from actors._child import Child
from actors._message import Question
from actors._supervisor import Supervisor


class Numbered(Protocol):
    """A message of the simulations; each has a number."""

    @property
    def number(self) -> int: ...


def cell_of(ref: Ref) -> Cell:
    """Return the actor cell of a reference."""
    return cast("Cell", ref._child)


def group_of(group: Group) -> Supervisor:
    """Return the supervisor of a group."""
    return cast("Supervisor", group._child)


def is_over(handle: Ref | Group) -> bool:
    """Return True if the actor or group has ended for good."""
    return child_of(handle).reason is not None


def has_incarnation(cell: Cell) -> bool:
    """Return True from launch to the end of the incarnation, also before its task first ran."""
    return cell._scope is not None


def ordinary_messages(cell: Cell) -> list[Numbered]:
    """Return the queued ordinary messages, without end notices, which need no capacity."""
    return [unwrap(m) for m in cell.mailbox.ordinary if not isinstance(m, Ended)]


def urgent_messages(cell: Cell) -> list[Numbered]:
    """Return the queued urgent messages."""
    return [unwrap(m) for m in cell.mailbox.urgent or ()]


def news_inside(cell: Cell) -> list[Ended]:
    """Return the queued end notices."""
    return [m for m in cell.mailbox.ordinary if isinstance(m, Ended)]


def unwrap(message: object) -> Numbered:
    """Return the message inside an ask, or the message itself."""
    inner = message.message if isinstance(message, Question) else message
    return cast("Numbered", inner)


def waits_for_message(cell: Cell) -> bool:
    """Return True if the actor waits for a message."""
    return cell.mailbox.reader is not None


def is_recovering(group: Supervisor) -> bool:
    """Return True if a recovery restarts children of the group."""
    return bool(group._recoveries)


def child_of(handle: Ref | Group) -> Child:
    """Return the child of a reference or a group."""
    return cast("Child", handle._child)


def supervisor_of(child: Child) -> Supervisor | None:
    """Return the supervisor of a child; None for the root."""
    return cast("Supervisor | None", child.supervisor)
