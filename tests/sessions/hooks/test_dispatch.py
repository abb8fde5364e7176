"""What comes of the answers of hooks, one after the other."""
# ruff: noqa: ANN401 - nonsense has every type

from __future__ import annotations

import logging
import random
from collections.abc import Mapping
from typing import Any

import pytest
import trio

from actors.testing import explore
from supervisor.core.log_content import revealed_arguments
from supervisor.drivers.runtime import DriverRuntime
from supervisor.sessions.hooks import Change, Denied, Deny, HookEvent, Hooks, Stop
from tests.support.hook_calls import DATA, SESSION, TURN, ask, hang, saying


def shout(event: HookEvent) -> Change:
    return Change(text=event.data["text"].upper())


async def add_a_word(event: HookEvent) -> Change:
    await trio.sleep(1.0)
    return Change(text=event.data["text"] + " there")


# Going on ---------------------------------------------------------------------------------


async def test_data_returns_at_once_without_hooks(hooks: Hooks) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        assert await ask(hooks) == DATA["prompt_assembled"]

    assert not scope.cancelled_caught


async def test_hooks_that_return_none_change_nothing(hooks: Hooks) -> None:
    hooks.add("prompt_assembled", saying("well", []))

    assert await ask(hooks) == DATA["prompt_assembled"]


async def test_a_hook_event_has_point_session_turn_and_data(hooks: Hooks) -> None:
    events: list[HookEvent] = []
    hooks.add("tool_before", events.append)

    await ask(hooks, "tool_before")

    (event,) = events
    assert (event.point, event.session_id, event.turn_id) == ("tool_before", SESSION, TURN)
    assert event.data == DATA["tool_before"]


async def test_the_event_of_a_session_create_hook_has_no_session_id(hooks: Hooks) -> None:
    events: list[HookEvent] = []
    hooks.add("session_create", events.append)

    await hooks.ask("session_create", session_id=None, **DATA["session_create"])

    assert (events[0].session_id, events[0].turn_id) == (None, None)


async def test_the_repr_of_a_hook_event_hides_user_text(hooks: Hooks) -> None:
    events: list[HookEvent] = []
    hooks.add("prompt_assembled", events.append)

    await ask(hooks, text="my secret")

    assert "secret" not in repr(events[0])


async def test_hooks_are_called_in_the_order_of_their_registration(hooks: Hooks) -> None:
    said: list[str] = []
    for word in ("one", "two", "three"):
        hooks.add("prompt_assembled", saying(word, said))

    await ask(hooks)

    assert said == ["one", "two", "three"]


async def test_the_next_hook_gets_the_changes_of_the_previous_hook(hooks: Hooks) -> None:
    hooks.add("prompt_assembled", add_a_word)
    hooks.add("prompt_assembled", shout)

    assert (await ask(hooks))["text"] == "HELLO THERE"


async def test_mutating_a_hook_event_changes_nothing(hooks: Hooks) -> None:
    seen: list[object] = []

    def meddle(event: HookEvent) -> None:
        event.data["input"]["cmd"].append("-l")
        event.data["input"]["cwd"] = "/"

    hooks.add("tool_before", meddle)
    hooks.add("tool_before", lambda event: seen.append(event.data["input"]))

    assert (await ask(hooks, "tool_before"))["input"] == {"cmd": ["ls"]}
    assert seen == [{"cmd": ["ls"]}]


async def test_an_event_itself_cannot_be_changed(hooks: Hooks) -> None:
    def meddle(event: HookEvent) -> None:
        event.data["text"] = "mine"  # type: ignore[index]

    hooks.add("prompt_assembled", meddle, required=True)

    with pytest.raises(Denied, match="TypeError"):
        await ask(hooks)


async def test_a_hook_call_with_the_wrong_fields_fails_an_assertion(
    hooks: Hooks,
) -> None:
    hooks.add("turn_start", shout)

    with pytest.raises(AssertionError, match="input_id, text, source"):
        await hooks.ask("turn_start", session_id=SESSION, text="hello")


# Saying no --------------------------------------------------------------------------------


async def test_a_hook_that_denies_is_named_with_its_reason(hooks: Hooks) -> None:
    def reviewer(_: HookEvent) -> Deny:
        return Deny("not on a Friday")

    hooks.add("tool_before", reviewer)

    with pytest.raises(Denied) as denied:
        await ask(hooks, "tool_before")

    assert (denied.value.reason, denied.value.hook) == ("not on a Friday", "reviewer")
    assert not denied.value.stops


async def test_a_hook_may_stop_the_session(hooks: Hooks) -> None:
    hooks.add("tool_before", lambda _: Stop("enough"))

    with pytest.raises(Denied, match="enough") as denied:
        await ask(hooks, "tool_before")

    assert denied.value.stops


async def test_hooks_after_a_denial_are_not_called(hooks: Hooks) -> None:
    said: list[str] = []
    hooks.add("prompt_assembled", lambda _: Deny("no"))
    hooks.add("prompt_assembled", saying("me too", said))

    with pytest.raises(Denied):
        await ask(hooks)

    assert said == []


@pytest.mark.parametrize("reason", [None, "", "  ", 7, ValueError("why")])
@pytest.mark.parametrize("answer", [Deny, Stop])
async def test_a_no_without_a_good_reason_is_still_a_no(
    hooks: Hooks, reason: Any, answer: type[Deny | Stop]
) -> None:
    hooks.add("prompt_assembled", lambda _: answer(reason))

    with pytest.raises(Denied, match="no reason stated"):
        await ask(hooks)


async def test_a_reason_is_text_that_can_be_stored(hooks: Hooks) -> None:
    hooks.add("prompt_assembled", lambda _: Deny("a\ud800b" + "x" * 5000))

    with pytest.raises(Denied) as denied:
        await ask(hooks)

    assert denied.value.reason.startswith("a\ufffdbx")
    assert len(denied.value.reason) == 2000


# Failing ----------------------------------------------------------------------------------


class Proxy:
    """Lies about its class, as proxies do that have nothing behind them."""

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        raise RuntimeError("outside of any context")


async def _generator(_: HookEvent) -> Any:
    yield Deny("no")


def _raise(_: HookEvent) -> None:
    raise ValueError("no such luck\nthe token is 1234")


FAILURES: Mapping[str, tuple[Any, str]] = {
    "raises": (_raise, "raised ValueError: no such luck"),
    "hangs": (hang, "no answer within 5 s"),
    "says True": (lambda _: True, "answered with an object of type bool"),
    "says words": (lambda _: "my secret", "answered with an object of type str"),
    "forgets to call": (lambda _: Deny, "answered with an object of type type"),
    "gives a proxy": (lambda _: Proxy(), "raised RuntimeError: outside of any context"),
    "yields": (_generator, "answered with an object of type async_generator"),
    "changes what is fixed": (
        lambda _: Change(input_id="in_2"),
        "a hook of prompt_assembled cannot change 'input_id'",
    ),
    "changes what is not there": (
        lambda _: Change(colour="red"),
        "a hook of prompt_assembled cannot change 'colour'",
    ),
    "changes to what is nothing": (
        lambda _: Change(text=" "),
        "returned an invalid text: config_error",
    ),
    "changes to rubbish": (
        lambda _: Change(attachments="my secret"),
        "returned an invalid attachments: input_refused",
    ),
}


@pytest.mark.parametrize(("callback", "problem"), FAILURES.values(), ids=FAILURES)
async def test_a_failing_required_hook_denies_with_a_short_reason(
    hooks: Hooks, callback: Any, problem: str
) -> None:
    hook = hooks.add("prompt_assembled", callback, required=True)

    with pytest.raises(Denied) as denied:
        await ask(hooks)

    assert denied.value.reason == f"the required hook {hook.name} failed: {problem}"
    assert (denied.value.hook, denied.value.stops) == (hook.name, False)
    assert denied.value.__suppress_context__


@pytest.mark.parametrize(("callback", "problem"), FAILURES.values(), ids=FAILURES)
async def test_any_other_hook_that_fails_is_skipped_and_that_is_logged(
    hooks: Hooks, caplog: pytest.LogCaptureFixture, callback: Any, problem: str
) -> None:
    hook = hooks.add("prompt_assembled", callback)
    hooks.add("prompt_assembled", shout)

    assert (await ask(hooks))["text"] == "HELLO"

    (line,) = caplog.records
    assert (line.name, line.levelno) == ("supervisor", logging.WARNING)
    start = f"hook {hook.name} of prompt_assembled skipped for session s_1: "
    assert line.msg % revealed_arguments(line.args) == start + problem
    # The text of an exception may have words of the event, so only its class is logged.
    is_raised = problem.startswith("raised ")
    assert line.message == start + (problem.partition(":")[0] if is_raised else problem)


async def test_a_change_with_one_invalid_field_is_rejected_whole(hooks: Hooks) -> None:
    hooks.add("prompt_assembled", lambda _: Change(text="mine", input_id="in_2"))

    assert await ask(hooks) == DATA["prompt_assembled"]


# Once -------------------------------------------------------------------------------------


async def test_a_hook_for_once_is_asked_once(hooks: Hooks) -> None:
    said: list[str] = []
    hook = hooks.add("prompt_assembled", saying("once", said), once=True)

    await ask(hooks)
    await ask(hooks)

    assert said == ["once"]
    assert hook.is_removed
    assert not hooks.has("prompt_assembled")


@pytest.mark.parametrize(("callback", "problem"), FAILURES.values(), ids=FAILURES)
async def test_a_failed_once_hook_is_removed(hooks: Hooks, callback: Any, problem: str) -> None:
    hooks.add("prompt_assembled", callback, once=True)

    await ask(hooks)

    assert not hooks.has("prompt_assembled")


async def test_a_running_once_hook_is_not_called_concurrently(
    hooks: Hooks, nursery: trio.Nursery
) -> None:
    said: list[str] = []

    async def slow(_: HookEvent) -> None:
        said.append("once")
        await trio.sleep(1.0)

    hooks.add("prompt_assembled", slow, once=True)
    nursery.start_soon(ask, hooks)
    nursery.start_soon(ask, hooks)
    await ask(hooks)

    assert said == ["once"]


async def _ask_and_give_up_anywhere() -> None:
    said: list[str] = []
    async with trio.open_nursery() as nursery:
        hooks = Hooks(DriverRuntime(nursery))
        hooks.add("prompt_assembled", saying("once", said), once=True)
        async with trio.open_nursery() as askers:
            for _ in range(4):
                askers.start_soon(_ask_and_give_up, hooks)
        await ask(hooks)
        nursery.cancel_scope.cancel()
    assert said == ["once"]


async def _ask_and_give_up(hooks: Hooks) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, hooks)
        for _ in range(random.randrange(8)):
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


def test_a_once_hook_is_called_exactly_once_despite_cancelled_callers() -> None:
    found = explore(_ask_and_give_up_anywhere, seeds=range(150), max_failures=1)

    assert found == []


# Coming and going meanwhile ---------------------------------------------------------------


async def test_a_hook_removed_during_a_call_is_not_called(hooks: Hooks) -> None:
    said: list[str] = []
    hooks.add("prompt_assembled", lambda _: second.remove())
    second = hooks.add("prompt_assembled", saying("second", said))
    hooks.add("prompt_assembled", saying("third", said))

    await ask(hooks)

    assert said == ["third"]


async def test_a_hook_that_was_added_meanwhile_is_asked_the_next_time(hooks: Hooks) -> None:
    said: list[str] = []

    def add_another(_: HookEvent) -> None:
        hooks.add("prompt_assembled", saying("new", said))

    hooks.add("prompt_assembled", add_another, once=True)

    await ask(hooks)
    assert said == []

    await ask(hooks)
    assert said == ["new"]


async def test_a_hook_may_remove_itself_and_its_answer_counts(hooks: Hooks) -> None:
    def last(_: HookEvent) -> Change:
        hook.remove()
        return Change(text="bye")

    hook = hooks.add("prompt_assembled", last)

    assert (await ask(hooks))["text"] == "bye"
    assert (await ask(hooks))["text"] == "hello"
