"""Agent sessions, supervised.

    import supervisor

    @supervisor.agent("greeter")
    async def greeter(turn: supervisor.Turn) -> str:
        return f"hello, {turn.text}"

    async with supervisor.open(":memory:", agents=[greeter]) as sup:
        session = await sup.create("greeter")
        result = await session.prompt("world")

`open()` gives a `Supervisor`, which makes and finds sessions; a `Session` takes input while it is
busy, is steered, interrupted exactly where you point, watched, stopped and resumed. All errors are
`SupervisorError`s, each with a `code` and a `hint`.
"""

from .config import Settings
from .core.creation import Message
from .core.errors import (
    AgentStartFailed,
    AgentUnknown,
    BudgetSpent,
    ConfigError,
    Fenced,
    IdempotencyConflict,
    ImportFailed,
    InputRefused,
    InputTooLarge,
    InvalidDecision,
    InvalidKey,
    KeyTaken,
    NotRunning,
    NotStorable,
    OutputTooLarge,
    PermissionConflict,
    PermissionDenied,
    PermissionNotFound,
    QueueFull,
    RecordNotFound,
    RepairRefused,
    SessionNotActive,
    SessionNotFound,
    SpawnRefused,
    StoreDegraded,
    StoreLocked,
    StoreTooNew,
    SupervisorError,
    TurnOver,
)
from .core.ids import CallId, InputId, RequestId, SessionId, SessionKey, TurnId
from .core.info import Badge, Info, Node
from .core.limits import Ladder, Limits, Restart
from .core.permissions import Permissions
from .core.records import Record
from .core.session import Decision, Failure, PermissionRule, Phase, Spending, Usage, WhenBusy
from .core.step import InterruptReport, Receipt
from .drivers.port import ChildRequest, News
from .drivers.python import PythonAgent, agent
from .drivers.turn import Call, Turn
from .runtime import (
    open,  # noqa: A004 - its public name
    restore,
)
from .sessions.hooks import Change, Deny, Hook, HookEvent, Hooks, Stop
from .sessions.inbox import PermissionRequest
from .sessions.library.cleaning import CleanupReport
from .sessions.library.searching import SearchHit
from .sessions.shell.feed import Delta, Everything, Gap, Item, Watcher
from .sessions.shell.results import TurnResult
from .sessions.surface.child import Child
from .sessions.surface.handle import Session
from .sessions.surface.overview import Stats
from .sessions.surface.shapes import Input, Options, Scope, ToolCall, TurnRecords, TurnScope
from .sessions.surface.supervisor import Page, Supervisor
from .sessions.surface.why import Waits, Why
from .store.health import StoreState
from .store.repair import Problem, RepairReport

__version__: str

__all__ = [
    "AgentStartFailed",
    "AgentUnknown",
    "Badge",
    "BudgetSpent",
    "Call",
    "CallId",
    "Change",
    "Child",
    "ChildRequest",
    "CleanupReport",
    "ConfigError",
    "Decision",
    "Delta",
    "Deny",
    "Everything",
    "Failure",
    "Fenced",
    "Gap",
    "Hook",
    "HookEvent",
    "Hooks",
    "IdempotencyConflict",
    "ImportFailed",
    "Info",
    "Input",
    "InputId",
    "InputRefused",
    "InputTooLarge",
    "InterruptReport",
    "InvalidDecision",
    "InvalidKey",
    "Item",
    "KeyTaken",
    "Ladder",
    "Limits",
    "Message",
    "News",
    "Node",
    "NotRunning",
    "NotStorable",
    "Options",
    "OutputTooLarge",
    "Page",
    "PermissionConflict",
    "PermissionDenied",
    "PermissionNotFound",
    "PermissionRequest",
    "PermissionRule",
    "Permissions",
    "Phase",
    "Problem",
    "PythonAgent",
    "QueueFull",
    "Receipt",
    "Record",
    "RecordNotFound",
    "RepairRefused",
    "RepairReport",
    "RequestId",
    "Restart",
    "Scope",
    "SearchHit",
    "Session",
    "SessionId",
    "SessionKey",
    "SessionNotActive",
    "SessionNotFound",
    "Settings",
    "SpawnRefused",
    "Spending",
    "Stats",
    "Stop",
    "StoreDegraded",
    "StoreLocked",
    "StoreState",
    "StoreTooNew",
    "Supervisor",
    "SupervisorError",
    "ToolCall",
    "Turn",
    "TurnId",
    "TurnOver",
    "TurnRecords",
    "TurnResult",
    "TurnScope",
    "Usage",
    "Waits",
    "Watcher",
    "WhenBusy",
    "Why",
    "agent",
    "open",
    "restore",
]


def __getattr__(name: str) -> str:
    # Asked for late: importlib.metadata would be a good part of the cost of importing us.
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - late on purpose, see above

        return version("understudy")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
