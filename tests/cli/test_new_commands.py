"""`new` and `spawn`: the folder of the caller, options of the API, and what is printed."""

from pathlib import Path

import pytest

import supervisor
from tests.cli.test_steer_commands import nobody
from tests.support.cli_daemon import use_supervisor
from tests.support.cli_runner import Caller


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    async def parents(sup: supervisor.Supervisor) -> None:
        (home / "inner").mkdir(exist_ok=True)
        await sup.create("echo", name="outside", workspace=str(home / "inner"))
        await sup.create("echo", name="above", workspace=str(home))

    use_supervisor(monkeypatch, parents)


@pytest.mark.usefixtures("daemon")
def test_a_session_works_in_the_folder_of_the_caller(call: Caller, home: Path) -> None:
    assert call("new", "echo", "--json").json["workspace"] == str(home)
    made = call("new", "echo", "--name", "bob")
    assert (made.out.count("\n"), made.err) == (1, f"bob: echo in {home}\n")


@pytest.mark.usefixtures("daemon")
def test_a_workspace_that_does_not_exist_is_refused(call: Caller) -> None:
    assert call("new", "echo", "--workspace", "/nonexistent").code == 2
    assert call("spawn", "above", "echo", "hello", "--workspace", "/nonexistent").code == 2


@pytest.mark.usefixtures("daemon")
def test_a_child_works_in_the_callers_folder_or_else_in_its_parents(
    call: Caller, home: Path
) -> None:
    inherited = call("spawn", "outside", "echo", "hello", "--json")
    assert inherited.json["workspace"] == str(home / "inner")

    said = call("spawn", "outside", "echo", "hello").err
    assert f"works in its parent's {home / 'inner'}: {home} is not inside it." in said

    assert call("spawn", "above", "echo", "hello", "--json").json["workspace"] == str(home)


@pytest.mark.usefixtures("daemon")
def test_a_configured_workspace_wins_over_the_callers_folder(
    call: Caller, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def confine(sup: supervisor.Supervisor) -> None:
        @supervisor.agent("mine")
        async def mine(turn: supervisor.Turn) -> str:
            return turn.text

        await sup.reload(agents=[supervisor.Confined(mine, workspace=str(home / "inner"))])

    use_supervisor(monkeypatch, confine)

    assert call("new", "mine", "--json").json["workspace"] == str(home / "inner")


@pytest.mark.usefixtures("daemon")
def test_new_offers_the_options_of_the_api(call: Caller) -> None:
    typed = "--title T --tag a --mode deny_all --permit tools=bash,git --deadline 10m"
    typed += " --on-stall stop --max-children 2 --turns 3 --cost 1.5 --wall 2h --limit max_depth=1"
    made = call("new", "scripted", "-m", "say hello", *typed.split(), "--json").json

    assert (made["title"], made["tags"], made["turn_id"] is not None) == ("T", ["a"], True)
    assert made["permissions"]["mode"] == "deny_all"
    assert made["permissions"]["tools"] == ["bash", "git"]
    limits = made["limits"]
    assert [limits[name] for name in ("max_children", "max_depth", "turns")] == [2, 1, 3]
    assert (limits["cost"], limits["wall_seconds"], limits["max_spawns"]) == (1.5, 7200.0, 200)


@pytest.mark.parametrize(
    "typed",
    ["-m ''", "--limit x=1", "--limit turns=-1", "--limit turns=1.5", "--turns x", "--permit x=y"],
)
def test_an_invalid_option_is_wrong_usage(
    call: Caller, typed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_supervisor(monkeypatch, nobody)

    done = call("new", "echo", *(word.strip("'") for word in typed.split()))

    assert (done.code, "this is a bug" in done.err) == (2, False), done.err


@pytest.mark.usefixtures("daemon")
def test_limits_of_a_child_are_its_parents_unless_given(call: Caller) -> None:
    made = call("spawn", "above", "echo", "hello", "--turns", "4", "--json").json

    assert (made["limits"]["turns"], made["limits"]["max_children"]) == (4, 5)


@pytest.mark.parametrize(
    ("agent", "told"), [("ech", "did you mean echo?"), ("codex", "install it: npm install -g")]
)
def test_an_unknown_agent_is_refused_before_a_daemon_is_started(
    call: Caller, agent: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    refused = call("new", agent)

    assert (refused.code, told in refused.err) == (3, True), refused.err


_AGENT = "[agents.mine]\ndriver = 'command'\ncommand = ['cat']\n"


@pytest.mark.parametrize("typed", [["new", "mine"], ["spawn", "above", "mine", "hello"]])
@pytest.mark.parametrize(
    ("file", "told"),
    [
        (".config/understudy/understudy.toml", "the daemon not yet: run `understudy reload`"),
        ("understudy.toml", ".config/understudy/understudy.toml, and run `understudy reload`"),
        ("elsewhere.toml", "use one of echo, scripted, slow"),
    ],
)
@pytest.mark.usefixtures("daemon")
def test_an_agent_that_only_the_configuration_has_needs_a_reload(
    call: Caller, home: Path, typed: list[str], file: str, told: str
) -> None:
    path = home / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_AGENT)
    path.chmod(0o600)

    refused = call(*typed)

    assert (refused.code, told in refused.err) == (3, True), refused.err
