import math
from functools import partial
from typing import Any

import pytest

from actors import (
    Actor,
    BadSpec,
    ChildSpec,
    Group,
    GroupSpec,
    NameTaken,
    RestartPolicy,
    open_actors,
)
from tests.support.fake_actors import (
    ActorLog,
    FakeActor,
    Say,
    fake_actor,
    fake_actor_specs,
)

BAD_CHILD_FIELDS: list[tuple[str, object]] = [
    ("name", ""),
    ("name", "  "),
    ("name", 7),
    ("start", 7),
    ("start", None),
    ("start", FakeActor()),
    ("restart", "sometimes"),
    ("restart", 7),
    ("capacity", 0),
    ("capacity", 2.5),
    ("capacity", True),
    ("capacity", math.inf),
    ("shutdown_seconds", -1.0),
    ("shutdown_seconds", math.nan),
    ("shutdown_seconds", "5"),
    ("shutdown_seconds", None),
]

BAD_GROUP_FIELDS: list[tuple[str, object]] = [
    ("children", ["a"]),
    ("children", [FakeActor]),
    ("children", 7),
    ("strategy", "two_for_one"),
    ("strategy", None),
    ("max_restarts", -1),
    ("max_restarts", 0.5),
    ("within_seconds", -1.0),
    ("within_seconds", math.nan),
    ("backoff_seconds", -1.0),
    ("backoff_seconds", math.inf),
    ("max_backoff_seconds", -1.0),
    ("stop_order", "sideways"),
    ("stop_order", None),
]


@pytest.mark.parametrize(("field", "value"), BAD_CHILD_FIELDS)
def test_a_bad_child_spec_is_refused_naming_the_field(field: str, value: object) -> None:
    good: dict[str, Any] = {"name": "a", "start": FakeActor}

    with pytest.raises(BadSpec, match=field) as refusal:
        ChildSpec(**(good | {field: value}))

    assert refusal.value.field == field
    assert refusal.value.hint


@pytest.mark.parametrize(("field", "value"), BAD_GROUP_FIELDS)
def test_a_bad_group_spec_is_refused_naming_the_field(field: str, value: object) -> None:
    good: dict[str, Any] = {"children": []}

    with pytest.raises(BadSpec, match=field) as refusal:
        GroupSpec(**(good | {field: value}))

    assert refusal.value.field == field
    assert refusal.value.hint


@pytest.mark.parametrize(("field", "value"), BAD_CHILD_FIELDS)
async def test_start_refuses_bad_values_and_leaves_nothing_behind(
    system: Group, field: str, value: object
) -> None:
    good: dict[str, Any] = {"name": "a", "start": FakeActor}

    with pytest.raises(BadSpec) as refusal:
        await system.start(**(good | {field: value}))

    assert refusal.value.field == field
    assert list(system) == []


@pytest.mark.parametrize(("field", "value"), [*BAD_GROUP_FIELDS, ("name", " ")])
async def test_start_group_refuses_bad_values_and_leaves_nothing_behind(
    system: Group, field: str, value: object
) -> None:
    good: dict[str, Any] = {"name": "g", "children": []}

    with pytest.raises(BadSpec) as refusal:
        await system.start_group(**(good | {field: value}))

    assert refusal.value.field == field
    assert list(system) == []


async def test_open_actors_refuses_an_unknown_stop_order_bare() -> None:
    with pytest.raises(BadSpec, match="stop_order"):
        async with open_actors(stop_order="sideways"):  # type: ignore[arg-type]
            pytest.fail("it opened")


async def test_start_refuses_a_factory_that_does_not_make_an_actor(system: Group) -> None:
    with pytest.raises(BadSpec) as refusal:
        await system.start(lambda: "nobody")  # type: ignore[arg-type, return-value]

    assert refusal.value.field == "start"
    assert list(system) == []


async def test_a_group_spec_is_not_taken_for_an_actor(system: Group) -> None:
    with pytest.raises(BadSpec) as refusal:
        await system.start(GroupSpec([]))  # type: ignore[arg-type]

    assert refusal.value.field == "start"
    assert list(system) == []


@pytest.mark.parametrize(("field", "value"), [("capacity", 7), ("shutdown_seconds", 7.0)])
def test_a_nested_group_refuses_mailbox_and_shutdown_options(field: str, value: float) -> None:
    numbers: dict[str, Any] = {field: value}

    with pytest.raises(BadSpec) as refusal:
        ChildSpec("inner", GroupSpec([]), **numbers)

    assert refusal.value.field == field


def test_a_member_may_not_bring_an_intensity_of_its_own() -> None:
    with pytest.raises(BadSpec, match="whole group") as refusal:
        GroupSpec([ChildSpec("a", FakeActor, restart=RestartPolicy(max_restarts=9))])

    assert refusal.value.field == "restart"


async def test_a_later_member_may_not_bring_an_intensity_either(system: Group) -> None:
    group = await system.start_group([])

    with pytest.raises(BadSpec) as refusal:
        await group.start(FakeActor, restart=RestartPolicy(backoff_seconds=9.0))

    assert refusal.value.field == "restart"


def test_duplicate_names_in_one_group_are_refused(actor_log: ActorLog) -> None:
    with pytest.raises(NameTaken, match="'a'"):
        GroupSpec(fake_actor_specs(actor_log, "a", "b", "a"))


def test_a_restart_kind_equals_a_policy_with_default_numbers() -> None:
    by_kind = ChildSpec("a", FakeActor, restart="permanent")
    by_policy = ChildSpec("a", FakeActor, restart=RestartPolicy("permanent"))

    assert by_kind.policy == by_policy.policy == RestartPolicy("permanent")
    GroupSpec([by_policy])


def test_the_defaults_of_a_spec_match_the_design() -> None:
    spec = ChildSpec("a", FakeActor)

    assert (spec.restart, spec.capacity, spec.shutdown_seconds) == ("transient", 1024, 5.0)
    assert (spec.policy.max_restarts, spec.policy.within_seconds) == (3, 5.0)


@pytest.mark.parametrize("make", [FakeActor, fake_actor(), lambda: FakeActor([])])
async def test_a_class_or_any_callable_that_makes_an_actor_will_do(
    system: Group, make: type[Actor]
) -> None:
    ref = await system.start(make)

    assert await ref.ask(Say("hello")) == "hello"


CHILD_FIELDS = ("shutdown_seconds",)


@pytest.mark.parametrize(
    "field", ["within_seconds", "backoff_seconds", "max_backoff_seconds", "shutdown_seconds"]
)
def test_a_number_beyond_all_clocks_is_refused_naming_the_field(field: str) -> None:
    huge: dict[str, Any] = {field: 10**400}
    make: Any = partial(ChildSpec, "a", Actor) if field in CHILD_FIELDS else RestartPolicy

    with pytest.raises(BadSpec) as refusal:
        make(**huge)

    assert refusal.value.field == field
