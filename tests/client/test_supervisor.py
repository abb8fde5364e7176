"""Methods of the supervisor, with the embedding API and with the client."""

from pathlib import Path

import pytest

import supervisor
from supervisor import Phase, SessionKey
from supervisor.handles.arguments import TEXT_FILTERS
from tests.support.served_supervisor import Sup, busy, seen


async def test_a_session_has_the_given_attributes(sup: Sup, folder: Path) -> None:
    session = await sup.create(
        "echo",
        key="echo:irc:me",
        name="mine",
        title="a title",
        tags=("x",),
        custom={"k": "v"},
        workspace=str(folder),
        limits=supervisor.Limits(max_depth=1),
        permissions=supervisor.Permissions(tools=frozenset({"bash"}), mode="deny_all"),
        queue_cap=2,
    )

    info = await session.info()

    assert (info.key, info.name, info.title, info.tags) == (
        "echo:irc:me",
        "mine",
        "a title",
        ("x",),
    )
    assert (info.workspace, info.limits.max_depth) == (str(folder), 1)
    assert info.permissions.tools == frozenset({"bash"})


async def test_a_session_is_found_by_its_id(sup: Sup) -> None:
    session = await sup.create("echo")

    assert (await sup.get(session.id)).id == session.id
    assert await sup.exists(session.id)
    assert not await sup.exists("s_nobody")


async def test_a_key_resolves_to_its_session(sup: Sup) -> None:
    key = SessionKey("echo", "irc", "me")

    first = await sup.get_or_create(key)

    assert await sup.get_or_create("echo:irc:me") == first
    with pytest.raises(supervisor.KeyTaken):
        await sup.create("echo", key=key)


async def test_a_key_can_get_a_new_session(sup: Sup) -> None:
    first = await sup.get_or_create("echo:irc:me", tags=("a",))

    second = await sup.new("echo:irc:me", name="fresh")

    assert (await first.info()).archived
    assert (await second.info()).name == "fresh"


async def test_a_key_can_be_reset(sup: Sup) -> None:
    first = await sup.get_or_create("echo:irc:me")
    await first.prompt("hello")

    assert await sup.reset("echo:irc:me") == first
    assert await first.transcript() == []


async def test_a_session_can_be_deleted(sup: Sup) -> None:
    session = await sup.create("echo")

    await sup.delete(session.id)

    with pytest.raises(supervisor.SessionNotFound):
        await session.info()


async def test_sessions_are_listed_page_by_page(sup: Sup) -> None:
    made = [(await sup.create("echo")).id for _ in range(5)]

    first = await sup.list(limit=3)
    rest = await sup.list(limit=3, cursor=first.next)

    assert [info.id for info in (*first.items, *rest.items)] == made
    assert rest.next is None


async def test_sessions_are_listed_by_filters(sup: Sup) -> None:
    marked = await sup.create("echo", tags=("x",))
    stopped = await sup.create("scripted")
    await stopped.stop()

    async def ids(**wanted: object) -> list[str]:
        return [info.id for info in (await sup.list(**wanted)).items]  # type: ignore[arg-type] # filters

    assert await ids(tag="x") == [marked.id]
    assert await ids(phase=Phase.STOPPED) == await ids(agent="scripted") == [stopped.id]
    assert await ids(archived=True) == []
    assert await ids(created_after=1.5) == [marked.id, stopped.id]


@pytest.mark.parametrize("name", TEXT_FILTERS)
async def test_a_filter_longer_than_any_name_is_refused(sup: Sup, name: str) -> None:
    with pytest.raises(supervisor.ConfigError, match=f"^{name} has 70000 bytes of 1024 allowed"):
        await sup.list(**{name: "a" * 70_000})  # type: ignore[arg-type] # a filter


async def test_long_filters_are_accepted_together(sup: Sup) -> None:
    page = await sup.list(**dict.fromkeys(TEXT_FILTERS, "/" + "ä" * 250))  # type: ignore[arg-type] # filters

    assert page.items == ()


async def test_the_tree_is_nested(sup: Sup) -> None:
    parent = await sup.create("echo")
    child = await parent.spawn("echo", "go")
    await child.wait()

    (root,) = await sup.tree()

    assert (root.id, [node.id for node in root.children]) == (parent.id, [child.id])
    assert [node.id for node in await sup.tree(child.id)] == [child.id]


async def test_search_finds_messages(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("a needle in it")

    page = await sup.search("needle", session=session.id, limit=1)

    assert page.items[0].session_id == session.id
    assert "[needle]" in page.items[0].snippet
    assert page.next is not None


async def test_stats_count_sessions(sup: Sup) -> None:
    await busy(sup)
    await (await sup.create("echo")).prompt("hello")

    stats = await sup.stats()

    assert (stats.sessions, stats.running_turns, stats.phases["idle"]) == (2, 1, 1)
    assert not stats.store.degraded


async def test_a_session_can_be_imported(sup: Sup, folder: Path) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    path = folder / "session.jsonl"
    path.write_text(await session.export("jsonl"))

    other = await sup.import_(path, agent="echo")

    assert [one.text for one in await other.transcript()] == ["hello", "hello"]
    path.write_text("nonsense\n")
    with pytest.raises(supervisor.ImportFailed) as failure:
        await sup.import_(path)
    assert failure.value.line == 1


async def test_the_store_can_be_backed_up(sup: Sup, folder: Path) -> None:
    await sup.create("echo")

    assert await sup.backup(folder / "copy.db") == (folder / "copy.db").stat().st_size


async def test_stopped_sessions_can_be_cleaned_up(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await session.stop()

    report = await sup.cleanup(keep_last=0, dry_run=True)

    assert report.dry_run
    assert list(report.deleted) == [session.id]
    assert await sup.exists(session.id)


async def test_permission_requests_are_listed_and_answered(sup: Sup) -> None:
    session = await busy(sup, "ask bash")
    await seen(session, "permission_asked")

    (request,) = await sup.permissions()
    with pytest.raises(supervisor.InvalidDecision):
        await sup.answer(request.id, "perhaps")  # type: ignore[arg-type] # no such decision
    await sup.answer(request.id, "allow_once")

    assert (request.session_id, request.tool) == (session.id, "bash")
    with pytest.raises(supervisor.PermissionConflict):
        await sup.answer(request.id, "allow_once")


async def test_create_with_the_same_idempotency_key_creates_one_session(sup: Sup) -> None:
    first = await sup.create("echo", idempotency_key="k")

    assert await sup.create("echo", idempotency_key="k") == first
    with pytest.raises(supervisor.IdempotencyConflict):
        await sup.create("echo", name="other", idempotency_key="k")


async def test_after_a_drain_new_work_is_refused(sup: Sup) -> None:
    session = await sup.create("echo")

    await sup.drain()

    with pytest.raises(supervisor.SessionNotActive):
        await session.send("hello")
    assert await sup.exists(session.id)
