"""Options of the agent on the command line: given, changed, shown, refused."""

from __future__ import annotations

import pytest

import supervisor
from supervisor.cli.session_fields import option_fields, rights_fields, unmet_wishes
from supervisor.core.agent_options import AgentOption
from supervisor.core.ids import SessionId
from supervisor.core.info import Info, make_info
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.session_values import Spending
from supervisor.core.state import SessionState
from supervisor.drivers.acp.agent import scripted_process
from tests.support.cli_daemon import use_supervisor
from tests.support.cli_runner import Caller

MODEL = AgentOption(id="llm", name="Model", category="model", current="small", values=("small",))
BRIEF = AgentOption(id="brief", name="Brief", kind="boolean", current=True)


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    async def offer(sup: supervisor.Supervisor) -> None:
        await sup.reload(agents=[scripted_process("able", ["--modes", "--config-options"])])
        await sup.create("able", name="bob", limits=Limits(turns=20, cost=5.0))

    use_supervisor(monkeypatch, offer)


def info_of(**fields: object) -> Info:
    session = SessionState(id=SessionId("s_1"), agent_name="able").changed(**fields)
    return make_info(session, last_seq=1, limits=Limits(), spent=Spending(turns=3))


@pytest.mark.usefixtures("daemon")
def test_new_gives_the_agent_its_options(call: Caller) -> None:
    typed = "--model large --effort high --option mode=ask --option brief=true"
    made = call("new", "able", *typed.split(), "--json").json

    assert made["options"] == {"model": "large", "effort": "high", "mode": "ask", "brief": "true"}
    current = {one["id"]: one["current"] for one in made["offered_options"]}
    assert current == {"model": "large", "thinking": "high", "mode": "ask", "brief": True}


@pytest.mark.usefixtures("daemon")
def test_new_notes_an_option_that_the_agent_does_not_have(call: Caller) -> None:
    made = call("new", "able", "--model", "huge", "--mode", "deny_all")

    assert made.code == 0
    assert "The agent did not set model huge: `understudy log s_" in made.err


@pytest.mark.usefixtures("daemon")
def test_a_child_gets_its_options(call: Caller) -> None:
    made = call("spawn", "bob", "able", "say hi", "--model", "large", "--json").json

    assert made["options"] == {"model": "large"}


@pytest.mark.usefixtures("daemon")
def test_set_changes_options_and_withdraws_them(call: Caller) -> None:
    made = call("set", "bob", "--model", "large", "--option", "brief=true", "--json").json

    assert made["options"] == {"model": "large", "brief": True}
    assert call("set", "bob", "--option", "model=", "--json").json["options"] == {}


@pytest.mark.usefixtures("daemon")
def test_set_refuses_what_is_not_offered_with_the_offer(call: Caller) -> None:
    refused = call("set", "bob", "--model", "huge")

    assert refused.code == 1
    assert "choose one of: small, large" in refused.err


@pytest.mark.usefixtures("daemon")
def test_set_refuses_an_option_without_a_value(call: Caller) -> None:
    for text in ("brief", "=x", " =x"):
        assert call("set", "bob", "--option", text).code == 2


@pytest.mark.usefixtures("daemon")
def test_show_prints_options_rights_limits_and_budgets(call: Caller) -> None:
    lines = call("show", "bob").out.splitlines()
    shown = {name: text.strip() for name, _, text in (line.partition(" ") for line in lines)}

    assert shown["options"] == "model small, brief false, thinking low, mode code"
    assert shown["permits"] == "approve_reads"
    assert shown["limits"] == "max_depth 3, max_children 5, max_descendants 50, max_spawns 200"
    assert shown["budgets"] == "turns 0 of 20, cost 0 of 5"


def test_a_wish_that_is_not_current_is_shown_as_wanted() -> None:
    info = info_of(
        offered=(MODEL, BRIEF), options={"model": "large", "brief": "true", "speed": "fast"}
    )

    assert list(unmet_wishes(info)) == ["llm large", "speed fast"]
    [(_, text)] = option_fields(info)
    assert text == "llm small, brief true, wanted: llm large, wanted: speed fast"


def test_a_session_without_options_has_no_field_of_them() -> None:
    assert list(option_fields(info_of())) == []


def test_restricted_rights_are_shown_by_name() -> None:
    info = info_of(permissions=Permissions(tools=["git", "bash"], skills=[], mode="deny_all"))

    assert dict(rights_fields(info))["permits"] == "deny_all; tools: bash, git; skills: none"
