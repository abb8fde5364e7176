"""Observers: told in order, never waited for."""

from __future__ import annotations

import pytest
import trio

from actors.testing import settle
from supervisor.drivers.port import Workshop
from supervisor.sessions.hooks import MAX_WAITING, Deny, HookEvent, Hooks
from tests.sessions.hooks.asking import SESSION, TURN, deaf, hang, notify, saying


async def test_an_observer_is_told_what_happened_and_where(told: Hooks) -> None:
    events: list[HookEvent] = []
    told.add("turn_end", events.append)

    notify(told, "done")
    assert events == []
    await settle()

    (event,) = events
    assert (event.point, event.session_id, event.turn_id) == ("turn_end", SESSION, TURN)
    assert event.data["text"] == "done"


async def test_observers_see_events_in_order_also_when_they_take_their_time(told: Hooks) -> None:
    texts: list[str] = []

    async def slow(event: HookEvent) -> None:
        await trio.sleep(3.0 - len(texts))
        texts.append(event.data["text"])

    told.add("turn_end", slow)
    for text in ("one", "two", "three"):
        notify(told, text)
    await told.wait_delivered()

    assert texts == ["one", "two", "three"]


async def test_where_nobody_observes_nothing_is_kept(hooks: Hooks) -> None:
    notify(hooks)
    hooks.add("tool_after", hang)
    notify(hooks)

    assert not hooks._observers._waiting


async def test_an_observer_is_not_told_what_was_before_it(hooks: Hooks, workshop: Workshop) -> None:
    first: list[HookEvent] = []
    second: list[HookEvent] = []
    hooks.add("turn_end", first.append)
    notify(hooks)
    hooks.add("turn_end", second.append)

    workshop.start_soon(hooks.run)
    await settle()

    assert (len(first), len(second)) == (1, 0)


async def test_an_observer_that_was_removed_is_not_told_what_waits(
    hooks: Hooks, workshop: Workshop
) -> None:
    said: list[str] = []
    hook = hooks.add("turn_end", saying("told", said))
    notify(hooks)
    hook.remove()

    workshop.start_soon(hooks.run)
    await settle()

    assert said == []


async def test_an_observer_for_once_is_told_once(told: Hooks) -> None:
    said: list[str] = []
    told.add("turn_end", saying("told", said), once=True)

    notify(told)
    notify(told)
    await settle()

    assert said == ["told"]
    assert not told.observes("turn_end")


async def test_what_an_observer_answers_changes_nothing(
    told: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    told.add("turn_end", lambda _: Deny("no"))
    told.add("turn_end", saying("told", said))

    notify(told)
    await settle()

    assert said == ["told"]
    assert caplog.messages == []


async def test_an_observer_that_raises_is_logged_and_the_others_are_told(
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
    line = "observer stumble of turn_end failed for session s_1: it raised ValueError: stumbled"
    assert caplog.messages == [line, line]


@pytest.mark.parametrize("is_deaf", [False, True])
async def test_an_observer_that_hangs_delays_the_others_up_to_its_deadline(
    told: Hooks, workshop: Workshop, *, is_deaf: bool
) -> None:
    times: list[float] = []
    told.add("turn_end", deaf(workshop) if is_deaf else hang, deadline_seconds=2.0)
    told.add("tool_after", lambda _: times.append(trio.current_time()))

    notify(told)
    notify(told, point="tool_after")
    await told.wait_delivered()

    assert times == [2.0]
    assert len(workshop.zombies) == is_deaf


async def test_telling_costs_no_time_whatever_observers_do(told: Hooks) -> None:
    told.add("turn_end", hang)

    for _ in range(10):
        notify(told)
        await settle()

    assert trio.current_time() == 0.0


async def test_when_too_many_wait_the_oldest_go_and_are_counted(
    hooks: Hooks, workshop: Workshop
) -> None:
    texts: list[str] = []
    hooks.add("turn_end", lambda event: texts.append(event.data["text"]))
    for number in range(MAX_WAITING + 3):
        notify(hooks, str(number))
    assert hooks.dropped == 3

    workshop.start_soon(hooks.run)
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

    line = "observers are too slow: of 1000 events the oldest are dropped"
    assert caplog.messages == [line, line]


async def test_an_event_with_other_fields_than_its_point_is_logged_and_told_all_the_same(
    told: Hooks, caplog: pytest.LogCaptureFixture
) -> None:
    said: list[str] = []
    told.add("turn_end", saying("told", said))

    told.notify("turn_end", session_id=SESSION, text="done")
    await settle()

    assert said == ["told"]
    assert caplog.messages == ["an event of turn_end has other fields than its point: ['text']"]


async def test_where_all_is_delivered_nobody_waits_for_it(told: Hooks) -> None:
    told.add("turn_end", hang)
    await told.wait_delivered()
    notify(told)
    await told.wait_delivered()
    assert trio.current_time() == 5.0
    await told.wait_delivered()


async def test_whoever_waits_for_delivery_is_not_left_waiting_when_it_ends(
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
