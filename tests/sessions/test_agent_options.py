"""Options of a session's agent, from the embedding API to a scripted process and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import AgentOption, ConfigError, Info, InvalidOverride, Session, Supervisor
from supervisor.drivers.acp.agent import scripted_process
from supervisor.handles.specs import make_spec
from supervisor.sessions.idempotency import fingerprint
from supervisor.store.codec import decode_plain, encode
from tests.support.acp_supervisor import open_acp_supervisor
from tests.support.fake_agents import records
from tests.support.in_memory_processes import InMemoryProcesses

FLAGS = ("--modes", "--config-options", "--load")


def agent() -> Any:  # noqa: ANN401 - an agent
    return scripted_process("agent", FLAGS)


def current(info: Info) -> dict[str, object]:
    return {option.id: option.current for option in info.offered_options}


async def changes(session: Session) -> list[Any]:
    """Return the bodies of the options that were changed, without what is offered."""
    return [
        {name: value for name, value in record.body.items() if name != "request"}
        for record in await records(session)
        if record.kind == "options_changed" and "offered" not in record.body
    ]


async def warnings(session: Session) -> list[str]:
    return [one.body["text"] for one in await records(session) if one.kind == "warning"]


# Creation --------------------------------------------------------------------------------


async def test_a_session_is_created_with_options() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create(
            "agent", options={"mode": "ask", "brief": True}, model="large", effort="high"
        )
        info = await session.info()

        assert info.options == {"mode": "ask", "brief": True, "model": "large", "effort": "high"}
        assert current(info) == {
            "model": "large",
            "brief": True,
            "thinking": "high",
            "mode": "ask",
        }
        assert "model large" in (await session.prompt("choices")).text


async def test_the_offer_is_known_when_create_returns() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        info = await (await sup.create("agent")).info()

        assert info.options == {}
        assert info.offered_options[0] == AgentOption(
            id="model",
            name="Model",
            category="model",
            current="small",
            values=("small", "large"),
        )


async def test_a_wish_that_is_not_offered_at_creation_is_a_warning() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent", model="huge")

        [warning] = await warnings(session)
        assert "'huge'" in warning
        assert "small, large" in warning
        assert (await session.prompt("say on")).text == "on"


async def test_an_agent_without_options_warns_of_a_wish() -> None:
    async with supervisor.open() as sup:
        session = await sup.create("echo", model="large")

        assert len(await warnings(session)) == 1
        assert (await session.info()).options == {"model": "large"}


@pytest.mark.parametrize("given", [{"options": ["x"]}, {"options": {"a": 5}}, {"model": ""}])
async def test_options_of_a_wrong_type_are_invalid(given: dict[str, Any]) -> None:
    async with supervisor.open() as sup:
        with pytest.raises(ConfigError):
            await sup.create("echo", **given)
        with pytest.raises(ConfigError):
            await (await sup.create("echo")).set(**given)


async def test_a_child_has_its_own_options() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        parent = await sup.create("agent", model="large")
        child = await parent.spawn("agent", "choices", effort="high")

        assert "model small" in (await child.wait()).text
        assert (await child.info()).options == {"effort": "high"}


async def test_a_fork_wants_the_same_options() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent", model="large")
        await session.prompt("say once")

        copy = await session.fork()

        assert (await copy.info()).options == {"model": "large"}
        assert current(await copy.info())["model"] == "large"


async def test_an_import_wants_no_options(tmp_path: Path) -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent", options={"mode": "ask"})
        file = tmp_path / "session.jsonl"
        await trio.Path(file).write_text(await session.export("jsonl"))

        made = await sup.import_(file, agent="agent")

        assert (await made.info()).options == {}
        assert (await made.info()).offered_options == ()


async def test_a_request_without_options_has_the_fingerprint_of_earlier_versions() -> None:
    async with supervisor.open() as sup:
        plain = make_spec(sup._parts, "echo")
        wanting = make_spec(sup._parts, "echo", model="large")

    assert "options" not in decode_plain(encode(plain))
    assert fingerprint(plain) != fingerprint(wanting)


# Change ----------------------------------------------------------------------------------


async def test_a_change_applies_at_once_to_an_idle_session() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent")

        await session.set(model="large")
        await settle()

        info = await session.info()
        assert (info.options, current(info)["model"]) == ({"model": "large"}, "large")
        assert await changes(session) == [
            {"by": "user", "options": {"model": "large"}},
            {"by": "agent", "current": {"model": "large"}},
        ]


async def test_a_change_while_busy_applies_from_the_next_turn() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent")
        await session.send("sleep 5\nchoices")
        await session.set(model="large")
        receipt = await session.send("choices")

        assert "model large" in (await session.result(receipt.input_id)).text
        [first, _] = [one for one in await session.transcript() if one.role == "agent"]
        assert "model small" in first.text


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        ({"model": "huge"}, "choose one of: small, large"),
        ({"brief": "perhaps"}, "choose one of: true, false"),
        ({"speed": "fast"}, "thinking (low, high)"),
    ],
)
async def test_what_is_not_offered_is_refused_with_what_is(
    wanted: dict[str, Any], hint: str
) -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent")

        with pytest.raises(InvalidOverride) as refused:
            await session.set(options=wanted, title="other")

        assert hint in refused.value.hint
        assert await changes(session) == []
        assert (await session.info()).title is None


async def test_an_agent_that_refuses_a_value_leaves_a_warning() -> None:
    refusing = scripted_process("agent", (*FLAGS, "--fail-at", "config"))
    async with open_acp_supervisor(refusing) as (sup, _):
        session = await sup.create("agent")

        await session.set(model="large")
        await settle()

        [warning] = await warnings(session)
        assert warning.startswith("the agent did not set model to large: told to fail")
        assert current(await session.info())["model"] == "small"
        assert (await session.prompt("say on")).text == "on"


async def test_a_change_by_the_agent_is_on_record_and_in_the_info() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent")

        await session.prompt("choose mode ask\nchoose brief true")

        assert await changes(session) == [
            {"by": "agent", "current": {"mode": "ask"}},
            {"by": "agent", "current": {"brief": True}},
        ]
        assert current(await session.info())["mode"] == "ask"


async def test_none_leaves_an_option_to_the_agent() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent", model="large")

        await session.set(options={"model": None})

        assert (await session.info()).options == {}


async def test_limits_and_options_change_together() -> None:
    async with open_acp_supervisor(agent()) as (sup, _):
        session = await sup.create("agent")

        await session.set(limits={"turns": 5}, model="large")

        info = await session.info()
        assert (info.limits.turns, info.options) == (5, {"model": "large"})


# Later ------------------------------------------------------------------------------------


async def test_a_wish_survives_suspension_and_clear() -> None:
    async with open_acp_supervisor(agent()) as (sup, processes):
        session = await sup.create("agent", suspend_after_seconds=10)
        await trio.sleep(20)  # virtual
        await session.set(model="large")

        assert "model large" in (await session.prompt("choices")).text
        await session.clear()
        assert "model large" in (await session.prompt("choices")).text
        assert len(processes.all) == 3


async def test_a_wish_survives_a_crash_of_the_agent() -> None:
    # The agent does not save its conversations, so a new one starts with the default model.
    forgetful = scripted_process("agent", ("--modes", "--config-options"))
    async with open_acp_supervisor(forgetful) as (sup, _):
        session = await sup.create("agent", model="large")
        await session.prompt("crash")

        assert "model large" in (await session.prompt("choices")).text


async def test_a_wish_survives_a_restart_of_the_supervisor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes = InMemoryProcesses()
    file = tmp_path / "state.db"
    async with opened(file, processes, monkeypatch) as sup:
        session = await sup.create("agent", model="large")
        await session.set(options={"brief": "true"})
        before = await session.info()

    async with opened(file, processes, monkeypatch) as sup:
        again = await sup.get(session.id)
        info = await again.info()

        assert info.options == before.options == {"model": "large", "brief": True}
        assert info.offered_options == before.offered_options
        assert "model large, brief True" in (await again.prompt("choices")).text


def opened(file: Path, processes: InMemoryProcesses, patch: pytest.MonkeyPatch) -> Any:  # noqa: ANN401
    from contextlib import nullcontext  # noqa: PLC0415 - of this function only

    patch.setattr(supervisor.runtime, "open_processes", lambda: nullcontext(processes))
    return supervisor.open(file, agents=[agent()])


async def test_a_hint_names_no_option_for_an_agent_without_options() -> None:
    async with supervisor.open() as sup:
        session = await sup.create("echo")

        with pytest.raises(InvalidOverride, match="no option 'model'"):
            await session.set(model="large")


async def set_from_an_agent(sup: Supervisor) -> None:
    child = (await sup.list(agent="agent")).items[0]
    await sup.session(child.id).set(model="large")


async def test_a_parent_that_changes_its_child_is_named() -> None:
    @supervisor.agent("lead")
    async def lead(turn: supervisor.Turn) -> None:
        child = await turn.spawn("agent", "say hi")
        await child.wait()
        await set_from_an_agent(sup)

    async with open_acp_supervisor(agent(), lead) as (sup, _):  # type: ignore[arg-type] # any agent
        await (await sup.create("lead")).prompt("go")
        child = (await sup.list(agent="agent")).items[0]

        assert (await changes(sup.session(child.id)))[0]["by"] == "parent"
