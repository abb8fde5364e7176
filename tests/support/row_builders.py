"""Rows, requests and snapshots as a daemon would send them."""

from typing import Any

import attrs

from supervisor.core.ids import RequestId, SessionId, TurnId
from supervisor.core.info import Info
from supervisor.core.session_values import Attention, Phase
from supervisor.handles.session_rows import SessionRow, Snapshot
from supervisor.sessions.inbox import PermissionRequest
from supervisor.store.pending import StoreState
from tests.support.export_samples import SampleHistory, info_for, records_of

NOW = 1_000_000.0


def make_row(name: str, **changes: Any) -> SessionRow:  # noqa: ANN401 - fields of the row
    """Return an idle session whose id is `s_` and its name."""
    values: dict[str, Any] = {
        "id": SessionId(f"s_{name}"),
        "parent": None,
        "root": SessionId(f"s_{name}"),
        "depth": 0,
        "name": name,
        "title": None,
        "agent": "echo",
        "role": None,
        "workspace": None,
        "tags": (),
        "badge": "idle",
        "phase": Phase.IDLE,
        "archived": False,
        "waiting_for": None,
        "waiting_since": None,
        "queued": 0,
        "turn_id": None,
        "turn_started_at": None,
        "last_text": None,
        "tokens": 0,
        "cost": 0.0,
        "budget": None,
        "last_seq": 1,
        "stop_reason": None,
        "stop_detail": None,
        "created_at": NOW - 60,
        "last_active_at": NOW - 60,
        "children": 0,
    }
    return SessionRow(**{**values, **changes})


def running_row(name: str, **changes: Any) -> SessionRow:  # noqa: ANN401 - fields of the row
    """Return a session with a running turn."""
    return make_row(
        name,
        **{
            "badge": "running",
            "phase": Phase.RUNNING,
            "turn_id": TurnId(f"t_{name}"),
            "turn_started_at": NOW - 30,
            "waiting_for": "model",
            **changes,
        },
    )


def asking_row(name: str, **changes: Any) -> SessionRow:  # noqa: ANN401 - fields of the row
    """Return a session whose turn waits for a permission."""
    asks = Attention("permission", None, NOW - 90, 1)
    waiting = {"badge": "waiting-for-you", "attention": (asks,), "waiting_for": "person"}
    return running_row(name, **{**waiting, **changes})


def failed_row(name: str, **changes: Any) -> SessionRow:  # noqa: ANN401 - fields of the row
    """Return a stopped session whose last turn failed."""
    failure = Attention("failed_turn", "exit code 137", NOW - 90, 1)
    failed = {"badge": "failed", "phase": Phase.STOPPED, "attention": (failure,)}
    return make_row(name, **{**failed, **changes})


def stopped_info(name: str) -> Info:
    """Return a stopped session as a list of sessions has it."""
    info = info_for(records_of(SampleHistory()))
    stopped = attrs.evolve(info, phase=Phase.STOPPED, badge="stopped", attention=())
    return attrs.evolve(stopped, id=SessionId(f"s_{name}"), name=name)


def make_request(name: str, session: str, **changes: Any) -> PermissionRequest:  # noqa: ANN401 - fields of the row
    """Return a request of the session with that name."""
    values: dict[str, Any] = {
        "id": RequestId(f"r_{name}"),
        "session_id": SessionId(f"s_{session}"),
        "turn_id": TurnId(f"t_{session}"),
        "tool": "bash",
        "question": f"May I run {name}?",
        "input": {"command": f"{name} --force"},
        "options": ("allow_once", "reject_once"),
        "asked_at": NOW - 90,
    }
    return PermissionRequest(**{**values, **changes})


def snapshot(*rows: SessionRow, requests: tuple[PermissionRequest, ...] = ()) -> Snapshot:
    """Return the first item of a feed."""
    return Snapshot(
        position=1,
        rows=rows,
        requests=requests,
        store=StoreState(),
        daemon_started_at=NOW - 3600,
    )
