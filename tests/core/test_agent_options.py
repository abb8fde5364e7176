"""Options of an agent: what it offers, what a session wants, and what is refused."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from supervisor.core import agent_events
from supervisor.core import events as ev
from supervisor.core.agent_options import (
    MAX_OPTIONS,
    AgentOption,
    OptionValue,
    check_agent_options,
    find_option,
    fitting_value,
    offer_hint,
    requested_options,
)
from supervisor.core.creation import SessionSpec, create, spec_like
from supervisor.core.effects import SetOptions, StartTurn
from supervisor.core.errors import ConfigError, InvalidOverride
from supervisor.core.facts import Fact
from supervisor.core.fold import fold, initial_state
from supervisor.core.ids import SessionId
from supervisor.core.info import make_info
from supervisor.core.limits import Limits
from supervisor.core.state import Agent, Capabilities, Phase
from supervisor.core.step import Accepted
from supervisor.store.codec import decode, encode
from tests.support.core_session import CoreSession

MODEL = AgentOption(
    id="llm", name="Model", category="model", current="small", values=("small", "large")
)
BRIEF = AgentOption(id="brief", name="Brief", kind="boolean", current=False)
EFFORT = AgentOption(id="effort", name="Effort", current="low", values=("low", "high"))
OFFERED = (MODEL, BRIEF, EFFORT)
AGENT = Agent(Capabilities(), session_id="theirs")


def attached(*offered: AgentOption, wanted: dict[str, Any] | None = None) -> CoreSession:
    """Return a session whose agent offers these options; `wanted` was set before it started."""
    play = CoreSession()
    if wanted is not None:
        play.tell(ev.DetailsChanged, options=wanted)
    play.tell(agent_events.AgentAttached, agent=AGENT, options=offered)
    return play


def bodies(play: CoreSession, kind: str) -> list[Any]:
    """Return the bodies of that kind in the last step."""
    return [fact.body for fact in play.last.facts if fact.kind == kind]


# Names and values ------------------------------------------------------------------------


def test_a_short_name_means_the_option_of_its_category() -> None:
    decoy = attrs.evolve(EFFORT, id="model")

    assert find_option((decoy, MODEL), "model") == MODEL
    assert find_option((decoy, MODEL), "llm") == MODEL


def test_a_short_name_without_its_category_is_an_id() -> None:
    assert find_option(OFFERED, "effort") == EFFORT
    assert find_option(OFFERED, "mode") is None


@pytest.mark.parametrize(
    ("option", "given", "taken"),
    [
        (MODEL, "large", "large"),
        (BRIEF, True, True),
        (BRIEF, "true", True),
        (BRIEF, "false", False),
        (attrs.evolve(MODEL, values=("true", "false")), True, "true"),
        (attrs.evolve(MODEL, has_more=True), "unlisted", "unlisted"),
    ],
)
def test_a_value_is_converted_to_the_kind_of_its_option(
    option: AgentOption,
    given: OptionValue,
    taken: OptionValue,
) -> None:
    assert fitting_value(option, given) == taken
    assert type(fitting_value(option, given)) is type(taken)


@pytest.mark.parametrize(("option", "value"), [(MODEL, "huge"), (MODEL, True), (BRIEF, "maybe")])
def test_a_value_that_is_not_offered_is_refused_with_those_that_are(
    option: AgentOption,
    value: OptionValue,
) -> None:
    with pytest.raises(InvalidOverride) as refused:
        fitting_value(option, value)

    assert refused.value.code == "invalid_override"
    assert refused.value.hint == f"choose one of: {option.allowed}"


def test_a_hint_lists_the_offer_within_bounds() -> None:
    many = [attrs.evolve(MODEL, id=f"o{number}", values=("a",)) for number in range(30)]

    assert offer_hint(()) == "it offers no options; leave it out"
    assert offer_hint([BRIEF]) == "it offers: brief (true, false)"
    assert offer_hint(many).endswith("o19 (a), ...")


@pytest.mark.parametrize(
    "options",
    [
        ["model"],
        {"model": 5},
        {5: "model"},
        {"": "x"},
        {"model": " "},
        {"model": "a\nb"},
        {f"option {number}": "x" for number in range(MAX_OPTIONS + 1)},
        {f"option {number}": "x" * 1000 for number in range(10)},
    ],
)
def test_options_of_a_wrong_shape_or_size_are_invalid(options: object) -> None:
    with pytest.raises(ConfigError):
        check_agent_options(options)


def test_model_and_effort_are_added_to_the_options() -> None:
    assert requested_options(None, model=None, effort=None) is None
    assert requested_options({"brief": True}, model="large", effort=None) == {
        "brief": True,
        "model": "large",
    }


# Offers ----------------------------------------------------------------------------------


def test_the_offer_of_an_attached_agent_is_recorded_and_in_the_info() -> None:
    play = attached(*OFFERED)

    assert [body["by"] for body in bodies(play, "options_changed")] == ["agent"]
    assert make_info(play.session, last_seq=1).offered_options == OFFERED


def test_an_agent_without_options_adds_no_record() -> None:
    assert "options_changed" not in attached().kinds


def test_the_same_offer_again_adds_no_record() -> None:
    play = attached(*OFFERED)

    play.tell(agent_events.AgentChoicesReported, choices={}, options=OFFERED)

    assert bodies(play, "options_changed") == []


def test_a_value_that_the_agent_changes_is_recorded_alone() -> None:
    play = attached(*OFFERED)

    now = (attrs.evolve(MODEL, current="large"), BRIEF, EFFORT)
    play.tell(agent_events.AgentChoicesReported, choices={}, options=now)

    assert bodies(play, "options_changed") == [{"by": "agent", "current": {"llm": "large"}}]
    assert play.session.offered == now


def test_an_agent_that_offers_less_than_before_is_recorded() -> None:
    play = attached(*OFFERED)

    play.tell(agent_events.AgentChoicesReported, choices={}, options=())

    assert play.session.offered == ()
    assert [body["offered"] for body in bodies(play, "options_changed")] == [[]]


# Wishes ----------------------------------------------------------------------------------


def test_a_wish_is_stored_by_id_and_set() -> None:
    play = attached(*OFFERED)

    play.tell(ev.DetailsChanged, options={"model": "large", "brief": "true"}, by="parent")

    assert play.session.options == {"llm": "large", "brief": True}
    assert play.last.effects == (SetOptions({"llm": "large", "brief": True}),)
    [body] = bodies(play, "options_changed")
    assert (body["by"], body["options"]) == ("parent", {"llm": "large", "brief": True})


def test_an_id_takes_precedence_over_the_short_name_for_it() -> None:
    play = attached(*OFFERED)

    play.tell(ev.DetailsChanged, options={"llm": "large", "model": "small"})

    assert play.session.options == {"llm": "large"}


@pytest.mark.parametrize("wanted", [{"speed": "fast"}, {"model": "huge"}, {"mode": "plan"}])
def test_what_is_not_offered_is_refused_and_nothing_changes(wanted: dict[str, Any]) -> None:
    play = attached(*OFFERED)
    before = play.session

    play.tell(ev.DetailsChanged, title="other", options=wanted)

    assert isinstance(play.refusal(), InvalidOverride)
    assert "small, large" in play.refusal().hint
    assert play.session == before


def test_an_attached_agent_without_options_refuses_every_option() -> None:
    play = attached()

    play.tell(ev.DetailsChanged, options={"model": "large"})

    assert isinstance(play.refusal(), InvalidOverride)


def test_a_wish_before_the_first_start_is_stored_unchecked() -> None:
    play = CoreSession()

    play.tell(ev.DetailsChanged, options={"model": "large"})

    assert play.session.options == {"model": "large"}
    # The start may have read the wishes already.
    assert play.last.effects == (SetOptions({"model": "large"}),)


def test_a_short_wish_is_replaced_by_one_for_the_same_option() -> None:
    play = attached(*OFFERED, wanted={"model": "large"})

    play.tell(ev.DetailsChanged, options={"llm": "small"})

    assert play.session.options == {"llm": "small"}


def test_a_wish_for_a_suspended_session_is_checked_and_set_later() -> None:
    play = attached(*OFFERED)
    play.tell(agent_events.IdleElapsed)
    assert play.session.phase is Phase.SUSPENDED

    play.tell(ev.DetailsChanged, options={"model": "large"})

    assert play.session.options == {"llm": "large"}
    assert play.last.effects == ()
    play.tell(ev.DetailsChanged, options={"model": "huge"})
    assert isinstance(play.refusal(), InvalidOverride)


def test_none_withdraws_a_wish() -> None:
    play = attached(*OFFERED, wanted={"model": "large", "gone": "x"})

    play.tell(ev.DetailsChanged, options={"model": None, "gone": None})

    assert play.session.options == {}
    assert play.last.effects == ()


def test_wishes_cannot_grow_without_bound() -> None:
    play = CoreSession()
    for number in range(MAX_OPTIONS):
        play.tell(ev.DetailsChanged, options={f"o{number}": "x"})

    play.tell(ev.DetailsChanged, options={"one more": "x"})

    assert isinstance(play.refusal(), ConfigError)


def test_a_wish_that_a_new_agent_does_not_offer_is_a_warning_once() -> None:
    play = attached(MODEL, wanted={"speed": "fast"})

    assert ["'speed'" in body["text"] for body in bodies(play, "warning")] == [True]
    assert play.session.phase is Phase.IDLE
    play.tell(agent_events.IdleElapsed)
    play.send("a")
    play.tell(agent_events.AgentAttached, agent=AGENT, options=(MODEL,))
    assert bodies(play, "warning") == []


def test_a_wish_for_an_agent_without_options_is_a_warning() -> None:
    play = attached(wanted={"model": "large"})

    assert len(bodies(play, "warning")) == 1
    assert play.session.options == {"model": "large"}


def test_a_value_that_the_agent_refuses_is_a_warning() -> None:
    play = attached(*OFFERED)
    play.tell(ev.DetailsChanged, options={"model": "large"})

    play.tell(agent_events.OptionRefused, option="llm", value="large", problem="no credit")

    [warning] = bodies(play, "warning")
    assert warning["text"] == "the agent did not set llm to large: no credit"
    assert play.session.options == {"llm": "large"}


def test_options_and_details_change_in_one_step() -> None:
    play = attached(*OFFERED)

    step = play.tell(ev.DetailsChanged, title="other", options={"model": "large"})

    assert isinstance(step.reply, Accepted)
    assert [fact.kind for fact in step.facts] == ["session_changed", "options_changed"]


def test_a_wish_of_a_queued_session_is_set_before_the_turn() -> None:
    play = CoreSession()
    play.send("a")
    play.tell(ev.DetailsChanged, options={"model": "large"})

    play.tell(agent_events.AgentAttached, agent=AGENT, options=OFFERED)

    assert [type(effect) for effect in play.last.effects if isinstance(effect, StartTurn)]
    assert play.session.options == {"model": "large"}


# Storage ---------------------------------------------------------------------------------


def test_wishes_of_a_new_session_are_in_its_first_record() -> None:
    spec = SessionSpec(agent="coder", options={"model": "large"})

    session, facts = create(SessionId("s_1"), spec, at=5.0)

    assert session.options == {"model": "large"}
    assert initial_state(SessionId("s_1"), facts[0]) == session
    assert spec_like(session, Limits()).options == {"model": "large"}


def test_a_session_without_wishes_is_created_as_by_earlier_versions() -> None:
    _, facts = create(SessionId("s_1"), SessionSpec(agent="coder"), at=5.0)

    assert "options" not in facts[0].body


def test_a_row_keeps_wishes_and_offer() -> None:
    play = attached(*OFFERED)
    play.tell(ev.DetailsChanged, options={"model": "large", "brief": True})

    stored = decode(encode(play.session), type(play.session))

    assert stored == play.session
    assert stored.offered[1].current is False


def test_the_choices_of_earlier_versions_are_no_offer() -> None:
    spec = SessionSpec(agent="coder")
    _, facts = create(SessionId("s_1"), spec, at=5.0)

    old = Fact("session_changed", 6.0, {"choices": {"config_options": [{"id": "llm"}]}})

    session = fold(initial_state(SessionId("s_1"), facts[0]), old)

    assert (session.offered, session.knows_offer) == ((), False)
