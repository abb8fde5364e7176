"""What callers may leave out, or say in another way, and are understood."""

from __future__ import annotations

import pytest
import trio

from supervisor import BudgetSpent, Limits, Page, SessionKey, SpawnRefused, Supervisor
from tests.support.session_states import phase_of


async def test_the_key_in_info_equals_the_requested_key(sup: Supervisor) -> None:
    key = SessionKey("echo", "irc", "ann")
    session = await sup.create("echo", key=key)

    assert (await session.info()).key == key
    assert (await session.info()).key == "echo:irc:ann"


async def test_resume_returns_the_session_live_or_stopped(sup: Supervisor) -> None:
    session = await sup.create("echo")

    assert await session.resume() == session
    await session.stop()
    assert await session.resume() == session


async def test_stop_fork_interrupt_and_watch_accept_positional_arguments(
    sup: Supervisor,
) -> None:
    session = await sup.create("scripted")
    first = await session.prompt("say one")
    await session.prompt("say two")

    assert len(await (await session.fork(first.turn_id)).transcript()) == 2
    assert (await session.interrupt("turn", "enough")).matched == 0
    async with session.watch(3) as feed:
        assert (await anext(aiter(feed))).seq == 4  # type: ignore[union-attr]
    await session.stop("after_turn")
    assert await phase_of(session) == "stopped"


async def test_a_page_is_read_like_a_list_of_its_items(sup: Supervisor) -> None:
    one, two = await sup.create("echo"), await sup.create("echo")
    page = await sup.list()

    assert [info.id for info in page] == [one.id, two.id]
    assert (len(page), page[1].id) == (2, two.id)
    assert len(Page((), None)) == 0


async def test_an_agent_may_be_called_an_assistant(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.append("assistant", "I am one")

    assert [(said.role, said.text) for said in await session.transcript()] == [
        ("agent", "I am one")
    ]


async def test_resuming_without_budget_is_refused_with_the_limit(
    sup: Supervisor,
) -> None:
    session = await sup.create("echo", limits=Limits(turns=1))
    await session.prompt("the only one")
    with trio.fail_after(5), pytest.raises(BudgetSpent):
        await session.prompt("another")
    await session.stop()

    with pytest.raises(BudgetSpent) as spent:
        await session.resume()

    assert isinstance(spent.value, SpawnRefused)
    assert (spent.value.limit, spent.value.used, spent.value.allowed) == ("turns", 1, 1)
