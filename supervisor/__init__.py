"""Agent sessions, supervised.

    import supervisor

    @supervisor.agent("greeter")
    async def greeter(turn: supervisor.Turn) -> str:
        return f"hello, {turn.text}"

    async with supervisor.open(":memory:", agents=[greeter]) as sup:
        session = await sup.create("greeter")
        result = await session.prompt("world")

`open()` yields a `Supervisor`, which creates and finds sessions. A `Session` accepts inputs while
it is busy and can be steered, interrupted, watched, stopped and resumed. All errors are
`SupervisorError`s, each with a `code` and a `hint`.
"""

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # not from `typing`, whose import takes longer than all of this
if TYPE_CHECKING:
    from typing import Any, Final

    from .client.connect import connect
    from .client.feed import RemoteGlobalFeed, RemoteWatcher
    from .client.session import RemoteSession
    from .client.supervisor import RemoteSupervisor
    from .client.transport import AnswerLost, DaemonBusy, NoDaemon
    from .client.watch import RemoteSessionFeed
    from .config import Settings
    from .core.agent_list import ListedAgent, ListedCapabilities
    from .core.agent_options import AgentOption
    from .core.creation import Message
    from .core.errors import (
        AgentStartFailed,
        AgentUnknown,
        AmbiguousId,
        BudgetSpent,
        ConfigError,
        Fenced,
        IdempotencyConflict,
        ImportFailed,
        InputRefused,
        InputTooLarge,
        InvalidDecision,
        InvalidKey,
        InvalidOverride,
        KeyTaken,
        NameTaken,
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
    from .core.info import Badge, Info, Need, Node, need_of
    from .core.limits import Ladder, Limits, Restart
    from .core.match import Match
    from .core.permissions import Permissions
    from .core.receipts import InterruptReport, Receipt, TurnResult
    from .core.records import Delta, Gap, Item, Record, Reset
    from .core.scopes import Scope, ToolCall, TurnScope
    from .core.session_values import (
        Attention,
        ContextUse,
        Decision,
        Failure,
        LastOutcome,
        PermissionRule,
        Phase,
        Spending,
        Usage,
        WhenBusy,
    )
    from .core.store_finding import StoreFinding
    from .drivers.acp.agent import AcpAgent, acp, scripted_process
    from .drivers.command.agent import CommandAgent, command
    from .drivers.confined import Confined
    from .drivers.port import AgentKind, ChildRequest, News
    from .drivers.python import PythonAgent, agent
    from .drivers.turn import Call, Turn
    from .handles.child import Child
    from .handles.session import Session
    from .handles.session_feed import SessionFeed
    from .handles.session_rows import (
        RequestClosed,
        RequestOpened,
        SessionGone,
        SessionRow,
        Snapshot,
        StoreChanged,
        TightestBudget,
        WatchItem,
    )
    from .handles.shapes import Input, InputState, Options, Page, TurnRecords, Waits, Why
    from .handles.supervisor import Supervisor
    from .handles.views import Stats
    from .runtime import (
        open,  # noqa: A004 - a public name
        restore,
    )
    from .sessions.feed import GlobalFeed, Watcher
    from .sessions.hooks import Change, Deny, Hook, HookEvent, Hooks, Stop
    from .sessions.inbox import PermissionRequest
    from .sessions.maintenance_reports import CleanupReport, Reloaded, SearchHit
    from .store.examine import Problem
    from .store.pending import StoreState
    from .store.repair import RepairReport

__version__: str

# The module of each public name. A name is imported on its first use, because `understudy --help`
# and the scripted agent process need neither trio nor SQLite.
_MODULES: Final = {
    "client.connect": ("connect",),
    "client.transport": ("AnswerLost", "DaemonBusy", "NoDaemon"),
    "client.feed": ("RemoteGlobalFeed", "RemoteWatcher"),
    "client.watch": ("RemoteSessionFeed",),
    "client.session": ("RemoteSession",),
    "client.supervisor": ("RemoteSupervisor",),
    "config": ("Settings",),
    "core.agent_list": ("ListedAgent", "ListedCapabilities"),
    "core.agent_options": ("AgentOption",),
    "core.creation": ("Message",),
    "core.errors": (
        "AgentStartFailed",
        "AgentUnknown",
        "AmbiguousId",
        "BudgetSpent",
        "ConfigError",
        "Fenced",
        "IdempotencyConflict",
        "ImportFailed",
        "InputRefused",
        "InputTooLarge",
        "InvalidDecision",
        "InvalidKey",
        "InvalidOverride",
        "KeyTaken",
        "NameTaken",
        "NotRunning",
        "NotStorable",
        "OutputTooLarge",
        "PermissionConflict",
        "PermissionDenied",
        "PermissionNotFound",
        "QueueFull",
        "RecordNotFound",
        "RepairRefused",
        "SessionNotActive",
        "SessionNotFound",
        "SpawnRefused",
        "StoreDegraded",
        "StoreLocked",
        "StoreTooNew",
        "SupervisorError",
        "TurnOver",
    ),
    "core.ids": ("CallId", "InputId", "RequestId", "SessionId", "SessionKey", "TurnId"),
    "core.info": ("Badge", "Info", "Need", "Node", "need_of"),
    "core.limits": ("Ladder", "Limits", "Restart"),
    "core.match": ("Match",),
    "core.permissions": ("Permissions",),
    "core.receipts": ("InterruptReport", "Receipt", "TurnResult"),
    "core.records": ("Delta", "Gap", "Item", "Record", "Reset"),
    "core.scopes": ("Scope", "ToolCall", "TurnScope"),
    "core.session_values": (
        "Attention",
        "ContextUse",
        "Decision",
        "Failure",
        "LastOutcome",
        "PermissionRule",
        "Phase",
        "Spending",
        "Usage",
        "WhenBusy",
    ),
    "drivers.acp.agent": ("AcpAgent", "acp", "scripted_process"),
    "drivers.command.agent": ("CommandAgent", "command"),
    "drivers.port": ("AgentKind", "ChildRequest", "News"),
    "drivers.python": ("PythonAgent", "agent"),
    "drivers.confined": ("Confined",),
    "drivers.turn": ("Call", "Turn"),
    "handles.child": ("Child",),
    "handles.session": ("Session",),
    "handles.shapes": ("Input", "InputState", "Options", "Page", "TurnRecords", "Waits", "Why"),
    "handles.session_feed": ("SessionFeed",),
    "handles.session_rows": (
        "RequestClosed",
        "RequestOpened",
        "SessionGone",
        "SessionRow",
        "Snapshot",
        "StoreChanged",
        "TightestBudget",
        "WatchItem",
    ),
    "handles.supervisor": ("Supervisor",),
    "handles.views": ("Stats",),
    "runtime": ("open", "restore"),
    "sessions.feed": ("GlobalFeed", "Watcher"),
    "sessions.hooks": ("Change", "Deny", "Hook", "HookEvent", "Hooks", "Stop"),
    "sessions.inbox": ("PermissionRequest",),
    "sessions.maintenance_reports": ("CleanupReport", "Reloaded", "SearchHit"),
    "store.examine": ("Problem",),
    "core.store_finding": ("StoreFinding",),
    "store.pending": ("StoreState",),
    "store.repair": ("RepairReport",),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "AcpAgent",
    "AgentKind",
    "AgentOption",
    "AgentStartFailed",
    "AgentUnknown",
    "AmbiguousId",
    "AnswerLost",
    "Attention",
    "Badge",
    "BudgetSpent",
    "Call",
    "CallId",
    "Change",
    "Child",
    "ChildRequest",
    "CleanupReport",
    "CommandAgent",
    "ConfigError",
    "Confined",
    "ContextUse",
    "DaemonBusy",
    "Decision",
    "Delta",
    "Deny",
    "Failure",
    "Fenced",
    "Gap",
    "GlobalFeed",
    "Hook",
    "HookEvent",
    "Hooks",
    "IdempotencyConflict",
    "ImportFailed",
    "Info",
    "Input",
    "InputId",
    "InputRefused",
    "InputState",
    "InputTooLarge",
    "InterruptReport",
    "InvalidDecision",
    "InvalidKey",
    "InvalidOverride",
    "Item",
    "KeyTaken",
    "Ladder",
    "LastOutcome",
    "Limits",
    "ListedAgent",
    "ListedCapabilities",
    "Match",
    "Message",
    "NameTaken",
    "Need",
    "News",
    "NoDaemon",
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
    "Reloaded",
    "RemoteGlobalFeed",
    "RemoteSession",
    "RemoteSessionFeed",
    "RemoteSupervisor",
    "RemoteWatcher",
    "RepairRefused",
    "RepairReport",
    "RequestClosed",
    "RequestId",
    "RequestOpened",
    "Reset",
    "Restart",
    "Scope",
    "SearchHit",
    "Session",
    "SessionFeed",
    "SessionGone",
    "SessionId",
    "SessionKey",
    "SessionNotActive",
    "SessionNotFound",
    "SessionRow",
    "Settings",
    "Snapshot",
    "SpawnRefused",
    "Spending",
    "Stats",
    "Stop",
    "StoreChanged",
    "StoreDegraded",
    "StoreFinding",
    "StoreLocked",
    "StoreState",
    "StoreTooNew",
    "Supervisor",
    "SupervisorError",
    "TightestBudget",
    "ToolCall",
    "Turn",
    "TurnId",
    "TurnOver",
    "TurnRecords",
    "TurnResult",
    "TurnScope",
    "Usage",
    "Waits",
    "WatchItem",
    "Watcher",
    "WhenBusy",
    "Why",
    "acp",
    "agent",
    "command",
    "connect",
    "need_of",
    "open",
    "restore",
    "scripted_process",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - any public object
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - a slow import

        return version("understudy")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = found  # so that __getattr__ runs once for each name
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
