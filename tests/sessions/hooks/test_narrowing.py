"""Hooks may narrow, never widen."""

from __future__ import annotations

import math
from typing import Any

import pytest

from supervisor import Limits, Permissions
from supervisor.sessions.hooks import BlockingPoint, Change, Denied, Deny, Hooks, Stop
from tests.support.hook_calls import DATA, ask

GIVEN = Permissions(tools=["bash", "read"], mode="approve_reads")


async def changed(hooks: Hooks, point: BlockingPoint, given: object, **change: object) -> object:
    """What is taken of a hook's change of one field."""
    ((name, value),) = change.items()
    hooks.add(point, lambda _: Change(**{name: value}), required=True)
    return (await ask(hooks, point, **{name: given}))[name]


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        (Permissions(), GIVEN),
        (Permissions(tools=["read"]), Permissions(tools=["read"], mode="approve_reads")),
        (Permissions(tools=[]), Permissions(tools=[], mode="approve_reads")),
        (
            Permissions(skills=["sing"], mode="deny_all"),
            Permissions(tools=["bash", "read"], skills=["sing"], mode="deny_all"),
        ),
    ],
)
@pytest.mark.parametrize("point", ["spawn_before", "session_create"])
async def test_a_hook_may_narrow_permissions_and_omitted_fields_stay(
    hooks: Hooks, point: BlockingPoint, asked: Permissions, taken: Permissions
) -> None:
    assert await changed(hooks, point, GIVEN, permissions=asked) == taken


@pytest.mark.parametrize(
    "wider",
    [Permissions(tools=["read", "write"]), Permissions(mode="approve_all")],
    ids=["another tool", "a wider mode"],
)
@pytest.mark.parametrize("point", ["spawn_before", "session_create"])
async def test_more_rights_are_a_failure_of_the_hook(
    hooks: Hooks, point: BlockingPoint, wider: Permissions
) -> None:
    with pytest.raises(Denied, match=r"failed: tried to widen permissions$"):
        await changed(hooks, point, GIVEN, permissions=wider)


async def test_a_later_hook_cannot_restore_narrowed_permissions(hooks: Hooks) -> None:
    hooks.add("spawn_before", lambda _: Change(permissions=Permissions(tools=["read"])))
    hooks.add("spawn_before", lambda _: Change(permissions=GIVEN), required=True)

    with pytest.raises(Denied, match="widen"):
        await ask(hooks, "spawn_before", permissions=GIVEN)


@pytest.mark.parametrize(
    ("given", "asked"), [(60.0, 59.5), (60.0, 60.0), (60.0, 1), (None, 3600.0), (None, None)]
)
@pytest.mark.parametrize("point", ["spawn_before", "input_submitted"])
async def test_less_time_is_taken(
    hooks: Hooks, point: BlockingPoint, given: float | None, asked: float | None
) -> None:
    assert await changed(hooks, point, given, ttl_seconds=asked) == asked


@pytest.mark.parametrize("asked", [60.5, 61, None])
@pytest.mark.parametrize("point", ["spawn_before", "input_submitted"])
async def test_more_time_is_a_failure_of_the_hook(
    hooks: Hooks, point: BlockingPoint, asked: float | None
) -> None:
    with pytest.raises(Denied, match="tried to widen ttl_seconds"):
        await changed(hooks, point, 60.0, ttl_seconds=asked)


@pytest.mark.parametrize("rubbish", [0, -1, math.nan, math.inf, "5", True, [5]])
@pytest.mark.parametrize("given", [None, 60.0])
async def test_an_invalid_duration_fails_the_hook(
    hooks: Hooks, given: float | None, rubbish: object
) -> None:
    with pytest.raises(Denied, match="returned an invalid ttl_seconds: input_refused"):
        await changed(hooks, "spawn_before", given, ttl_seconds=rubbish)


async def test_lower_limits_are_taken(hooks: Hooks) -> None:
    lower = Limits(max_children=1, tokens=1000)

    assert await changed(hooks, "session_create", Limits(), limits=lower) == lower


@pytest.mark.parametrize(
    "higher", [Limits(max_children=6, tokens=10), Limits(), Limits(tokens=1001)]
)
async def test_a_higher_limit_is_a_failure_of_the_hook(hooks: Hooks, higher: Limits) -> None:
    with pytest.raises(Denied, match="tried to widen limits"):
        await changed(hooks, "session_create", Limits(tokens=1000), limits=higher)


@pytest.mark.parametrize("field", ["permissions", "limits", "tags", "custom", "title", "name"])
async def test_rubbish_is_a_failure_of_the_hook(hooks: Hooks, field: str) -> None:
    rubbish: dict[str, Any] = {field: 7}

    with pytest.raises(Denied, match=f"returned an invalid {field}: config_error"):
        await changed(hooks, "session_create", DATA["session_create"][field], **rubbish)


@pytest.mark.parametrize(
    ("field", "value", "taken"),
    [
        ("title", "a better one", "a better one"),
        ("tags", ["a", "b"], ("a", "b")),
        ("custom", {"team": "blue"}, {"team": "blue"}),
    ],
)
async def test_a_hook_may_change_the_name_of_a_session(
    hooks: Hooks, field: str, value: object, taken: object
) -> None:
    assert await changed(hooks, "session_create", None, **{field: value}) == taken


@pytest.mark.parametrize("field", [*DATA["permission"]])
async def test_a_hook_cannot_change_a_permission_request(hooks: Hooks, field: str) -> None:
    with pytest.raises(Denied, match=f"cannot change '{field}'"):
        await changed(hooks, "permission", DATA["permission"][field], **{field: "allow_once"})


@pytest.mark.parametrize("answer", [Deny("no"), Stop("no")])
async def test_a_request_for_permission_can_be_refused(hooks: Hooks, answer: Deny | Stop) -> None:
    hooks.add("permission", lambda _: answer)

    with pytest.raises(Denied, match="no"):
        await ask(hooks, "permission")
