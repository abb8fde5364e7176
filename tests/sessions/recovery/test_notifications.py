"""What parents had not heard of their children before a kill they hear after it, once."""

from pathlib import Path

import pytest

from actors.testing import settle
from supervisor import Settings
from tests.support.fake_agents import AgentRun, FakeAgent, records
from tests.support.killed_program import Program, kind_is, make_busy
from tests.support.session_states import NEVER
from tests.support.tree_queries import ends


async def test_a_parent_is_notified_of_a_child_lost_with_the_supervisor(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand", restart=NEVER)
        await child_agent.next_run()

    async with program.running() as sup:
        await settle()
        [ended] = await ends(sup.session(parent.id))
        assert (ended.body["child"], ended.body["reason"]) == (child.id, "agent_crashed")


async def test_an_unacknowledged_end_is_reported_once_after_a_restart(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand")
        await child_agent.next_run()
        program.begin(program.kill_before, kind_is("child_ended"))
        program.begin(child.stop)
        await program.store.killed.wait()

    for _ in range(3):
        async with program.running() as sup:
            await settle()
            [ended] = await ends(sup.session(parent.id))
            assert (ended.body["child"], ended.body["reason"]) == (child.id, "user_cancelled")


async def test_an_acknowledged_end_is_not_reported_again(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand")
        await child_agent.next_run()
        await child.stop()
        await settle()
        heard = await records(parent, "child_started", "child_ended")

    async with program.running() as sup:
        await settle()
        assert await records(sup.session(parent.id), "child_started", "child_ended") == heard


async def test_an_imported_copy_of_a_parent_does_not_acknowledge_notifications(
    program: Program, child_agent: FakeAgent, tmp_path: Path
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand", restart=NEVER)
        await child_agent.next_run()
        await child.stop()
        await settle()
        (tmp_path / "copy.jsonl").write_text(await parent.export("jsonl"))
        await sup.import_(tmp_path / "copy.jsonl")
        await child.resume()
        await child.send("another")
        await child_agent.next_run()

    async with program.running() as sup:
        await settle()
        reasons = [end.body["reason"] for end in await ends(sup.session(parent.id))]
        assert reasons == ["user_cancelled", "agent_crashed"]


async def test_an_unacknowledged_result_is_reported_once_after_a_restart(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        await parent.spawn("child-agent", "errand")
        run = await child_agent.next_run()
        program.begin(program.kill_before, kind_is("child_ended"))
        await settle()
        run.finish("the answer")
        await program.store.killed.wait()

    for _ in range(3):
        async with program.running() as sup:
            await settle()
            [done] = await records(sup.session(parent.id), "child_ended")
            assert (done.body["outcome"], done.body["text"]) == ("completed", "the answer")
            assert done.body["reason"] is None


async def test_an_unacknowledged_resume_is_reported(
    program: Program, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand")
        await child_agent.next_run()
        await child.stop()
        await settle()
        program.begin(program.kill_before, kind_is("child_started", "child_ended"))
        await settle()
        program.begin(child.resume)
        await program.store.killed.wait()

    async with program.running() as sup:
        await settle()
        told = await records(sup.session(parent.id), "child_started")
        assert [one.body["resumed"] for one in told] == [False, True]


async def test_an_unacknowledged_second_end_is_reported(
    program: Program, child_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand")
        await child_agent.next_run()
        await child.stop()
        await settle()
        # As if the parent were too slow to write anything before the kill.
        monkeypatch.setattr(sup._parts.registry, "wake", lambda _: None)
        await child.resume()
        await child.stop()
        assert len(await ends(parent)) == 1

    async with program.running() as sup:
        await settle()
        assert len(await ends(sup.session(parent.id))) == 2


async def test_an_unacknowledged_end_and_resume_are_reported_in_order(
    program: Program, child_agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        child = await parent.spawn("child-agent", "errand")
        await child_agent.next_run()
        monkeypatch.setattr(sup._parts.registry, "wake", lambda _: None)
        await child.stop()
        await child.resume()
        assert await ends(parent) == []

    async with program.running() as sup:
        await settle()
        _, ended, back = await records(sup.session(parent.id), "child_started", "child_ended")
        assert (ended.kind, ended.body["reason"]) == ("child_ended", "user_cancelled")
        assert (back.kind, back.body["resumed"]) == ("child_started", True)


async def test_an_end_wakes_a_parent_that_wanted_to_be_woken_once(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        await parent.spawn("child-agent", "errand", on_end="wake")
        run = await child_agent.next_run()
        program.begin(program.kill_before, kind_is("child_ended"))
        await settle()
        run.finish("the answer")
        await program.store.killed.wait()

    async with program.running() as sup:
        [text] = await fake_agent.finish_all()
        assert "the answer" in text
    async with program.running() as sup:
        assert await fake_agent.finish_all() == []


async def test_an_accepted_wake_runs_after_a_restart(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running(settings=Settings(max_running_turns=2)) as sup:
        parent = await sup.create("fake")
        await parent.spawn("child-agent", "errand", on_end="wake")
        run = await child_agent.next_run()
        busy = await make_busy(sup, fake_agent)
        run.finish("the answer")
        await settle()
        assert len(await records(parent, "child_ended")) == 1
        del busy

    async with program.running() as sup:
        played = await fake_agent.finish_all()
        assert len([text for text in played if "the answer" in text]) <= 1
        assert (await sup.session(parent.id).info()).queued == 0


async def test_unread_news_is_readable_after_a_restart(
    program: Program, fake_agent: FakeAgent, child_agent: FakeAgent
) -> None:
    async with program.running() as sup:
        parent = await sup.create("fake")
        await parent.spawn("child-agent", "errand")
        (await child_agent.next_run()).finish("the answer")
        await settle()

    async with program.running() as sup:
        await sup.session(parent.id).send("what is new?")
        run: AgentRun = await fake_agent.next_run()
        assert [one.kind for one in run.turn.news()] == ["child_started", "child_ended"]
