"""Adding hooks and taking them away: what is refused, and with which words."""
# ruff: noqa: ANN401 - rubbish has every type

from __future__ import annotations

import functools
import math
from typing import Any

import pytest

from supervisor import ConfigError
from supervisor.drivers.runtime import DriverRuntime
from supervisor.sessions.hooks import POINTS, HookEvent, Hooks, PointName
from tests.support.hook_calls import ask, saying


async def callback(_: HookEvent) -> None: ...


@pytest.mark.parametrize("point", [*POINTS])
async def test_a_hook_may_be_added_at_every_point(hooks: Hooks, point: PointName) -> None:
    hook = hooks.add(point, callback)

    assert (hook.point, hook.name, hook.once, hook.required) == (point, "callback", False, False)


@pytest.mark.parametrize("point", ["turn_begin", "", None, 7, ["turn_end"]])
async def test_an_unknown_point_is_refused_with_the_list_of_points(
    hooks: Hooks, point: Any
) -> None:
    with pytest.raises(ConfigError) as refused:
        hooks.add(point, callback)

    assert all(name in refused.value.hint for name in POINTS)


@pytest.mark.parametrize("rubbish", [None, "callback", 7, lambda: None, lambda a, b: None])
async def test_a_callback_that_cannot_take_an_event_is_refused(hooks: Hooks, rubbish: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        hooks.add("turn_end", rubbish)

    assert "one argument" in refused.value.hint


class Obliging:
    def __call__(self, event: HookEvent) -> None: ...

    async def method(self, event: HookEvent) -> None: ...


@pytest.mark.parametrize(
    ("good", "name"),
    [
        (Obliging(), "Obliging"),
        (Obliging().method, "method"),
        (functools.partial(Obliging.method, Obliging()), "method"),
        ([].append, "append"),
        (print, "print"),
        (lambda event, also=None: None, "<lambda>"),
    ],
)
async def test_every_kind_of_callable_is_a_hook_with_a_name(
    hooks: Hooks, good: Any, name: str
) -> None:
    assert hooks.add("turn_start", good).name == name


@pytest.mark.parametrize(
    "seconds", [0, -1.0, math.inf, math.nan, "5", True, 10**400], ids=lambda value: str(value)[:5]
)
async def test_a_deadline_is_a_finite_number_above_0(hooks: Hooks, seconds: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        hooks.add("turn_start", callback, deadline_seconds=seconds)

    assert "above 0" in refused.value.hint


async def test_the_default_deadline_is_validated(runtime: DriverRuntime) -> None:
    with pytest.raises(ConfigError):
        Hooks(runtime, deadline_seconds=0)


async def test_a_hook_has_the_default_deadline_unless_one_is_set(runtime: DriverRuntime) -> None:
    hooks = Hooks(runtime, deadline_seconds=3)

    assert hooks.add("turn_start", callback).deadline_seconds == 3.0
    assert hooks.add("turn_start", callback, deadline_seconds=0.5).deadline_seconds == 0.5


async def test_an_observer_cannot_be_required(hooks: Hooks) -> None:
    with pytest.raises(ConfigError) as refused:
        hooks.add("turn_end", callback, required=True)

    assert "observers cannot deny" in str(refused.value)
    assert "use a blocking point" in refused.value.hint


@pytest.mark.parametrize("word", ["once", "required"])
async def test_a_switch_is_on_or_off(hooks: Hooks, word: str) -> None:
    options: dict[str, Any] = {word: "no"}

    with pytest.raises(ConfigError, match=word):
        hooks.add("turn_start", callback, **options)


async def test_a_refused_hook_is_not_added(hooks: Hooks) -> None:
    with pytest.raises(ConfigError):
        hooks.add("turn_start", callback, deadline_seconds=-1)

    assert not hooks.has("turn_start")


async def test_hooks_report_whether_a_point_has_callbacks(hooks: Hooks) -> None:
    assert not hooks.has("turn_start")
    assert not hooks.observes("turn_end")

    hooks.add("turn_start", callback)
    hooks.add("turn_end", callback)

    assert hooks.has("turn_start")
    assert hooks.observes("turn_end")
    assert not hooks.has("tool_before")


async def test_a_hook_may_be_removed_twice(hooks: Hooks) -> None:
    said: list[str] = []
    first = hooks.add("prompt_assembled", saying("first", said))
    hooks.add("prompt_assembled", saying("second", said))

    first.remove()
    first.remove()
    await ask(hooks)

    assert said == ["second"]
    assert "removed" in repr(first)


async def test_the_same_callback_added_twice_is_two_hooks(hooks: Hooks) -> None:
    said: list[str] = []
    callback = saying("again", said)
    first = hooks.add("prompt_assembled", callback)
    hooks.add("prompt_assembled", callback)

    first.remove()
    await ask(hooks)

    assert said == ["again"]
