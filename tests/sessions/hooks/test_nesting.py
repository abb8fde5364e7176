"""Hooks that lead to hooks: that ends somewhere."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.drivers.runtime import DriverRuntime
from supervisor.sessions.hooks import MAX_NESTING, Denied, HookEvent, Hooks
from supervisor.sessions.hooks.hook_run import hook_path
from tests.support.hook_calls import ask, notify, saying


async def test_hooks_that_lead_to_hooks_are_denied_beyond_a_depth(hooks: Hooks) -> None:
    runs: list[str] = []
    reasons: list[str] = []

    async def echo(_: HookEvent) -> None:
        runs.append("run")
        try:
            await ask(hooks)
        except Denied as denied:
            reasons.append(f"{denied.hook}: {denied.reason}")

    hooks.add("prompt_assembled", echo)
    await ask(hooks)

    assert len(runs) == MAX_NESTING
    assert reasons == ["echo: hooks are nested more than 4 deep: echo > echo > echo > echo"]


async def test_nesting_depth_is_ignored_without_hooks(hooks: Hooks) -> None:
    answers: list[object] = []

    async def deeper(event: HookEvent) -> None:
        depth = event.data["text"]
        if len(depth) < MAX_NESTING:
            await ask(hooks, text=depth + "x")
        else:
            answers.append((await ask(hooks, "turn_start"))["text"])

    hooks.add("prompt_assembled", deeper, required=True)
    await ask(hooks, text="x")

    assert answers == ["hello"]


async def test_consecutive_hooks_are_not_nested(hooks: Hooks) -> None:
    said: list[str] = []
    hooks.add("prompt_assembled", saying("asked", said))

    for _ in range(MAX_NESTING + 2):
        await ask(hooks)

    assert len(said) == MAX_NESTING + 2


async def test_a_task_that_outlives_its_hook_is_no_longer_nested_in_it(
    hooks: Hooks, nursery: trio.Nursery
) -> None:
    """As a session does which a hook has made, whose hook makes the next one, and so on."""
    generations: list[int] = []

    async def life(number: int) -> None:
        await trio.sleep(1.0)
        await ask(hooks, text=str(number))

    def beget(event: HookEvent) -> None:
        number = int(event.data["text"])
        generations.append(number)
        if number < 3 * MAX_NESTING:
            nursery.start_soon(life, number + 1)

    hooks.add("prompt_assembled", beget, required=True)
    await ask(hooks, text="1")
    await trio.sleep(100.0)

    assert generations == list(range(1, 3 * MAX_NESTING + 1))


async def test_a_task_of_an_inner_hook_is_nested_in_the_outer(
    hooks: Hooks, nursery: trio.Nursery
) -> None:
    paths: list[tuple[str, ...]] = []

    async def outlive() -> None:
        for _ in range(3):
            paths.append(hook_path())
            await trio.sleep(1.5)

    async def inner(_: HookEvent) -> None:
        nursery.start_soon(outlive)
        await trio.sleep(1.0)

    async def outer(_: HookEvent) -> None:
        await ask(hooks, "turn_start")
        await trio.sleep(1.0)

    hooks.add("prompt_assembled", outer)
    hooks.add("turn_start", inner)
    await ask(hooks)
    await trio.sleep(10.0)

    assert paths == [("outer", "inner"), ("outer",), ()]


async def test_observers_that_cause_notifications_are_bounded_in_depth(
    told: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[HookEvent] = []

    def echo(event: HookEvent) -> None:
        seen.append(event)
        notify(told)

    told.add("turn_end", echo)
    notify(told)
    await settle()

    assert len(seen) == MAX_NESTING
    (line,) = caplog.messages
    assert line.startswith("observers of turn_end not notified: hooks are nested")


async def test_observers_count_the_hooks_that_caused_the_event(
    told: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []

    async def deeper(event: HookEvent) -> None:
        notify(told)
        if len(event.data["text"]) < MAX_NESTING:
            await ask(told, text=event.data["text"] + "x")

    told.add("turn_end", saying("told", said))
    told.add("prompt_assembled", deeper)
    await ask(told, text="x")
    await settle()

    assert len(said) == MAX_NESTING - 1
    assert len(caplog.messages) == 1


async def test_hooks_of_two_supervisors_are_still_hooks_inside_hooks(
    runtime: DriverRuntime,
) -> None:
    one, other = Hooks(runtime), Hooks(runtime)
    depths: list[int] = []

    async def pass_on(_: HookEvent) -> None:
        depths.append(len(depths))
        await ask(other if len(depths) % 2 else one)

    one.add("prompt_assembled", pass_on, required=True)
    other.add("prompt_assembled", pass_on)

    await ask(one)

    assert len(depths) == MAX_NESTING
