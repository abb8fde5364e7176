"""Values of agents that name a variable of the supervisor's environment."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from supervisor.core import redaction
from supervisor.core.errors import ConfigError
from supervisor.drivers.acp.agent import AcpAgent, acp
from supervisor.drivers.command.agent import CommandAgent, command
from supervisor.drivers.process.processes import Launch

VALUE = "correct horse battery"
DRIVERS = ("acp", "command")


@pytest.fixture(autouse=True)
def _clean_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_covered", ())
    monkeypatch.delenv("REAL", raising=False)


def make(driver: str, env: Mapping[str, str]) -> AcpAgent | CommandAgent:
    return (acp if driver == "acp" else command)("coder", ["coder"], env=env)


def launch(agent: AcpAgent | CommandAgent) -> Launch:
    if isinstance(agent, AcpAgent):
        return agent.launch(None)
    return agent.launch(None, prompt="x", session_id=None, new_session_id="f")


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_named_variable_is_looked_up_at_each_start(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = make(driver, {"KEY": "$REAL", "PRICE": "$$5", "TEXT": "a$b"})
    for value in (VALUE, "another"):
        monkeypatch.setenv("REAL", value)

        seen = launch(agent).environment

        assert (seen["KEY"], seen["PRICE"], seen["TEXT"]) == (value, "$5", "a$b")
        assert value not in repr(agent)


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_missing_variable_fails_the_start_with_a_hint(driver: str) -> None:
    with pytest.raises(ConfigError, match=r"agent coder needs \$REAL") as refusal:
        launch(make(driver, {"KEY": "$REAL"}))

    assert "set $REAL" in refusal.value.hint


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_text_that_names_no_variable_is_refused_and_not_shown(driver: str) -> None:
    with pytest.raises(ConfigError, match="'KEY' of agent 'coder' starts with") as refusal:
        make(driver, {"KEY": "$5ecret"})

    assert "5ecret" not in str(refusal.value)
    assert "$$" in refusal.value.hint


@pytest.mark.parametrize("pairs", [{"X": "$REAL"}, [{"name": "X", "value": "$REAL"}]])
def test_servers_name_variables_in_mappings_and_in_pairs(
    pairs: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = acp("coder", ["coder"], mcp_servers=[{"name": "far", "url": "u", "headers": pairs}])
    with pytest.raises(ConfigError, match=r"\$REAL"):
        agent.launch(None)
    monkeypatch.setenv("REAL", VALUE)

    (server,) = agent.resolved_servers()

    assert server["headers"] in ({"X": VALUE}, [{"name": "X", "value": VALUE}])


@pytest.mark.parametrize("driver", DRIVERS)
def test_redaction_covers_a_value_that_was_looked_up(
    driver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REAL", VALUE)
    monkeypatch.setenv("HOME", "/home/somebody")
    said = f"refused: {VALUE} in /home/somebody"
    assert redaction.redact(said) == said

    launch(make(driver, {"KEY": "$REAL", "PLACE": "$HOME"}))

    assert redaction.redact(said) == "refused: [redacted] in /home/somebody"
