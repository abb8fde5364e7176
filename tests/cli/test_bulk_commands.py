"""Commands on several sessions, `answer` by name, `rules`, `set`, `wait` and `usage`."""

import io
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import orjson
import pytest
import trio
import trio.testing

import supervisor
from supervisor.cli.commands import wait
from supervisor.cli.output import Screen
from tests.cli.conftest import Kept
from tests.cli.test_steer_commands import asking, busy, idle, stopped
from tests.support.cli_daemon import Prepare, use_supervisor
from tests.support.cli_runner import Caller, Tty


async def three(sup: supervisor.Supervisor) -> None:
    for name in ("one", "two", "three"):
        await sup.create("echo", name=name, tags=["x"] if name != "three" else [])


@pytest.fixture
def patch(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    use_supervisor(monkeypatch, three)
    return monkeypatch


@pytest.mark.usefixtures("patch")
def test_several_sessions_are_changed_with_one_line_each(call: Caller) -> None:
    done = call("stop", "one", "nobody", "two", "--json")

    first, failed, last = done.json_lines
    assert (done.code, first["badge"], last["badge"]) == (3, "stopped", "stopped")
    assert failed["error"]["code"] == "session_not_found"
    assert call("stop", "one", "nobody", "two").out.count("\n") == 3


@pytest.mark.usefixtures("patch")
def test_sessions_are_named_by_a_tag_or_on_standard_input(call: Caller) -> None:
    tagged = call("stop", "--tag", "x", "--json").json_lines
    assert [one["name"] for one in tagged] == ["one", "two"]

    piped = call("interrupt", "-", "--json", stdin="three\none\n").json_lines
    assert [one["session"] for one in piped] == ["three", "one"]

    assert call("resume", "--tag", "x").err == "No session to change.\n"
    assert [call("stop", *words).code for words in ([], ["one", "--tag", "x"])] == [2, 2]
    assert call("interrupt", "one", "two", "--call", "call_x").code == 2


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("x" * 1024 * 1024 + "y", "more than 1048576 bytes"),
        ("x\n" * 10_001, "10001 ids of 10000 allowed"),
        ("one\n" + "x" * 257, "an id of 257 bytes of 256 allowed"),
        (" \n", "names no session"),
    ],
)
def test_standard_input_that_is_no_list_of_ids_is_refused(
    call: Caller, given: str, said: str
) -> None:
    done = call("stop", "-", stdin=given)

    assert (done.code, said in done.err) == (2, True)


def test_rm_of_several_asks_on_a_terminal(call: Caller, patch: pytest.MonkeyPatch) -> None:
    assert call("rm", "--tag", "x", "--json").json_lines[1]["deleted"]

    def read(text: str) -> None:
        terminal = Tty(text)
        patch.setattr(io, "StringIO", lambda _: terminal)

    read("n\n")
    done = call("rm", "--tag", "x")
    assert done.out == ""
    assert done.err == "Delete 2 sessions (one, two)? [y/N] Nothing was changed.\n"
    read("y\n")
    assert call("rm", "--tag", "x").out.count("deleted") == 2
    assert call("rm", "--tag", "x", "--yes").out.count("deleted") == 2
    assert sys.stdin.isatty()


async def tree(sup: supervisor.Supervisor) -> None:
    other = await sup.create("echo", name="other")
    await other.spawn("echo", "hi", name="one")
    await sup.create("echo", name="one")


async def other_without_root_one(sup: supervisor.Supervisor) -> None:
    other = await sup.create("echo", name="other")
    await other.spawn("echo", "hi", name="one")


def test_rm_takes_the_bare_name_of_a_root_only(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_supervisor(monkeypatch, tree)
    first, again = call("rm", "one", "one/x", "--json", "--yes").json_lines
    assert (first["deleted"], again["error"]["code"]) == (True, "session_not_found")

    use_supervisor(monkeypatch, other_without_root_one)
    assert call("show", "one").code == 0
    refused = call("rm", "one")
    assert (refused.code, "path ROOT/CHILD" in refused.err) == (3, True)
    assert [line["error"]["code"] for line in call("rm", "one", "x", "--json").json_lines] == [
        "session_not_found",
        "session_not_found",
    ]
    assert call("rm", "other/one").code == 0


def test_a_request_is_answered_by_the_name_of_its_session(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_supervisor(monkeypatch, asking)
    assert call("answer", "bob", "always", "--json").json["decision"] == "allow_always"
    assert call("answer", "bob", "no").out.endswith(": reject_once\n")
    assert call("answer", "bob", "perhaps").code == 2

    use_supervisor(monkeypatch, idle)
    done = call("answer", "bob", "yes")
    assert (done.code, "bob has no pending request" in done.err) == (3, True)


def test_rules_are_listed_and_removed(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ruled(sup: supervisor.Supervisor) -> None:
        await asking(sup)
        (request,) = await sup.permissions()
        await sup.answer(request.id, "allow_always")
        rule.append(request.id)

    rule: list[str] = []
    use_supervisor(monkeypatch, ruled)

    (found,) = call("rules", "ls", "bob", "--json").json["items"]
    assert (found["tool"], found["decision"]) == ("rm", "allow_always")
    assert "allow_always" in call("rules", "ls", "bob").out
    pointed = call("rules", "bob")
    assert (pointed.code, "`understudy rules ls bob` lists the rules" in pointed.err) == (2, True)
    unknown = call("rules", "rm", "bob", "req_nothing")
    assert (unknown.code, "`understudy rules ls bob` lists them" in unknown.err) == (3, True)
    removed = call("rules", "rm", "bob", "rm", "--json").json
    assert removed == {"rule_id": rule[-1], "tool": "rm", "removed": True}
    assert call("rules", "rm", "bob", "rm").out == "rm  allow_always removed\n"


def test_set_changes_what_is_given(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    use_supervisor(monkeypatch, three)

    typed = "--name uno --title T --tag y --custom a=b --turns 5 --limit tokens=none --json"
    made = call("set", "one", *typed.split()).json
    assert (made["name"], made["title"], made["tags"]) == ("uno", "T", ["y"])
    assert made["custom"] == {"a": "b"}
    assert (made["limits"]["turns"], made["limits"]["max_children"]) == (5, 5)
    assert call("set", "one", "--no-tags", "--json").json["tags"] == []
    assert [call("set", "one", *words).code for words in ([], ["--custom", "a"])] == [2, 2]


async def failing(sup: supervisor.Supervisor) -> None:
    session = await sup.create("scripted", name="bob")
    await session.send("sleep 0.2\nfail no paper")


async def working(sup: supervisor.Supervisor) -> None:
    session = await sup.create("scripted", name="bob")
    await session.send("sleep 0.2\nsay done")


async def asking_later(sup: supervisor.Supervisor) -> None:
    session = await sup.create("scripted", name="bob")
    await session.send("sleep 0.2\nask rm")


async def failing_twice(sup: supervisor.Supervisor) -> None:
    session = await sup.create("scripted", name="bob")
    await session.prompt("fail no paper")
    await session.send("sleep 0.2\nfail no ink")


@pytest.mark.parametrize(
    ("prepare", "typed", "code", "said"),
    [
        (working, "bob", 0, "bob  completed"),
        (failing, "bob", 1, "bob  failed"),
        (idle, "bob", 0, "bob  idle"),
        (stopped, "bob", 0, "bob  completed"),
        (three, "--all", 0, "two  idle"),
        (asking, "--any --for attention", 0, "bob  waiting"),
        (stopped, "bob --for stopped", 0, "bob  "),
        (busy, "bob --timeout 0.05", 124, ""),
        (asking, "--any --for attention --new --timeout 0.05", 124, ""),
        (asking_later, "--any --for attention --new", 0, "bob  waiting"),
        (failing_twice, "bob --for attention --new", 1, "bob  failed"),
        (idle, "bob --new", 2, ""),
        (idle, "nobody", 3, ""),
        (idle, "", 2, ""),
        (idle, "bob --any --all", 2, ""),
    ],
)
def test_the_exit_code_of_wait_says_the_outcome(
    prepare: Prepare,
    typed: str,
    code: int,
    said: str,
    *,
    call: Caller,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_supervisor(monkeypatch, prepare)

    done = call("wait", *typed.split())

    assert (done.code, said in done.out) == (code, True), (done.out, done.err)
    assert code != 124 or done.err.endswith("still waiting for 1 session: bob\n")


async def test_a_wait_for_new_attention_includes_sessions_created_later(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async with supervisor.open() as sup:
        await asking(sup)

        @asynccontextmanager
        async def opened(*_: object, **__: object) -> AsyncIterator[supervisor.Supervisor]:
            yield sup

        monkeypatch.setattr(wait, "open_target", opened)
        waiter = wait._Waiter(Screen(), "attention", is_any=True, is_new=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(waiter.run, (), 30.0)
            await trio.testing.wait_all_tasks_blocked()
            late = await sup.create("scripted", name="late")
            await late.send("ask rm")

    assert capsys.readouterr().out == "late  waiting\n"


async def spending(sup: supervisor.Supervisor) -> None:
    limits = supervisor.Limits(turns=4, tokens=1000)
    session = await sup.create("scripted", name="bob", limits=limits)
    await session.prompt("use 250\nsay done")
    child = await session.spawn("scripted", "use 50", name="child")
    await child.wait()


def test_usage_is_shown_by_session_tree_agent_and_day(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_supervisor(monkeypatch, spending)

    def tokens(*typed: str) -> dict[str, int]:
        found = call("usage", *typed, "--json").json["items"]
        return {one["name"]: one["tokens"] for one in found}

    assert tokens("--by", "session") == {"bob": 250, "child": 50}
    assert tokens() == {"bob": 300}
    assert tokens("child") == {"child": 50}
    assert tokens("--by", "agent") == {"scripted": 300}
    assert list(tokens("--by", "day").values()) == [300]
    shown = call("usage").out
    assert "bob  ##########----------  2/4 turns" in shown.replace("█", "#").replace("░", "-")


def test_usage_of_sessions_with_one_name_is_told_apart(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids: list[str] = []

    async def namesakes(sup: supervisor.Supervisor) -> None:
        session = await sup.create("scripted", name="bob")
        child = await session.spawn("scripted", "use 50", name="bob")
        await child.wait()
        ids[:] = [session.id, child.id]

    use_supervisor(monkeypatch, namesakes)

    found = call("usage", "--by", "session", "--json").json["items"]
    assert [(one["name"], one["session_id"]) for one in found] == [("bob", whole) for whole in ids]
    heading, *rows = call("usage", "--by", "session").out.splitlines()
    assert heading.split()[:2] == ["SESSION", "ID"]
    assert all(whole.startswith(row.split()[1]) for whole, row in zip(ids, rows, strict=True))


async def test_a_wait_that_ends_early_does_not_count_sessions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiter = wait._Waiter(Screen(), "turn", is_any=False, is_new=False)
    waiter._note_timeout(1.0)

    assert capsys.readouterr().err == "Timed out after 1.0 s; still looking for sessions\n"


def test_usage_reads_a_store_file(call: Caller, kept: Kept) -> None:
    found = call("usage", "--by", "agent", "--state", kept.path, "--json").json["items"]

    assert {one["name"]: one["turns"] for one in found} == {"echo": 3, "scripted": 1}


def test_each_way_to_list_usage_has_the_time_of_turns(call: Caller, kept: Kept) -> None:
    def seconds(by: str) -> list[float]:
        found = call("usage", "--by", by, "--state", kept.path, "--json").json["items"]
        return [one["wall_seconds"] for one in found]

    assert len(seconds("session")) == 4
    for by in ("session", "agent", "tree"):
        assert all(seconds(by))
        assert sum(seconds(by)) == pytest.approx(sum(seconds("day")))


def test_several_requests_of_one_session_are_not_guessed(
    call: Caller, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    @supervisor.agent("asker")
    async def asker(turn: supervisor.Turn) -> None:
        async with trio.open_nursery() as nursery:
            for tool in ("rm", "cp"):
                nursery.start_soon(partial(turn.ask, f"{tool}?", tool=tool))

    async def twice(sup: supervisor.Supervisor) -> None:
        await sup.reload(agents=[asker])
        session = await sup.create("asker", name="bob", workspace=str(tmp_path))
        async with session.watch() as feed:
            await session.send("go")
            seen = 0
            async for item in feed:
                seen += isinstance(item, supervisor.Record) and item.kind == "permission_asked"
                if seen == 2:
                    break

    use_supervisor(monkeypatch, twice)

    done = call("answer", "bob", "yes", "--json")

    error = orjson.loads(done.err)["error"]
    assert (done.code, error["code"]) == (2, "ambiguous_id")
    assert [(one["kind"], one["name"]) for one in error["candidates"]] == [("request", "bob")] * 2
    assert "bob has 2 pending requests: req_" in call("answer", "bob", "yes").err
