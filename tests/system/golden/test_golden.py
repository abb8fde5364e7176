"""One scenario through every interface leaves the same records.

`scenario.py` has the steps, `masking.py` says what is not compared, and `player_acp.py` which steps
an editor cannot do.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, TypeAlias

import pytest
from attrs import evolve

import supervisor
from supervisor import Record
from tests.support.acp_editor_process import editor_process
from tests.support.daemon_in_process import Home, running, temporary_home

from .masking import differences
from .player_acp import AcpPlayer
from .player_cli import CliPlayer
from .player_embedding import EmbeddingPlayer
from .player_http import http_player
from .player_mcp import mcp_player
from .scenario import AGENT, Player, play

Open: TypeAlias = Callable[[Home], AbstractAsyncContextManager[Player]]


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    with temporary_home("") as found:
        for name, value in found.environ.items():
            monkeypatch.setenv(name, value)
        yield found


@asynccontextmanager
async def by_http(home: Home) -> AsyncIterator[Player]:
    async with http_player(home.socket) as player:
        yield player


@asynccontextmanager
async def by_cli(_: Home) -> AsyncIterator[Player]:
    yield CliPlayer()


@asynccontextmanager
async def by_acp(home: Home) -> AsyncIterator[Player]:
    async with (
        http_player(home.socket) as http,
        editor_process(home, "--agent", AGENT, "--no-start") as started,
    ):
        await started.editor.start()
        player = AcpPlayer(started.editor, http)
        yield player
        await player.finish()


@asynccontextmanager
async def by_mcp(home: Home) -> AsyncIterator[Player]:
    async with mcp_player(home) as player:
        yield player


async def played_embedded(folder: str) -> list[list[Record]]:
    async with supervisor.open() as sup:
        return await play(EmbeddingPlayer(sup), sup, folder)


async def played(home: Home, by: Open) -> list[list[Record]]:
    async with running(home) as daemon, by(home) as player:
        return await play(player, daemon.remote, str(home.folder))


@pytest.mark.parametrize("by", [by_http, by_cli, by_acp])
async def test_every_interface_leaves_the_same_records(home: Home, by: Open) -> None:
    expected = await played_embedded(str(home.folder))
    found = await played(home, by)

    different = differences(expected, found)
    assert not different, "\n".join(different)


async def test_a_record_that_is_missing_or_another_is_seen(home: Home) -> None:
    folder = str(home.folder)
    first, second = await played_embedded(folder), await played_embedded(folder)
    changed = next(one for one in second[0] if one.kind == "turn_ended")
    other = evolve(changed, body={**changed.body, "outcome": "failed"})

    assert differences(first, second) == []
    assert differences(first, [second[0][:-1], second[1]])
    assert differences(first, [second[0], [*second[1], other]])
    assert differences(first, [[other if one is changed else one for one in second[0]], second[1]])


# The calls that changed something, or were refused to.
CALLS: Final = [
    *(("create", "ok"), ("send", "ok"), ("send", "ok"), ("send", "ok"), ("send", "ok")),
    *(("answer", "ok"), ("interrupt", "ok"), ("set_limits", "ok"), ("send", "ok")),
    *(("send", "budget_spent"), ("set_limits", "ok"), ("resume", "ok"), ("send", "ok")),
    *(("stop", "ok"), ("send", "ok")),
]


async def test_an_assistant_leaves_the_same_records_and_its_calls(home: Home) -> None:
    expected = await played_embedded(str(home.folder))
    found = await played(home, by_mcp)

    calls = [
        [(one.body["tool"], one.body["outcome"]) for one in records if one.kind == "mcp_call"]
        for records in found
    ]
    different = differences(expected, found)
    assert not different, "\n".join(different)
    assert calls == [CALLS, [("spawn", "ok")]]
