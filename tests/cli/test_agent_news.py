"""Commands show the context of an agent, and what the agent reports beside its work."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import supervisor
from supervisor.cli.screens.top_details import details_lines
from supervisor.cli.screens.top_order import Entry
from supervisor.cli.text_format import format_context
from supervisor.core.session_values import ContextUse
from supervisor.handles.session_rows import row_of
from tests.support.cli_runner import Caller

SCRIPT = "window 900 1000\ncompact 100 the work\nnotice warning careful\nnamed-tool bash List files"


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with a session of an agent that has reported news, and one of another agent."""
    store = tmp_path_factory.mktemp("news") / "state.db"

    async def fill() -> None:
        agent = supervisor.scripted_process("agent", subagents=True)
        async with supervisor.open(store, agents=[agent]) as sup:
            session = await sup.create("agent", name="anna")
            await session.prompt(f"{SCRIPT}\nsubagent Explorer running\nsay done")
            await (await sup.create("echo", name="bob")).prompt("hello")

    trio.run(fill)
    return store


def test_show_and_ps_have_the_context(call: Caller, path: Path) -> None:
    shown = " ".join(call("show", "anna", "--state", path).out.split())
    assert "context 100 of 200000 tokens (0 %)" in shown
    assert "context" not in call("show", "bob", "--state", path).out

    infos = call("ps", "--json", "--state", path).json["items"]
    contexts = {info["name"]: info["context"] for info in infos}
    assert contexts == {"anna": {"used": 100, "size": 200_000}, "bob": None}


def test_usage_by_session_has_the_context(call: Caller, path: Path) -> None:
    lines = call("usage", "--by", "session", "--state", path).out.splitlines()
    assert lines[0].split()[-1] == "CONTEXT"
    (anna,) = [line for line in lines if line.startswith("anna")]
    assert anna.endswith("100 of 200000 tokens (0 %)")

    assert "CONTEXT" not in call("usage", "--by", "agent", "--state", path).out
    items = call("usage", "--by", "session", "--json", "--state", path).json["items"]
    contexts = {item["name"]: item["context"] for item in items}
    assert contexts == {"anna": {"used": 100, "size": 200_000}, "bob": None}


def test_log_shows_the_news_as_text(call: Caller, path: Path) -> None:
    shown = " ".join(call("log", "anna", "--state", path).out.split())

    assert "the agent compacts its context: 900 tokens" in shown
    assert "the agent has compacted its context: 900 tokens before, 100 after: the work" in shown
    assert "warning of the agent: careful" in shown
    assert "subagent Explorer runs" in shown
    assert "bash" in shown


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("notice", "warning, careful"),
        ("agent_compaction", "completed, 900, 100, the work"),
        ("subagent", "Explorer, scripted-1/Explorer, running"),
    ],
)
def test_log_shows_the_news_as_records(call: Caller, path: Path, kind: str, said: str) -> None:
    assert call("log", "anna", "--kind", kind, "--state", path).out.strip().endswith(said)


def test_the_details_of_top_have_the_context(path: Path) -> None:
    async def read() -> list[str]:
        async with supervisor.open(path, agents=[supervisor.scripted_process("agent")]) as sup:
            info = next(one for one in (await sup.list()).items if one.name == "anna")
        lines = details_lines(Entry(row_of(info), "idle", 0.0), None, {}, now=info.updated_at)
        return [
            "".join(cell if isinstance(cell, str) else cell.text for cell in line) for line in lines
        ]

    assert "context 100 of 200000 tokens (0 %)" in trio.run(read)


@pytest.mark.parametrize(
    ("context", "said"),
    [
        (ContextUse(0, 10), "0 of 10 tokens (0 %)"),
        (ContextUse(55, 100), "55 of 100 tokens (55 %)"),
        (ContextUse(300, 200), "300 of 200 tokens (150 %)"),
        (ContextUse(1), "1 token"),
    ],
)
def test_a_context_as_text(context: ContextUse, said: str) -> None:
    assert format_context(context) == said
