"""The error for an agent name that no agent has."""

from supervisor.core.agent_list import agent_unknown


def test_an_agent_that_is_not_installed_has_its_install_line() -> None:
    refusal = agent_unknown("codex", ["echo"], {"codex": "npm install -g codex"})

    assert (str(refusal.args[0]), refusal.hint) == (
        "agent codex is not installed",
        "install it: npm install -g codex",
    )


def test_a_close_name_is_suggested_also_of_agents_not_installed() -> None:
    hints = {"codex": "npm install -g codex"}

    assert "did you mean echo?" in agent_unknown("ech", ["echo"], hints).hint
    assert "did you mean codex?" in agent_unknown("codx", ["echo"], hints).hint
    assert agent_unknown("x" * 10_000, ["echo"], {}).hint == "use one of echo"
