"""Workspaces are folders, not names: a link or another folder in their place is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import (
    Confined,
    Permissions,
    Phase,
    Session,
    SessionNotActive,
    Settings,
    SpawnRefused,
    Supervisor,
)
from supervisor.core.errors import ConfigError
from supervisor.drivers.acp.agent import scripted_process
from supervisor.sessions import workspaces as pinning
from tests.support.acp_supervisor import open_acp_supervisor
from tests.support.fake_agents import AgentRun, FakeAgent
from tests.support.virtual_time import use_virtual_time


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    use_virtual_time(items, Path(__file__).parent)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """A folder that no session was given."""
    made = tmp_path / "outside"
    made.mkdir()
    return made


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    """The folder `out` in the workspace of the parent."""
    made = tmp_path / "ws" / "out"
    made.mkdir(parents=True)
    return made


@pytest.fixture
async def parent(sup: Supervisor, inside: Path) -> Session:
    return await sup.create("echo", workspace=str(inside.parent))


def replace_by_link(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(target)


def replace_by_folder(folder: Path, target: Path) -> None:
    folder.rename(folder.with_name("moved"))
    target.rename(folder)


REPLACEMENTS = pytest.mark.parametrize("replace", [replace_by_link, replace_by_folder])


async def refusal(session: Session, workspace: Path) -> SpawnRefused:
    with pytest.raises(SpawnRefused) as caught:
        await session.spawn("echo", "x", workspace=str(workspace))
    return caught.value


# Given ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["link", "link/deep", "out/../link"])
async def test_a_child_does_not_leave_its_parents_workspace_by_a_link(
    parent: Session, inside: Path, outside: Path, name: str
) -> None:
    (inside.parent / "link").symlink_to(outside)

    refused = await refusal(parent, inside.parent / name)

    assert (refused.limit, refused.hint) == (
        "workspace",
        "choose a folder inside it, or leave workspace out",
    )
    assert f"leads to {outside}" in str(refused)


async def test_a_child_may_use_a_link_that_stays_inside(parent: Session, inside: Path) -> None:
    (inside.parent / "link").symlink_to(inside)

    child = await parent.spawn("echo", "x", workspace=str(inside.parent / "link"))

    assert (await child.info()).workspace == str(inside.parent / "link")
    assert (await child.wait()).text == "x"


async def test_a_parents_own_workspace_may_be_a_link(
    sup: Supervisor, inside: Path, tmp_path: Path
) -> None:
    (tmp_path / "current").symlink_to(inside.parent)
    parent = await sup.create("echo", workspace=str(tmp_path / "current"))

    child = await parent.spawn("echo", "x", workspace=str(tmp_path / "current" / "out"))
    other = await parent.spawn("echo", "x", workspace=str(inside))

    assert [(await one.wait()).outcome for one in (child, other)] == ["completed", "completed"]


async def test_a_grandchild_does_not_leave_by_a_link(
    parent: Session, inside: Path, outside: Path
) -> None:
    (inside / "link").symlink_to(outside)
    child = await parent.spawn("echo", "x", workspace=str(inside))

    assert (await refusal(child, inside / "link")).limit == "workspace"


@REPLACEMENTS
async def test_a_parent_with_a_replaced_workspace_spawns_no_child(
    parent: Session, inside: Path, outside: Path, replace: object
) -> None:
    assert callable(replace)
    replace(inside.parent, outside)

    with pytest.raises(SpawnRefused) as caught:
        await parent.spawn("echo", "x")

    assert caught.value.limit == "workspace"
    assert "stop and resume" in caught.value.hint


# Used -----------------------------------------------------------------------------------------


@REPLACEMENTS
async def test_a_turn_does_not_start_in_a_replaced_workspace(
    parent: Session, inside: Path, outside: Path, replace: object
) -> None:
    assert callable(replace)
    child = await parent.spawn("echo", "x", workspace=str(inside))
    await child.wait()
    replace(inside, outside)

    result = await child.prompt("again")

    assert result.outcome == "failed"
    assert "is not the folder that the session was given" in str(result.error)


@REPLACEMENTS
async def test_a_fork_does_not_take_over_a_replaced_workspace(
    sup: Supervisor, parent: Session, inside: Path, outside: Path, replace: object
) -> None:
    assert callable(replace)
    child = await parent.spawn("echo", "x", workspace=str(inside))
    await child.wait()
    replace(inside, outside)

    with pytest.raises(ConfigError, match="is not the folder that the session was given"):
        await child.fork()

    assert {one.id for one in await sup.list()} == {parent.id, child.id}


async def test_a_fork_keeps_the_workspace_of_its_source(parent: Session, inside: Path) -> None:
    fork = await parent.fork()

    assert (await fork.info()).workspace == str(inside.parent)
    assert (await fork.prompt("hello")).text == "hello"


async def test_a_resume_takes_the_folder_that_is_there_now(
    parent: Session, inside: Path, outside: Path
) -> None:
    replace_by_folder(inside.parent, outside)
    await parent.stop()
    await parent.resume()

    assert (await parent.prompt("hello")).text == "hello"


async def test_a_resumed_child_does_not_leave_by_a_new_link(
    parent: Session, inside: Path, outside: Path
) -> None:
    child = await parent.spawn("echo", "x", workspace=str(inside))
    await child.stop()
    replace_by_link(inside, outside)
    await child.resume()

    result = await child.prompt("hello")

    assert result.outcome == "failed"
    assert f"leads to {outside}" in str(result.error)


async def test_a_workspace_made_later_must_be_a_folder_at_its_path(
    sup: Supervisor, outside: Path, tmp_path: Path
) -> None:
    session = await sup.create("echo", workspace=str(tmp_path / "later"))
    assert (await session.prompt("before")).text == "before"
    (tmp_path / "later").symlink_to(outside)
    assert (await session.prompt("a link")).outcome == "failed"

    (tmp_path / "later").unlink()
    (tmp_path / "later").mkdir()

    assert (await session.prompt("a folder")).text == "a folder"


async def test_a_session_may_outlive_its_workspace(parent: Session, inside: Path) -> None:
    shutil.rmtree(inside.parent)

    assert (await parent.prompt("hello")).text == "hello"


async def test_a_deleted_session_leaves_no_pin(sup: Supervisor, parent: Session) -> None:
    child = await parent.spawn("echo", "x")
    pins = sup._parts.admission.tree.workspace_roots
    assert set(pins) == {parent.id, child.id}

    await sup.delete(child.id)
    await sup.delete(parent.id)

    assert pins == {}


async def test_a_file_system_that_does_not_answer_fails_in_time(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    async def hang(*_: object, **__: object) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr(pinning, "run_in_thread", hang)

    with pytest.raises(ConfigError, match="within 10 seconds"):
        await sup.create("echo", workspace=str(tmp_path))


@pytest.fixture
async def reader(sup: Supervisor, fake_agent: FakeAgent, inside: Path) -> AgentRun:
    session = await sup.create("fake", workspace=str(inside.parent))
    await session.send("go")
    return await fake_agent.next_run()


async def test_reading_through_a_link_out_of_the_workspace_asks(
    sup: Supervisor, reader: AgentRun, inside: Path, outside: Path
) -> None:
    (inside / "link").symlink_to(outside)

    allowed = await reader.turn.ask("read it?", tool="read", kind="read", path="out/file")
    reader.begin(reader.turn.ask("read it?", tool="read", kind="read", path="out/link/file"))
    await settle()

    assert allowed
    assert [one.tool for one in await sup.permissions()] == ["read"]


# After a restart ------------------------------------------------------------------------------


async def test_a_restarted_child_does_not_leave_by_a_new_link(
    inside: Path, outside: Path, tmp_path: Path
) -> None:
    async with supervisor.open(tmp_path / "state.db") as sup:
        parent = await sup.create("echo", workspace=str(inside.parent))
        child = await parent.spawn("echo", "x", workspace=str(inside))
        await child.wait()
    replace_by_link(inside, outside)

    async with supervisor.open(tmp_path / "state.db") as sup:
        result = await sup.session(child.id).prompt("hello")

        assert (result.outcome, f"leads to {outside}" in str(result.error)) == ("failed", True)
        assert (await sup.session(parent.id).prompt("hello")).text == "hello"


# Processes ------------------------------------------------------------------------------------


@REPLACEMENTS
async def test_an_agent_process_does_not_start_in_a_replaced_workspace(
    inside: Path, outside: Path, replace: object
) -> None:
    assert callable(replace)
    settings = Settings(suspend_after_seconds=60.0)
    agent = scripted_process("agent")
    async with open_acp_supervisor(agent, settings=settings) as (sup, processes):
        session = await sup.create("agent", workspace=str(inside))
        await trio.sleep(100)
        assert (await session.info()).phase is Phase.SUSPENDED
        replace(inside, outside)

        result = await session.prompt("say hello")
        with pytest.raises(SessionNotActive):
            await session.prompt("say hello again")
        info = await session.info()

    assert (info.stop_reason, len(processes.all)) == ("start_failed", 1)
    assert "is not the folder that the session was given" in str(result.error)


@REPLACEMENTS
async def test_a_turn_of_a_live_process_is_refused_in_a_replaced_workspace(
    inside: Path, outside: Path, replace: object
) -> None:
    assert callable(replace)
    agent = scripted_process("agent")
    async with open_acp_supervisor(agent) as (sup, processes):
        session = await sup.create("agent", workspace=str(inside))
        assert (await session.prompt("say hello")).text == "hello"
        replace(inside, outside)

        refused = await session.prompt("say hello again")
        info = await session.info()

        assert (refused.outcome, refused.text) == ("failed", "")
        assert "is not the folder that the session was given" in str(refused.error)
        assert "stop and resume the session" in str(refused.error)
        assert (info.phase, len(processes.all)) == (Phase.IDLE, 1)


# The configured workspace of an agent ---------------------------------------------------------


async def test_the_default_workspace_of_an_agent_is_pinned_too(
    fake_agent: FakeAgent, inside: Path, outside: Path
) -> None:
    agent = Confined(fake_agent.agent, Permissions(), None, str(inside))
    async with supervisor.open(agents=[agent]) as sup:
        session = await sup.create("fake")
        replace_by_link(inside, outside)

        assert (await session.prompt("hello")).outcome == "failed"
