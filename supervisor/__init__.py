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

from __future__ import annotations

import importlib

TYPE_CHECKING = False  # as `typing` has it, which alone takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any, Final

    from .client.connecting import connect
    from .client.errors import AnswerLost, DaemonBusy, NoDaemon
    from .client.session import RemoteSession
    from .client.supervisor import RemoteSupervisor
    from .client.watching import RemoteEverything, RemoteWatcher
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
    from .core.receipts import InterruptReport, Receipt
    from .core.records import Record
    from .core.session import Decision, Failure, PermissionRule, Phase, Spending, Usage, WhenBusy
    from .drivers.acp.agent import AcpAgent, acp, scripted_process
    from .drivers.command.agent import CommandAgent, command
    from .drivers.confined import Confined
    from .drivers.port import AgentKind, ChildRequest, News
    from .drivers.python import PythonAgent, agent
    from .drivers.turn import Call, Turn
    from .runtime import (
        open,  # noqa: A004 - its public name
        restore,
    )
    from .sessions.hooks import Change, Deny, Hook, HookEvent, Hooks, Stop
    from .sessions.house.reloading import Reloaded
    from .sessions.inbox import PermissionRequest
    from .sessions.library.cleaning import CleanupReport
    from .sessions.library.searching import SearchHit
    from .sessions.shell.feed import Delta, Everything, Gap, Item, Watcher
    from .sessions.shell.results import TurnResult
    from .sessions.surface.child import Child
    from .sessions.surface.handle import Session
    from .sessions.surface.overview import Stats
    from .sessions.surface.shapes import (
        Input,
        InputState,
        Options,
        Page,
        Scope,
        ToolCall,
        TurnRecords,
        TurnScope,
        Waits,
        Why,
    )
    from .sessions.surface.supervisor import Supervisor
    from .store.repair import Problem, RepairReport
    from .store.writer.health import StoreState

__version__: str

# Where each name lives. They are brought in when they are first asked for: a command line that only
# wants to print its help, and an agent process of ours, need none of trio and SQLite.
_HOMES: Final = {
    "client.connecting": ("connect",),
    "client.errors": ("AnswerLost", "DaemonBusy", "NoDaemon"),
    "client.session": ("RemoteSession",),
    "client.supervisor": ("RemoteSupervisor",),
    "client.watching": ("RemoteEverything", "RemoteWatcher"),
    "config": ("Settings",),
    "core.creation": ("Message",),
    "core.errors": (
        "AgentStartFailed",
        "AgentUnknown",
        "BudgetSpent",
        "ConfigError",
        "Fenced",
        "IdempotencyConflict",
        "ImportFailed",
        "InputRefused",
        "InputTooLarge",
        "InvalidDecision",
        "InvalidKey",
        "KeyTaken",
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
    "core.info": ("Badge", "Info", "Node"),
    "core.limits": ("Ladder", "Limits", "Restart"),
    "core.permissions": ("Permissions",),
    "core.receipts": ("InterruptReport", "Receipt"),
    "core.records": ("Record",),
    "core.session": (
        "Decision",
        "Failure",
        "PermissionRule",
        "Phase",
        "Spending",
        "Usage",
        "WhenBusy",
    ),
    "drivers.acp.agent": ("AcpAgent", "acp", "scripted_process"),
    "drivers.command.agent": ("CommandAgent", "command"),
    "drivers.confined": ("Confined",),
    "drivers.port": ("AgentKind", "ChildRequest", "News"),
    "drivers.python": ("PythonAgent", "agent"),
    "drivers.turn": ("Call", "Turn"),
    "runtime": ("open", "restore"),
    "sessions.hooks": ("Change", "Deny", "Hook", "HookEvent", "Hooks", "Stop"),
    "sessions.inbox": ("PermissionRequest",),
    "sessions.library.cleaning": ("CleanupReport",),
    "sessions.library.searching": ("SearchHit",),
    "sessions.house.reloading": ("Reloaded",),
    "sessions.shell.feed": ("Delta", "Everything", "Gap", "Item", "Watcher"),
    "sessions.shell.results": ("TurnResult",),
    "sessions.surface.child": ("Child",),
    "sessions.surface.handle": ("Session",),
    "sessions.surface.overview": ("Stats",),
    "sessions.surface.shapes": (
        "Input",
        "InputState",
        "Options",
        "Page",
        "Scope",
        "ToolCall",
        "TurnRecords",
        "TurnScope",
        "Waits",
        "Why",
    ),
    "sessions.surface.supervisor": ("Supervisor",),
    "store.writer.health": ("StoreState",),
    "store.repair": ("Problem", "RepairReport"),
}
_HOME_OF: Final = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AcpAgent",
    "AgentKind",
    "AgentStartFailed",
    "AgentUnknown",
    "AnswerLost",
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
    "DaemonBusy",
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
    "InputState",
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
    "RemoteEverything",
    "RemoteSession",
    "RemoteSupervisor",
    "RemoteWatcher",
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
    "acp",
    "agent",
    "command",
    "connect",
    "open",
    "restore",
    "scripted_process",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever bears the name
    if name == "__version__":
        from importlib.metadata import version  # noqa: PLC0415 - it costs more than all else here

        return version("understudy")
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = getattr(importlib.import_module(f".{home}", __name__), name)
    globals()[name] = found  # asked for once
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
