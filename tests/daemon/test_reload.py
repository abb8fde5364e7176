"""Reload of agents and settings while sessions run."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio

import supervisor
from supervisor import Limits, Settings
from tests.support.daemon_in_process import Home, running


@supervisor.agent("greeter")
async def greeter(turn: supervisor.Turn) -> str:
    return f"hello, {turn.text}"


@supervisor.agent("greeter")
async def rude(turn: supervisor.Turn) -> str:
    return f"go away, {turn.text}"


async def test_a_reload_reports_its_changes() -> None:
    async with supervisor.open(agents=[greeter]) as sup:
        settings = Settings(queue_cap=3, limits=Limits(max_depth=1), snapshot_every=7)

        said = await sup.reload(agents=[rude], settings=settings)

        assert (said.added, said.changed, said.removed) == ((), ("greeter",), ())
        assert (said.settings, said.fixed) == (
            ("limits.max_depth", "queue_cap"),
            ("snapshot_every",),
        )
        assert await sup.reload(agents=[rude], settings=settings) == attrs.evolve(
            said, changed=(), settings=()
        )


async def test_a_running_session_keeps_its_settings() -> None:
    async with supervisor.open(agents=[greeter]) as sup:
        old = await sup.create("greeter")

        await sup.reload(agents=[rude], settings=Settings(limits=Limits(max_depth=1)))
        new = await sup.create("greeter")

        assert (await old.prompt("you")).text == "hello, you"
        assert (await new.prompt("you")).text == "go away, you"
        assert ((await old.info()).limits.max_depth, (await new.info()).limits.max_depth) == (3, 1)


async def test_new_settings_apply_to_new_sessions() -> None:
    async with supervisor.open(settings=Settings(exit_seconds=0.1)) as sup:
        old, new = await sup.create("scripted"), None
        await sup.reload(settings=Settings(queue_cap=1, exit_seconds=0.1))
        new = await sup.create("scripted")

        for session, cap in ((old, 10), (new, 1)):
            await session.send("sleep 60")
            for _ in range(cap):
                await session.send("x")
            with pytest.raises(supervisor.QueueFull, match=f"{cap} of {cap}"):
                await session.send("x")


async def test_a_removed_agent_gets_no_new_sessions() -> None:
    async with supervisor.open(agents=[greeter]) as sup:
        old = await sup.create("greeter")

        said = await sup.reload(agents=[])

        assert said.removed == ("greeter",)
        assert (await old.prompt("you")).text == "hello, you"
        with pytest.raises(supervisor.AgentUnknown):
            await sup.create("greeter")


async def test_a_raised_limit_admits_waiting_sessions() -> None:
    settings = Settings(max_running_turns=1, exit_seconds=0.1)
    async with supervisor.open(settings=settings) as sup:
        first, second = await sup.create("scripted"), await sup.create("echo")
        await first.send("sleep 60")
        waits = await second.send("hello")

        await sup.reload(settings=attrs.evolve(settings, max_running_turns=2))

        with trio.fail_after(30):
            assert (await second.result(waits.input_id)).text == "hello"


@pytest.mark.parametrize(
    "wrong",
    [
        {"agents": [5]},
        {"agents": 5},
        {"agents": [greeter, greeter]},
        {"settings": {"queue_cap": 1}},
    ],
)
async def test_an_invalid_argument_changes_nothing(wrong: dict[str, object]) -> None:
    async with supervisor.open(agents=[greeter]) as sup:
        with pytest.raises(supervisor.ConfigError):
            await sup.reload(**wrong)  # type: ignore[arg-type] # that is the point

        assert (await (await sup.create("greeter")).prompt("you")).outcome == "completed"


# The daemon ----------------------------------------------------------------------------------


@pytest.fixture
def home(folder: Path) -> Home:
    made = Home(folder)
    made.write("[settings]\nexit_seconds = 0.1")
    return made


async def test_a_daemon_reload_applies_the_file(home: Home) -> None:
    async with running(home) as daemon:
        old = await daemon.remote.create("echo")
        home.write("[settings]\nexit_seconds = 0.1\n[settings.limits]\nmax_depth = 1")

        said = await daemon.remote.reload()

        new = await daemon.remote.create("echo")
        assert said.settings == ("limits.max_depth",)
        assert ((await old.info()).limits.max_depth, (await new.info()).limits.max_depth) == (3, 1)


async def test_the_response_lists_applied_and_pending_daemon_settings(home: Home) -> None:
    async with running(home) as daemon:
        home.write(
            "[settings]\nexit_seconds = 0.1\nsnapshot_every = 7\n"
            '[daemon]\nlog_level = "debug"\nmax_connections = 9'
        )

        said = await daemon.remote.reload()
        again = await daemon.remote.reload()

        assert said.settings == ("daemon.log_level",)
        assert said.fixed == ("snapshot_every", "daemon.max_connections")
        assert again == attrs.evolve(said, settings=())


async def test_an_invalid_file_changes_nothing_and_is_reported(home: Home) -> None:
    async with running(home) as daemon:
        home.write("[settings]\nqueue_cap = 0")

        with pytest.raises(supervisor.ConfigError, match="queue_cap"):
            await daemon.remote.reload()

        home.write("[settings]\nexit_seconds = 0.1")
        assert (await daemon.remote.reload()).settings == ()


async def test_a_reload_request_is_handled(home: Home, caplog: pytest.LogCaptureFixture) -> None:
    async with running(home) as daemon:
        home.write("[settings]\nexit_seconds = 0.1\nqueue_cap = 2\n[daemon]\nmax_connections = 9")
        caplog.set_level("INFO", "supervisor")

        daemon.orders.reload()

        with trio.fail_after(30):
            while "restart needed" not in caplog.text:  # noqa: ASYNC110 - the log is all there is
                await trio.sleep(0.005)
    assert "daemon.max_connections" in caplog.text
