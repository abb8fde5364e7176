"""What one surface shows, the others know."""

import trio

import supervisor
from actors.testing import FailingSeed, explore

SEEDS = range(200)


async def answer_what_the_feed_of_all_shows() -> None:
    async with supervisor.open() as sup:
        session = await sup.create("scripted")
        await session.send("ask rm")
        async with sup.watch() as feed:
            async for record in feed:
                if record.kind == "permission_asked":
                    # A time-out that fires early may have answered it, which is another matter.
                    try:
                        await sup.answer(record.body["request_id"], "allow_once")
                    except supervisor.PermissionConflict:
                        await trio.lowlevel.checkpoint()
                    return


def is_not_found(failing: FailingSeed) -> bool:
    return isinstance(failing.error, supervisor.PermissionNotFound)


def test_a_request_in_the_global_feed_can_be_answered() -> None:
    failing = explore(answer_what_the_feed_of_all_shows, seeds=SEEDS, early_timeouts=True)

    assert list(filter(is_not_found, failing)) == []


async def test_text_before_an_agent_crash_is_the_turn_text() -> None:
    async with supervisor.open() as sup:
        session = await sup.create("scripted")

        result = await session.prompt("say almost done\ncrash")

        said = [message.text for message in await session.transcript() if message.role == "agent"]
        assert said == ["almost done"]
        assert result.text == "almost done"
        assert (await session.info()).messages == 2
