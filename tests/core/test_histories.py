"""Long random histories, and the invariants after every step."""

import functools
import json
from collections import Counter
from collections.abc import Callable

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.effects import StartTurn
from supervisor.core.facts import Fact
from supervisor.core.fold import fold
from supervisor.core.receipts import InterruptReport, Receipt
from supervisor.core.records import DECIDED
from supervisor.core.state import Phase, SessionState
from supervisor.core.step import Accepted, Refused, Step
from supervisor.core.table import decide
from tests.support.event_histories import history

SEEDS = range(400)
LENGTH = 100


@functools.cache
def steps(seed: int) -> list[tuple[SessionState, ev.Event, Step]]:
    return [(session, event, decide(session, event)) for session, event in history(seed, LENGTH)]


def everywhere(check: Callable[[int], None]) -> Callable[[], None]:
    """Turn a check that must hold in every history into a test that names the failing seed."""

    @functools.wraps(check)
    def test() -> None:
        for seed in SEEDS:
            try:
                check(seed)
            except AssertionError as problem:
                problem.add_note(f"in the history of seed {seed}")
                raise

    del test.__wrapped__  # pytest would ask for a fixture `seed`
    return test


def facts_of(seed: int) -> list[Fact]:
    return [fact for _, _, step in steps(seed) for fact in step.facts]


def through_json(fact: Fact) -> Fact:
    return fact.changed(body=json.loads(json.dumps(fact.body)))


@everywhere
def test_folding_the_records_gives_the_row(seed: int) -> None:
    replayed: SessionState | None = None
    for session, _, step in steps(seed):
        replayed = session if replayed is None else replayed
        for fact in step.facts:
            replayed = fold(replayed, through_json(fact))
        assert replayed == step.state


@everywhere
def test_every_accepted_input_is_settled_once_or_still_waits(seed: int) -> None:
    accepted: list[str] = []
    settled: list[str] = []
    last: SessionState | None = None
    for _, _, step in steps(seed):
        last = step.state
        accepted += [f.body["input_id"] for f in step.facts if f.kind == "input_accepted"]
        settled += [f.body["input_id"] for f in step.facts if f.kind == "input_settled"]
        waiting = [waiting.id for waiting in step.state.inputs]
        assert Counter(accepted) == Counter(settled) + Counter(waiting)
    assert last is not None
    assert max(Counter(accepted).values(), default=1) == 1


@everywhere
def test_a_refused_request_changes_nothing(seed: int) -> None:
    for session, _, step in steps(seed):
        if isinstance(step.reply, Refused):
            assert step.state == session
            assert step.effects == ()
            assert step.reply.error.hint


CALLERS = tuple(kind for kind in ev.EVENTS if issubclass(kind, ev.RequestEvent))


@everywhere
def test_every_request_gets_one_reply_and_other_events_none(seed: int) -> None:
    for _, event, step in steps(seed):
        assert (step.reply is not None) == isinstance(event, CALLERS)


@everywhere
def test_a_turn_is_open_exactly_when_the_phase_says_so(seed: int) -> None:
    for _, _, step in steps(seed):
        session = step.state
        match session.phase:
            case Phase.RUNNING:
                assert session.turn is not None
                assert session.turn.step is None
            case Phase.INTERRUPTING:
                assert session.turn is not None
                assert session.turn.step is not None
            case Phase.STOPPING:
                assert session.turn is None or session.turn.step is not None
                assert session.stopping is not None
            case _:
                assert session.turn is None


@everywhere
def test_turns_start_and_end_alternately(seed: int) -> None:
    open_turn: str | None = None
    for fact in facts_of(seed):
        if fact.kind == "turn_started":
            assert open_turn is None
            open_turn = fact.body["turn_id"]
        elif fact.kind == "turn_ended":
            assert open_turn == fact.body["turn_id"]
            open_turn = None


@everywhere
def test_an_input_starts_a_turn_only_if_no_earlier_one_waits(seed: int) -> None:
    for session, _, step in steps(seed):
        for effect in step.effects:
            if isinstance(effect, StartTurn):
                began = next(f for f in step.facts if f.kind == "turn_started")
                assert began.body["input_id"] == effect.input
                started = session.find_input(effect.input)
                left = [w for w in step.state.inputs if w.generation <= session.generation]
                assert started is None or all(started.order <= w.order for w in left)


@everywhere
def test_waiting_inputs_are_ordered_bounded_and_of_this_generation(seed: int) -> None:
    for _, _, step in steps(seed):
        session = step.state
        orders = [waiting.order for waiting in session.inputs]
        assert orders == sorted(set(orders))
        of_children = sum(waiting.source == "child" for waiting in session.inputs)
        assert of_children <= 1
        assert len(session.inputs) - of_children <= session.terms.queue_cap
        assert all(waiting.generation == session.generation for waiting in session.inputs)


@everywhere
def test_an_idle_session_without_obstacles_has_no_waiting_inputs(seed: int) -> None:
    for before, event, step in steps(seed):
        session = step.state
        hindered = event.tree_view.turn_slots_full or event.tree_view.exhausted_budget is not None
        free = not hindered and session.phase is not before.phase
        if session.phase is Phase.IDLE and session.zombie is None and free:
            assert session.inputs == ()


@everywhere
def test_counters_never_decrease(seed: int) -> None:
    for session, _, step in steps(seed):
        for name in ("accepted", "generation", "epoch", "chapter", "turns", "restarts"):
            assert getattr(session, name) <= getattr(step.state, name)


@everywhere
def test_counts_equal_the_counts_of_records(seed: int) -> None:
    last: SessionState | None = None
    seen: Counter[str] = Counter()
    for _, _, step in steps(seed):
        seen.update(fact.kind for fact in step.facts)
        last = step.state
    assert last is not None
    assert last.turns == seen["turn_started"]
    assert last.tool_calls == seen["tool_call"]
    in_turns = sum(f.body["messages"] for f in facts_of(seed) if f.kind == "turn_ended")
    assert last.messages == seen["user_text"] + seen["agent_text"] + in_turns
    assert last.restarts == seen["agent_restarting"]
    assert last.usage.input_tokens == 10 * seen["usage"]


@everywhere
def test_an_event_of_another_turn_changes_nothing(seed: int) -> None:
    about_turns = (
        agent_events.TurnEnded,
        agent_events.CallStarted,
        agent_events.CallEnded,
        agent_events.CallInterruptElapsed,
        agent_events.UsageReported,
        agent_events.SteeringTaken,
    )
    for session, event, step in steps(seed):
        if isinstance(event, (*about_turns, agent_events.LadderElapsed)) and (
            session.turn is None or session.turn.id != event.turn
        ):
            assert step == Step(session)


def is_interrupt_without_target(session: SessionState, event: ev.Event) -> bool:
    """Return True for an interrupt without a turn, unless it replaces whatever runs."""
    if not isinstance(event, ev.InterruptRequested) or session.turn is not None:
        return False
    return event.replace_with is None or event.turn is not None


@everywhere
def test_a_replacement_without_a_turn_is_accepted_or_refused(seed: int) -> None:
    for session, event, step in steps(seed):
        if (
            isinstance(event, ev.InterruptRequested)
            and session.turn is None
            and not is_interrupt_without_target(session, event)
        ):
            if isinstance(step.reply, Refused):
                assert step.state == session
            else:
                assert isinstance(step.reply, Accepted)
                assert isinstance(step.reply.value, InterruptReport)
                assert step.reply.value.input_id == event.replacement
                assert step.state.accepted == session.accepted + 1


@everywhere
def test_an_interrupt_without_target_reports_no_match_and_changes_nothing(seed: int) -> None:
    for session, event, step in steps(seed):
        if is_interrupt_without_target(session, event):
            assert isinstance(event, ev.InterruptRequested)
            if event.whole and event.queued == "cancel" and session.phase is not Phase.STOPPING:
                assert step.state.inputs == ()
            if step.state != session:
                assert session.inputs
                assert {fact.kind for fact in step.facts} == {"generation_raised", "input_settled"}
            assert step.state == session or (event.whole and event.queued == "cancel")
            assert isinstance(step.reply, Accepted)
            assert isinstance(step.reply.value, InterruptReport)
            assert step.reply.value.matched == 0


@everywhere
def test_a_requested_stop_is_not_a_crash(seed: int) -> None:
    for session, _, step in steps(seed):
        if session.phase is Phase.STOPPING and step.state.phase is Phase.STOPPED:
            assert session.stopping is not None
            crashed = session.stopping.cause == "process_exited"
            assert (step.state.stop_reason == "agent_crashed") == crashed
            assert step.state.restarts == session.restarts


@everywhere
def test_a_receipt_has_the_position_of_its_input(seed: int) -> None:
    for _, event, step in steps(seed):
        if isinstance(step.reply, Accepted) and isinstance(step.reply.value, Receipt):
            receipt, session = step.reply.value, step.state
            waiting = session.find_input(receipt.input_id)
            if receipt.status == "started":
                assert session.turn is not None
                assert session.turn.input_id == receipt.input_id
                assert session.turn.id == receipt.turn_id == event.fresh
            else:
                assert waiting is not None
                assert session.inputs[receipt.position or 0] == waiting


def test_the_histories_write_every_kind_of_record() -> None:
    written = {fact.kind for seed in SEEDS for fact in facts_of(seed)}

    assert written == set(DECIDED) - {"session_created"}
