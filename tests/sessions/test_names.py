"""Names: at most one session of a scope holds one; all roots share a scope, a tree has its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import (
    AgentStartFailed,
    AgentUnknown,
    ConfigError,
    NameTaken,
    Session,
    SessionNotActive,
    StoreDegraded,
    Supervisor,
    Turn,
)
from supervisor.core.names import ROOT_SCOPE
from supervisor.core.state import Failure
from supervisor.sessions.names import NameIndex
from tests.support.commit_faults import COMMIT_FAULTS, CommitFault, FaultInjector
from tests.support.session_states import SlowStartAgent

NAME = "auth"


async def name_of(session: Session) -> str | None:
    return (await session.info()).name


async def is_free(sup: Supervisor, name: str = NAME) -> bool:
    """Return True if a new root can have the name, which it gives back."""
    with suppress(NameTaken):
        made = await sup.create("echo", name=name)
        await sup.delete(made.id)
        return True
    return False


@pytest.fixture
async def holder(sup: Supervisor) -> Session:
    return await sup.create("echo", name=NAME)


# Taking a name --------------------------------------------------------------------------------


async def test_a_taken_name_is_refused_and_the_hint_names_its_holder(
    sup: Supervisor, holder: Session
) -> None:
    with pytest.raises(NameTaken, match=NAME) as refused:
        await sup.create("echo", name=NAME)

    assert holder.id in refused.value.hint
    assert len((await sup.list()).items) == 1


async def test_no_session_takes_a_name_that_could_mean_another(
    sup: Supervisor, holder: Session
) -> None:
    other = await sup.create("echo")
    for name in (other.id, other.id[:4], "-", "a/b", "a\u202eb"):
        for take in (partial(sup.create, "echo"), partial(holder.spawn, "echo", "hi"), holder.set):
            with pytest.raises(ConfigError, match="name"):
                await take(name=name)

    assert await name_of(holder) == NAME
    assert len((await sup.list()).items) == 2


def test_a_fork_of_an_old_session_gets_a_name_that_new_ones_may_have() -> None:
    assert NameIndex().free_name(ROOT_SCOPE, "s_1") == "s-1"


async def test_one_of_many_concurrent_creates_gets_the_name(sup: Supervisor) -> None:
    made: list[Session] = []

    async def create(number: int) -> None:
        with suppress(NameTaken):
            if number % 2:
                made.append(await sup.create("echo", name=NAME))
            else:
                made.append(await sup.get_or_create(f"echo:irc:{number}", name=NAME))

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(create, number)

    assert len(made) == 1


async def test_sessions_without_a_name_do_not_share_one(sup: Supervisor) -> None:
    assert await name_of(await sup.create("echo")) is None
    assert await name_of(await sup.create("echo")) is None


async def test_each_tree_has_names_of_its_own(sup: Supervisor, holder: Session) -> None:
    other = await sup.create("echo", name="other")

    for root in (holder, other):
        child = await root.spawn("echo", "hi", name=NAME)
        with pytest.raises(NameTaken) as refused:
            await child.spawn("echo", "hi", name=NAME)
        assert child.id in refused.value.hint


async def test_an_agent_is_told_the_holder_only_in_its_own_subtree() -> None:
    hints: list[str] = []

    @supervisor.agent("curious")
    async def curious(turn: Turn) -> None:
        await turn.spawn("echo", "hi", name="mine")
        for name in ("mine", "sibling"):
            with pytest.raises(NameTaken) as refused:
                await turn.spawn("echo", "hi", name=name)
            hints.append(refused.value.hint)

    async with supervisor.open(agents=[curious]) as sup:
        root = await sup.create("echo")
        await root.spawn("echo", "hi", name="sibling")
        child = await root.spawn("curious", "try")
        assert (await child.wait()).outcome == "completed"

    assert ["holds it" in hint for hint in hints] == [True, False]
    assert "s_" not in hints[1]


async def test_a_repeated_create_with_an_idempotency_key_is_not_refused(sup: Supervisor) -> None:
    first = await sup.create("echo", name=NAME, idempotency_key="once")

    assert await sup.create("echo", name=NAME, idempotency_key="once") == first


async def test_forks_and_imports_of_a_named_session_get_a_number(
    sup: Supervisor, holder: Session, tmp_path: Path
) -> None:
    await holder.prompt("hello")
    path = tmp_path / "session.jsonl"
    path.write_text(await holder.export("jsonl"))

    made = [await holder.fork(), await sup.import_(path), await sup.import_(path)]

    assert [await name_of(one) for one in made] == ["auth-2", "auth-3", "auth-4"]
    last = (await made[-1].info()).last_seq
    assert (await made[-1].replay(last)).name == "auth-4"


async def test_a_fork_takes_a_given_name_and_is_refused_a_taken_one(holder: Session) -> None:
    await holder.prompt("hello")

    fork = await holder.fork(name="other")

    assert await name_of(fork) == "other"
    assert len(await fork.transcript()) == 2
    for taken in (NAME, "other"):
        with pytest.raises(NameTaken):
            await holder.fork(name=taken)


# Giving a name up -----------------------------------------------------------------------------


async def test_a_stopped_session_keeps_its_name_and_an_archived_one_does_not(
    sup: Supervisor, holder: Session
) -> None:
    await holder.stop()
    assert not await is_free(sup)

    await holder.archive()
    second = await sup.create("echo", name=NAME)

    with pytest.raises(NameTaken, match=NAME) as refused:
        await holder.unarchive()
    assert second.id in refused.value.hint
    await second.set(name="other")
    await holder.unarchive()
    assert not await is_free(sup)


async def test_deleting_a_session_frees_its_name(sup: Supervisor, holder: Session) -> None:
    await sup.delete(holder.id)

    assert await is_free(sup)


async def test_a_new_holder_of_a_key_can_have_the_name_of_the_old_one(sup: Supervisor) -> None:
    old = await sup.new("echo:irc:ann", name=NAME)

    new = await sup.new("echo:irc:ann", name=NAME)

    assert (await name_of(new), (await old.info()).archived) == (NAME, True)
    assert not await is_free(sup)
    await sup.delete(new.id)
    assert await is_free(sup)


async def test_a_refused_create_leaves_the_name_free(sup: Supervisor) -> None:
    with pytest.raises(AgentUnknown):
        await sup.create("nobody", name=NAME)

    assert await is_free(sup)


async def test_a_create_that_is_not_stored_leaves_the_name_free(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise StoreDegraded("the disk is full", hint="make room", is_surely_unwritten=True)

    with monkeypatch.context() as patch:
        patch.setattr(sup._services.store, "commit", fail)
        with pytest.raises(StoreDegraded):
            await sup.create("echo", name=NAME)
    await trio.sleep(60.0)

    assert await is_free(sup)


@pytest.fixture
async def failed() -> AsyncIterator[tuple[Supervisor, Session, SlowStartAgent]]:
    """A session named `auth` whose agent did not start, and would start now."""
    slow = SlowStartAgent()
    slow.waits, slow.failure = False, Failure("startup", "no such program")
    async with supervisor.open(agents=[slow]) as sup:
        with pytest.raises(AgentStartFailed):
            await sup.create("slow", name=NAME)
        [info] = (await sup.list()).items
        slow.failure = None
        yield sup, sup.session(info.id), slow


Failed = tuple[Supervisor, Session, SlowStartAgent]


async def test_a_failed_start_frees_the_name_until_a_resume_takes_it_back(failed: Failed) -> None:
    sup, session, _ = failed
    assert await is_free(sup)

    await session.resume()

    assert not await is_free(sup)


async def test_a_failed_start_is_not_resumed_with_a_name_taken_since(failed: Failed) -> None:
    sup, session, _ = failed
    await sup.create("echo", name=NAME)

    with pytest.raises(NameTaken):
        await session.resume()

    await session.set(name="another")
    await session.resume()
    assert not await is_free(sup, "another")


# Another name ---------------------------------------------------------------------------------


async def test_renaming_frees_the_old_name_and_takes_the_new_one(
    sup: Supervisor, holder: Session
) -> None:
    await holder.set(name="login")

    assert await name_of(holder) == "login"
    assert (await is_free(sup), await is_free(sup, "login")) == (True, False)
    record = (await holder.history())[-1].records[-1]
    assert (record.kind, record.body["name"]) == ("session_changed", "login")


async def test_renaming_to_a_taken_name_changes_nothing(sup: Supervisor, holder: Session) -> None:
    other = await sup.create("echo", name="other")

    with pytest.raises(NameTaken) as refused:
        await other.set(name=NAME, title="new")

    assert holder.id in refused.value.hint
    info = await other.info()
    assert (info.name, info.title) == ("other", None)


async def test_an_archived_session_is_not_renamed(sup: Supervisor, holder: Session) -> None:
    await holder.stop()
    await holder.archive()

    with pytest.raises(SessionNotActive):
        await holder.set(name="other")

    assert await is_free(sup, "other")


@pytest.mark.parametrize("fault", COMMIT_FAULTS)
async def test_a_rename_over_a_crash_leaves_one_name_held(
    sup: Supervisor, holder: Session, injector: FaultInjector, fault: CommitFault
) -> None:
    injector.fail_next("session_changed", fault)

    await holder.set(name="login")

    assert (await is_free(sup), await is_free(sup, "login")) == (True, False)


# After a restart ------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["idle", "stopped", "child"])
async def test_a_name_keeps_its_holder_over_a_restart(tmp_path: Path, state: str) -> None:
    path = tmp_path / "state.db"
    async with supervisor.open(path) as sup:
        root = await sup.create("echo", name=NAME)
        child = await root.spawn("echo", "hi", name="child")
        await child.wait()
        if state == "stopped":
            await root.stop()

    async with supervisor.open(path) as sup:
        assert not await is_free(sup)
        if state == "child":
            with pytest.raises(NameTaken):
                await sup.session(root.id).spawn("echo", "hi", name="child")
