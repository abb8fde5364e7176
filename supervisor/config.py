"""Settings: every number and switch, frozen, with its unit in its name.

Settings that a session may choose itself are here as the default. `configuration` reads values
from a file and from the environment.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import attrs

from .core.errors import ConfigError, short_repr
from .core.limits import Ladder, Limits, OnStall, Restart, number, one_of, whole_number

SteerFallback: TypeAlias = Literal["queue", "interrupt"]


def _instance_of(kind: type) -> Any:  # noqa: ANN401 - the type attrs has for a validator
    def check(_: object, field: attrs.Attribute[Any], value: object) -> None:
        if not isinstance(value, kind):
            name = f"settings.{field.name}"
            wanted = "true or false" if kind is bool else f"a {kind.__name__}(...)"
            raise ConfigError(f"{name} is {short_repr(value)}", hint=f"give {name} {wanted}")

    return check


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of a supervisor; `Settings()` has sensible defaults."""

    limits: Limits = attrs.field(factory=Limits, validator=_instance_of(Limits))
    queue_cap: int = attrs.field(default=10, validator=whole_number(least=1, most=1000))
    max_text_bytes: int = attrs.field(default=65536, validator=whole_number(least=1))
    max_turn_bytes: int = attrs.field(default=67108864, validator=whole_number(least=1))
    steer_fallback: SteerFallback = attrs.field(default="queue", validator=one_of(SteerFallback))
    quiet_after_seconds: float = attrs.field(default=120.0, validator=number(least=0.0))
    stalled_after_seconds: float = attrs.field(default=300.0, validator=number(least=0.0))
    tool_stalled_after_seconds: float = attrs.field(default=900.0, validator=number(least=0.0))
    on_stall: OnStall = attrs.field(default="notify", validator=one_of(OnStall))
    turn_deadline_seconds: float | None = attrs.field(
        default=None, validator=number(least=0.0, optional=True)
    )
    answers_for_children: bool = attrs.field(default=False, validator=_instance_of(bool))
    suspend_after_seconds: float = attrs.field(
        default=900.0, validator=number(least=0.0, finite=False)
    )
    restart: Restart = attrs.field(factory=Restart, validator=_instance_of(Restart))
    ladder: Ladder = attrs.field(factory=Ladder, validator=_instance_of(Ladder))
    permission_timeout_seconds: float | None = attrs.field(
        default=None, validator=number(least=0.0, optional=True)
    )
    exit_seconds: float = attrs.field(default=10.0, validator=number(least=0.0))
    snapshot_every: int = attrs.field(default=200, validator=whole_number(least=1))
    start_concurrency: int = attrs.field(default=4, validator=whole_number(least=1))
    max_sessions: int = attrs.field(default=10000, validator=whole_number(least=1))
    max_running_turns: int = attrs.field(default=1000, validator=whole_number(least=1))
    max_agent_processes: int = attrs.field(default=64, validator=whole_number(least=1))
    max_pending_output_bytes: int = attrs.field(
        default=4194304, validator=whole_number(least=65536)
    )
    max_tool_wait_seconds: float = attrs.field(default=50.0, validator=number(least=1.0))
