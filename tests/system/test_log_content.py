"""Logs have kinds and sizes: no log call passes on the text of a user, an agent or a tool.

A real daemon whose agents, users and tools say canaries, and a look at every log call.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import Permissions, SupervisorError
from supervisor.client import RemoteSession, RemoteSupervisor, connect
from tests.support.daemon_in_process import temporary_home
from tests.support.daemon_process import Daemon, daemon

CANARY = "canary"
TEST_SECONDS = 60
SETTINGS = """
[settings]
exit_seconds = 0.2
restart = {{ policy = "never" }}
ladder = {{ kill_seconds = 0.1 }}
[daemon]
log_level = "debug"
log_content = {content}
"""
# The agents differ in their flags: a banner on standard output, failing requests, authentication.
FLAGS = {
    "robot": ["--banner", "canary-banner"],
    "shy": ["--auth", "canary-method"],
    "broken": ["--fail-at", "new"],
    "forgetful": ["--load", "--fail-at", "load"],
}
# One turn each: output outside the protocol, standard error, titles, errors, ids, reasons.
SCRIPTS = [
    'raw canary-junk\nraw {"canary": 1}\nraw [1]\nsay canary-text\nthink canary-thought',
    "log canary-stderr\nspew-stderr 200\nexit 3",
    "tool canary-tool 0\nfail canary-failure",
    "error -32000 canary-error",
    "answer canary-reason",
    'reply {"stopReason": "canary-reason", "canary": 1}',
    'update canary_kind {"canary": "canary-value"}\nsay ok',
    'update tool_call {"toolCallId": "canary-id", "title": "canary-title"}\nsay ok',
    'notify canary/method {"canary": 1}\nsay ok',
    'call canary/method {"canary": 1}\nsay ok',
    'request fs/read_text_file {"path": "/canary", "sessionId": "canary"}\nsay ok',
    "terminal echo canary-command",
    "canary-script that is not valid",
]


def agent_table(name: str, flags: list[str]) -> str:
    words = [sys.executable, "-m", "supervisor.drivers.scripted", *flags]
    return f'[agents.{name}]\ndriver = "acp"\ncommand = {words!r}\n'


async def talk(sup: RemoteSupervisor, folder: Path) -> None:
    """Send canaries through every channel."""
    for script in SCRIPTS:
        session = await sup.create(
            "robot",
            name="canary-name",
            title="canary-title",
            tags=["canary-tag"],
            custom={"canary": "canary"},
            key="robot:canary:peer",
            workspace=str(folder),
            permissions=Permissions(mode="approve_all"),
        )
        await session.prompt(script)
        await sup.delete(session.id)
    for name in ("shy", "broken"):
        with pytest.raises(SupervisorError):
            await sup.create(name, title="canary-title")
    session = await sup.create("forgetful")
    await session.prompt("say canary-text")
    await session.stop()
    with suppress(SupervisorError):
        await session.resume()
        await session.prompt("say canary-text")
    await ask(await sup.create("robot"), sup)
    with pytest.raises(SupervisorError):
        await sup.create("canary-agent")


async def ask(session: RemoteSession, sup: RemoteSupervisor) -> None:
    await session.send("ask canary-tool")
    async with session.watch() as feed:
        async for item in feed:
            if isinstance(item, supervisor.Record) and item.kind == "permission_asked":
                break
    await sup.answer((await sup.permissions())[0].id, "reject_once")
    await session.interrupt(reason="canary-reason")


async def converse(made: Daemon) -> None:
    with trio.fail_after(TEST_SECONDS):
        async with connect(made.home.socket) as sup:
            await talk(sup, made.home.folder)


@pytest.mark.parametrize("content", ["false", "true"])
def test_the_log_has_content_only_on_request(content: str) -> None:
    agents = "".join(agent_table(name, flags) for name, flags in FLAGS.items())
    settings = SETTINGS.format(content=content)
    with temporary_home(settings + agents) as home, daemon(home) as made:
        trio.run(converse, made)
        made.leave()
        said = made.log()

    assert "turn ended" in said
    assert "in its output" in said
    found = {word for word in said.split() if CANARY in word}
    if content == "false":
        assert found == set()
    else:
        assert any("canary-banner" in word for word in found)
        assert any("canary-tool" in word for word in found)


# Errors that quote no content, and modules that log only errors of the configuration.
HARMLESS = {"StoreDegraded", "NotStorable"}
CONFIGURATION = {"http_server/unix_listener.py", "daemon/main.py", "daemon/reload.py"}
SOURCES = Path(supervisor.__file__).parent


def caught_errors_in_log_calls(path: Path) -> Iterator[str]:
    for handler in ast.walk(ast.parse(path.read_text())):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None:
            continue
        if isinstance(handler.type, ast.Name) and handler.type.id in HARMLESS:
            continue
        for call in ast.walk(handler):
            if not isinstance(call, ast.Call) or not ast.unparse(call.func).startswith("logger."):
                continue
            if any(isinstance(one, ast.Name) and one.id == handler.name for one in call.args):
                yield f"{path.relative_to(SOURCES)}:{call.lineno}"


def test_no_log_call_passes_on_a_caught_error() -> None:
    found = [line for path in SOURCES.rglob("*.py") for line in caught_errors_in_log_calls(path)]

    assert [line for line in found if line.partition(":")[0] not in CONFIGURATION] == []
