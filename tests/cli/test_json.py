"""`--json` after any command: valid JSON on both streams, also for errors."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
import trio

import supervisor
from supervisor.cli import async_runner, target
from supervisor.cli.command_table import COMMANDS
from tests.cli.test_steer_commands import asking
from tests.support.cli_runner import Called, Caller

# Of each command a call that succeeds, where bob asks something and carol is stopped.
CALLS = {
    "run": ["hello"],
    "chat": [],
    "ps": ["--all"],
    "tree": [],
    "top": [],
    "show": ["bob", "--transcript"],
    "log": ["bob"],
    "why": ["bob"],
    "search": ["ask"],
    "inbox": [],
    "new": ["echo"],
    "send": ["bob", "more"],
    "steer": ["bob", "softer"],
    "interrupt": ["bob"],
    "spawn": ["bob", "echo", "hello"],
    "inputs": ["bob"],
    "rename": ["bob", "ann"],
    "set": ["bob", "--title", "text"],
    "rules": ["ls", "bob"],
    "usage": [],
    "wait": ["carol"],
    "stop": ["bob"],
    "resume": ["carol"],
    "fork": ["bob"],
    "clear": ["carol"],
    "archive": ["carol"],
    "export": ["bob", "--format", "html"],
    "query": ["SELECT id FROM sessions", "--state", "one.db"],
    "import": ["one.jsonl"],
    "replay": ["bob", "--at", "1"],
    "repair": ["carol"],
    "backup": ["backup.db"],
    "restore": ["one.db", "--state", "new.db"],
    "cleanup": [],
    "agents": [],
    "config": [],
    "hosts": [],
    "down": [],
    "doctor": [],
    "completion": ["zsh"],
    "version": [],
}
# They want an id that is known only later, or end only when they are told to.
ELSEWHERE = {
    "answer": "test_daemon",
    "rm": "test_daemon",
    "demo": "test_demo",
    "watch": "test_daemon",
    "attach": "test_attach_in_tmux",
    "serve": "test_daemon",
    "acp": "test_editor_process",
    "mcp": "test_mcp_command",
    "reload": "test_daemon",
    "status": "test_daemon_life",
    "logs": "test_daemon_life",
    "service": "test_systemd_unit",
}
# Calls that each command refuses: wrong arguments, or an unknown session.
REFUSED = {
    name: ["nobody", *words[1:]] if words[:1] in (["bob"], ["carol"]) else ["--nonsense"]
    for name, words in CALLS.items()
}


@pytest.fixture(autouse=True)
def daemon(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """Files to work on, and what commands find where the daemon would be."""

    @asynccontextmanager
    async def connected(_: str) -> AsyncIterator[supervisor.Supervisor]:
        settings = supervisor.Settings(exit_seconds=0.0)
        path = home / "live.db"
        path.unlink(missing_ok=True)
        async with supervisor.open(path, settings=settings) as sup:
            await asking(sup)
            await (await sup.create("echo", name="carol")).stop()
            yield sup

    async def fill() -> None:
        async with supervisor.open(home / "one.db") as sup:
            session = await sup.create("echo")
            await session.prompt("hello")
            (home / "one.jsonl").write_text(await session.export("jsonl"))

    trio.run(fill)
    monkeypatch.setattr(target, "_connected", connected)
    monkeypatch.setattr(async_runner, "run_blocking", async_runner.run_async)  # it needs trio


def assert_json(done: Called) -> None:
    for line in (*done.out.splitlines(), *done.err.splitlines()):
        orjson.loads(line)


def test_every_command_has_a_json_case() -> None:
    assert {*CALLS, *ELSEWHERE} == set(COMMANDS)
    assert not set(CALLS) & set(ELSEWHERE)


@pytest.mark.parametrize("name", CALLS)
def test_every_command_prints_json(name: str, call: Caller) -> None:
    done = call(name, *CALLS[name], "--json", stdin="hello\n")

    assert (done.code, done.err) == (0, "")
    assert done.out.endswith("\n")
    assert_json(done)


@pytest.mark.parametrize("name", CALLS)
def test_every_refusal_is_json(name: str, call: Caller) -> None:
    done = call(name, *REFUSED[name], "--json")

    assert done.code in (2, 3)
    assert done.out == ""
    assert set(orjson.loads(done.err)["error"]) >= {"code", "message", "hint"}
