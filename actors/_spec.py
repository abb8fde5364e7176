"""The specs of a child and of a group, and their checks; each error names the field."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, Literal, TypeAlias, get_args

import attrs

from ._actor import Actor
from ._errors import (
    BadSpec,
    NameTaken,
    refuse_unless_count,
    refuse_unless_number,
    refuse_unless_one_of,
)
from ._restart import RestartKind, RestartPolicy, Strategy

StopOrder: TypeAlias = Literal["reverse", "together"]
MakeActor: TypeAlias = Callable[[], Actor]


DEFAULT_CAPACITY: Final = 1024
DEFAULT_SHUTDOWN_SECONDS: Final = 5.0

# One shared policy per kind, for specs that leave the numbers at their defaults.
_DEFAULT_POLICIES: Final = {kind: RestartPolicy(kind) for kind in get_args(RestartKind)}


def as_policy(restart: RestartKind | RestartPolicy) -> RestartPolicy:
    """Return the policy; a restart kind becomes a policy with default numbers."""
    if isinstance(restart, RestartPolicy):
        return restart
    refuse_unless_one_of("restart", restart, RestartKind)
    return _DEFAULT_POLICIES[restart]


def refuse_unless_name(field: str, name: object) -> None:
    """Raise `BadSpec` unless `name` is text that is not blank."""
    if not isinstance(name, str) or not name.strip():
        raise BadSpec(field, f"{name!r} is not a name", hint="pass a name that is not blank")


@attrs.frozen
class ChildSpec:
    """One child: its name, how to create it, when to restart it, how to stop it.

    `start` is an `Actor` class, any callable that returns an actor, or a `GroupSpec` for a
    group within the group. `restart` is a kind; intensity and back-off belong to the group, so
    a `RestartPolicy` is accepted only with their defaults. `shutdown_seconds` is the time that
    the message in hand and `on_stop` have together when it is stopped: 0 cancels at once,
    `math.inf` waits.
    """

    name: str
    start: MakeActor | GroupSpec
    restart: RestartKind | RestartPolicy = attrs.field(default="transient", kw_only=True)
    capacity: int = attrs.field(default=DEFAULT_CAPACITY, kw_only=True)
    shutdown_seconds: float = attrs.field(default=DEFAULT_SHUTDOWN_SECONDS, kw_only=True)
    policy: RestartPolicy = attrs.field(
        init=False,
        repr=False,
        default=attrs.Factory(lambda self: as_policy(self.restart), takes_self=True),
    )

    def __attrs_post_init__(self) -> None:
        refuse_unless_name("name", self.name)
        if isinstance(self.start, GroupSpec):
            self._refuse_actor_options()
        elif not callable(self.start):
            raise BadSpec(
                "start",
                f"{self.start!r} cannot be called",
                hint="pass an Actor class, a callable that returns an actor, or a GroupSpec",
            )
        refuse_unless_count("capacity", self.capacity, least=1)
        refuse_unless_number("shutdown_seconds", self.shutdown_seconds, least=0.0, finite=False)

    def _refuse_actor_options(self) -> None:
        for field, value, default in (
            ("capacity", self.capacity, DEFAULT_CAPACITY),
            ("shutdown_seconds", self.shutdown_seconds, DEFAULT_SHUTDOWN_SECONDS),
        ):
            if value != default:
                raise BadSpec(
                    field,
                    f"{self.name} is a group and has no {field}",
                    hint=f"set {field} on the children of the group",
                )


def _as_tuple(children: Iterable[ChildSpec]) -> tuple[ChildSpec, ...]:
    if not isinstance(children, Iterable):
        raise BadSpec("children", f"{children!r} is not a list", hint="pass a list of ChildSpecs")
    return tuple(children)


def _group_policy(group: GroupSpec) -> RestartPolicy:
    return RestartPolicy(
        max_restarts=group.max_restarts,
        within_seconds=group.within_seconds,
        backoff_seconds=group.backoff_seconds,
        max_backoff_seconds=group.max_backoff_seconds,
    )


@attrs.frozen
class GroupSpec:
    """Children that belong together, and the effect of one child's end on the others.

    They start in order and stop in `stop_order`: `reverse`, one after the other, or `together`, all
    requested at once (for many children that do not depend on each other).
    """

    children: tuple[ChildSpec, ...] = attrs.field(converter=_as_tuple)
    strategy: Strategy = attrs.field(default="one_for_one", kw_only=True)
    max_restarts: int = attrs.field(default=3, kw_only=True)
    within_seconds: float = attrs.field(default=5.0, kw_only=True)
    backoff_seconds: float = attrs.field(default=0.0, kw_only=True)
    max_backoff_seconds: float = attrs.field(default=60.0, kw_only=True)
    stop_order: StopOrder = attrs.field(default="reverse", kw_only=True)
    policy: RestartPolicy = attrs.field(
        init=False, repr=False, default=attrs.Factory(_group_policy, takes_self=True)
    )

    def __attrs_post_init__(self) -> None:
        refuse_unless_one_of("strategy", self.strategy, Strategy)
        refuse_unless_one_of("stop_order", self.stop_order, StopOrder)
        names = set()
        for child in self.children:
            if not isinstance(child, ChildSpec):
                raise BadSpec(
                    "children", f"{child!r} is not a ChildSpec", hint="pass ChildSpecs only"
                )
            if child.name in names:
                raise NameTaken(child.name, where="the group")
            names.add(child.name)
            refuse_private_intensity(child)


def refuse_private_intensity(child: ChildSpec) -> None:
    """Raise `BadSpec` if a child of a group has numbers that only the group may set."""
    if child.policy != _DEFAULT_POLICIES[child.policy.kind]:
        raise BadSpec(
            "restart",
            f"{child.name} has its own intensity or back-off in a group",
            hint="restarts are counted for the whole group: pass the numbers to start_group",
        )
