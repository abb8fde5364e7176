"""Observers: told in order, never waited for."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.drivers.runtime import DriverRuntime
from supervisor.sessions.hooks import MAX_WAITING, Deny, HookEvent, Hooks
from tests.support.hook_calls import SESSION, TURN, hang, notify, saying, shielded


async def test_an_observer_gets_point_session_and_data(told: Hooks) -> None:
    events: list[HookEvent] = []
    told.add("turn_end", events.append)

    notify(told, "done")
    assert events == []
    await settle()

    (event,) = events
    assert (event.point, event.session_id, event.turn_id) == ("turn_end", SESSION, TURN)
    assert event.data["text"] == "done"


async def test_slow_observers_get_events_in_order(told: Hooks) -> None:
    texts: list[str] = []

    async def slow(event: HookEvent) -> None:
        await trio.sleep(3.0 - len(texts))
        texts.append(event.data["text"])

    told.add("turn_end", slow)
    for text in ("one", "two", "three"):
        notify(told, text)
    await told.wait_delivered()

    assert texts == ["one", "two", "three"]


async def test_nothing_is_queued_without_observers(hooks: Hooks) -> None:
    notify(hooks)
    hooks.add("tool_after", hang)
    notify(hooks)

    assert not hooks._observers._queue


async def test_an_observer_gets_no_events_before_its_registration(
    hooks: Hooks, runtime: DriverRuntime
) -> None:
    first: list[HookEvent] = []
    second: list[HookEvent] = []
    hooks.add("turn_end", first.append)
    notify(hooks)
    hooks.add("turn_end", second.append)

    runtime.start_soon(hooks.run)
    await settle()

    assert (len(first), len(second)) == (1, 0)


async def test_a_removed_observer_gets_no_queued_events(
    hooks: Hooks, runtime: DriverRuntime
) -> None:
    said: list[str] = []
    hook = hooks.add("turn_end", saying("told", said))
    notify(hooks)
    hook.remove()

    runtime.start_soon(hooks.run)
    await settle()

    assert said == []


async def test_a_once_observer_is_called_once(told: Hooks) -> None:
    said: list[str] = []
    told.add("turn_end", saying("told", said), once=True)

    notify(told)
    notify(told)
    await settle()

    assert said == ["told"]
    assert not told.observes("turn_end")


async def test_the_return_value_of_an_observer_is_ignored(
    told: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    told.add("turn_end", lambda _: Deny("no"))
    told.add("turn_end", saying("told", said))

    notify(told)
    await settle()

    assert said == ["told"]
    assert caplog.messages == []


async def test_an_observer_that_raises_is_logged_and_other_observers_run(
    told: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []

    def stumble(_: HookEvent) -> None:
        raise ValueError("stumbled\nover my secret")

    told.add("turn_end", stumble)
    told.add("turn_end", saying("told", said))

    notify(told)
    notify(told)
    await settle()

    assert said == ["told", "told"]
    line = "observer stumble of turn_end failed for session s_1: raised ValueError"
    assert caplog.messages == [line, line]


@pytest.mark.parametrize("is_shielded", [False, True])
async def test_a_hanging_observer_delays_other_observers_up_to_its_deadline(
    told: Hooks, runtime: DriverRuntime, *, is_shielded: bool
) -> None:
    times: list[float] = []
    told.add("turn_end", shielded(runtime) if is_shielded else hang, deadline_seconds=2.0)
    told.add("tool_after", lambda _: times.append(trio.current_time()))

    notify(told)
    notify(told, point="tool_after")
    await told.wait_delivered()

    assert times == [2.0]
    assert len(runtime.zombies) == is_shielded


async def test_notifying_takes_no_time_for_any_observer(told: Hooks) -> None:
    told.add("turn_end", hang)

    for _ in range(10):
        notify(told)
        await settle()

    assert trio.current_time() == 0.0


async def test_the_oldest_queued_events_are_dropped_and_counted(
    hooks: Hooks, runtime: DriverRuntime
) -> None:
    texts: list[str] = []
    hooks.add("turn_end", lambda event: texts.append(event.data["text"]))
    for number in range(MAX_WAITING + 3):
        notify(hooks, str(number))
    assert hooks.dropped == 3

    runtime.start_soon(hooks.run)
    await hooks.wait_delivered()

    assert texts == [str(number) for number in range(3, MAX_WAITING + 3)]


async def test_that_events_were_dropped_is_logged_once_until_all_is_delivered(
    told: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    told.add("turn_end", saying("told", []))

    for burst in (1, 2):
        for _ in range(MAX_WAITING + 3):
            notify(told)
        await told.wait_delivered()
        assert told.dropped == 3 * burst

    line = "observer queue is full at 1000, dropping the oldest"
    assert caplog.messages == [line, line]


async def test_an_event_with_unexpected_fields_is_logged_and_delivered(
    told: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    told.add("turn_end", saying("told", said))

    told.notify("turn_end", session_id=SESSION, text="done")
    await settle()

    assert said == ["told"]
    assert caplog.messages == ["event of turn_end does not have the fields of its point: ['text']"]


async def test_wait_delivered_returns_at_once_when_nothing_is_queued(told: Hooks) -> None:
    told.add("turn_end", hang)
    await told.wait_delivered()
    notify(told)
    await told.wait_delivered()
    assert trio.current_time() == 5.0
    await told.wait_delivered()


async def test_wait_delivered_ends_when_the_dispatcher_ends(
    hooks: Hooks, nursery: trio.Nursery
) -> None:
    scope = trio.CancelScope()

    async def run() -> None:
        with scope:
            await hooks.run()

    hooks.add("turn_end", hang)
    nursery.start_soon(run)
    notify(hooks)
    await settle()
    scope.cancel()

    await hooks.wait_delivered()
