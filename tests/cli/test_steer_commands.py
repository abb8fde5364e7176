"""Commands that change sessions, against a supervisor in place of the daemon."""

import re
from functools import partial
from itertools import count

import pytest

import supervisor
from supervisor.core.match import IdKind
from supervisor.sessions.services import Ids
from tests.support.cli_daemon import Daemon, Prepare, use_supervisor
from tests.support.cli_runner import Caller


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch) -> Daemon:
    """Have commands find a supervisor in which that was done before."""
    return partial(use_supervisor, monkeypatch)


async def nobody(_: supervisor.Supervisor) -> None:
    """Nothing is there yet."""


async def idle(sup: supervisor.Supervisor) -> None:
    await sup.create("echo", name="bob")


async def scripted(sup: supervisor.Supervisor) -> None:
    await sup.create("scripted", name="bob")


async def stopped(sup: supervisor.Supervisor) -> None:
    session = await sup.create("echo", name="bob")
    await session.prompt("hello")
    await session.stop()


async def busy(sup: supervisor.Supervisor) -> None:
    session = await sup.create("scripted", name="bob")
    await session.send("tool bash 60\nsay over")
    await _seen(session, "tool_call")


async def _seen(session: supervisor.Session, kind: str) -> None:
    async with session.watch() as feed:
        async for item in feed:
            if isinstance(item, supervisor.Record) and item.kind == kind:
                return


async def queued_without_steering(sup: supervisor.Supervisor) -> None:
    session = await sup.create("slow", name="bob")
    await session.send("begin")
    await _seen(session, "turn_started")
    await session.send("later")


async def archived(sup: supervisor.Supervisor) -> None:
    session = await sup.create("echo", name="bob")
    await session.stop()
    await session.archive()


async def keyed(sup: supervisor.Supervisor) -> None:
    await sup.create("echo", key="echo:mail:bob")


async def one_letter(sup: supervisor.Supervisor) -> None:
    await sup.create("echo", name="x")


async def full(sup: supervisor.Supervisor) -> None:
    await busy(sup)
    (session,) = (await sup.list()).items
    for text in ("say one", "say two"):
        await sup.session(session.id).send(text)


async def asking(sup: supervisor.Supervisor) -> None:
    session = await sup.create("scripted", name="bob")
    await session.send("ask rm")
    await _seen(session, "permission_asked")


def test_new_creates_a_session(call: Caller, daemon: Daemon) -> None:
    daemon(nobody)

    made = call("new", "echo", "--name", "bob", "--tag", "a", "--tag", "b", "--json").json

    assert (made["name"], made["tags"], made["badge"]) == ("bob", ["a", "b"], "idle")
    assert call("new", "echo").out.startswith("s_")


def test_new_with_an_unknown_agent_exits_with_not_found(call: Caller, daemon: Daemon) -> None:
    daemon(nobody)

    assert call("new", "nobody").code == 3


def test_an_input_is_sent_and_its_result_awaited(call: Caller, daemon: Daemon) -> None:
    daemon(idle)

    assert call("send", "bob", "hello").out.startswith("started  in_")
    assert call("send", "bob", "hello", "there", "--wait").out == "hello there\n"
    assert call("send", "bob", "--wait", stdin="from a pipe\n").out == "from a pipe\n"


def test_send_wait_reports_the_reason_for_a_missing_result(call: Caller, daemon: Daemon) -> None:
    daemon(scripted)

    failed = call("send", "bob", "say half\nfail no paper", "--wait")
    assert (failed.code, failed.out) == (1, "half\n")
    assert failed.err == "error: the turn failed: RuntimeError: no paper\n"


def test_an_input_for_a_busy_session_is_queued(call: Caller, daemon: Daemon) -> None:
    daemon(busy)

    assert call("send", "bob", "hello").out.startswith("queued at place 1  in_")
    assert call("send", "bob", "hello", "--when-busy", "reject").code == 1


def test_an_input_for_a_stopped_session_says_that_it_resumes_it(
    call: Caller, daemon: Daemon
) -> None:
    daemon(stopped)

    assert call("send", "bob", "hello").err == "bob was stopped; this input resumes it.\n"
    refused = call("send", "bob", "hello", "--if-stopped", "reject")
    assert (refused.code, "resumes it" in refused.err) == (1, False)


def test_an_input_above_the_queue_cap_is_refused(call: Caller, daemon: Daemon) -> None:
    daemon(full)

    assert call("send", "bob", "hello").code == 4


def test_steer_reaches_only_a_running_turn(call: Caller, daemon: Daemon) -> None:
    daemon(busy)
    assert call("steer", "bob", "softer").out.startswith("staged  in_")

    daemon(idle)
    assert call("steer", "bob", "softer").code == 1


def test_a_turn_is_interrupted(call: Caller, daemon: Daemon) -> None:
    daemon(busy)

    done = call("interrupt", "bob", "--json").json

    assert (done["scope"], done["matched"], done["stopped"]) == ("turn", 1, 1)
    assert "interrupted in" in call("interrupt", "bob", "--tree").out


def test_an_interrupt_of_an_ended_turn_changes_nothing(call: Caller, daemon: Daemon) -> None:
    daemon(idle)

    done = call("interrupt", "bob")

    assert (done.code, done.out, done.err) == (0, "Nothing to interrupt.\n", "")


def test_an_interrupt_of_nothing_sends_the_replacement(call: Caller, daemon: Daemon) -> None:
    daemon(idle)

    done = call("interrupt", "bob", "--replace-with", "other")

    assert done.out == "Nothing to interrupt.\n"
    assert done.err.startswith("The text was sent as an input: in_")


@pytest.mark.parametrize("kind", ["turn", "call"])
def test_an_interrupt_of_an_unknown_id_exits_with_not_found(
    kind: str, call: Caller, daemon: Daemon
) -> None:
    daemon(idle)

    done = call("interrupt", "bob", f"--{kind}", "never", "--replace-with", "other")

    assert (done.code, done.out) == (3, "")
    assert f"no {kind} of session" in done.err


async def named_twice(sup: supervisor.Supervisor) -> None:
    await sup.create("echo", name="bob")
    await sup.create("echo", name="ann")


async def hanging(sup: supervisor.Supervisor) -> None:
    session = await sup.create("scripted", name="bob")
    await session.send("hang")
    await _seen(session, "turn_started")


def test_an_interrupt_of_a_turn_that_hangs_says_that_its_task_still_runs(
    call: Caller, daemon: Daemon
) -> None:
    daemon(hanging)

    done = call("interrupt", "bob")

    assert (done.code, "still running after" in done.out) == (1, True)
    assert "its task still runs (a zombie)" in done.err
    assert "`understudy fork bob` continues the conversation in a new session" in done.err


def test_interrupt_takes_only_one_scope(call: Caller) -> None:
    assert call("interrupt", "bob", "--call", "x", "--tree").code == 2


def test_a_child_is_spawned_below_its_parent(call: Caller, daemon: Daemon) -> None:
    daemon(idle)

    child = call("spawn", "bob", "echo", "hello", "--detached", "--ttl", "10m", "--json").json

    assert (child["depth"], child["lifetime"], child["role"]) == (1, "detached", "worker")


@pytest.mark.parametrize(
    ("words", "stdin"),
    [(("hello", "to", "you"), ""), ((), "hello to you\n"), (("-",), "hello to you")],
)
def test_the_text_of_a_child_is_several_words_or_standard_input(
    words: tuple[str, ...], stdin: str, call: Caller, daemon: Daemon
) -> None:
    daemon(idle)

    child = call("spawn", "bob", "echo", *words, "--role", "reader", "--json", stdin=stdin).json

    assert (child["title"], child["role"]) == ("hello to you", "reader")


def test_rm_takes_an_exact_name(call: Caller, daemon: Daemon) -> None:
    daemon(idle)

    assert call("rm", "bob").out.endswith("  deleted\n")


def test_rename_gives_another_name_unless_it_is_taken(call: Caller, daemon: Daemon) -> None:
    daemon(named_twice)

    assert call("rename", "bob", "eve", "--json").json["name"] == "eve"
    refused = call("rename", "bob", "ann")
    assert refused.code == 1
    assert "is taken" in refused.err
    assert "path finds it: builder/tests" in refused.err


def test_queued_inputs_are_listed_edited_moved_and_cancelled(call: Caller, daemon: Daemon) -> None:
    daemon(full)
    first, second = call("inputs", "bob", "--json").json["items"]
    assert [first["text"], second["text"]] == ["say one", "say two"]

    # Each call finds another supervisor, in which nothing was changed yet.
    assert "say one" in call("inputs", "bob").out
    unknown = call("inputs", "bob", "--cancel", "nothing")
    assert (unknown.code, "`understudy inputs bob` lists them" in unknown.err) == (3, True)


def test_places_of_queued_inputs_count_from_1(call: Caller, daemon: Daemon) -> None:
    daemon(full)

    def places(*change: str) -> list[tuple[str, str]]:
        _, *rows = call("inputs", "bob", *change).out.splitlines()
        return [(row.split()[0], row[row.index("say") :]) for row in rows]

    assert places() == [("1", "say one"), ("2", "say two")]
    assert places("--move", "2", "1") == [("1", "say two"), ("2", "say one")]
    assert places("--cancel", "1") == [("1", "say two")]
    assert places("--edit", "2", "say three")[1] == ("2", "say three")
    assert call("inputs", "bob", "--move", "2", "0").code == 2
    assert call("inputs", "bob", "--cancel", "3").code == 3


def test_permission_requests_are_listed_and_answered(call: Caller, daemon: Daemon) -> None:
    daemon(asking)

    (request,) = call("inbox", "--json").json["items"]
    assert (request["tool"], request["options"][0]) == ("rm", "allow_once")
    shown = call("inbox").out.splitlines()
    assert re.fullmatch(r"req_\w+  bob  rm  (now|\d+ s).*", shown[0])
    assert shown[1] == "    May I use rm?"
    assert call("answer", "nothing", "allow_once").code == 3
    assert call("answer", "bob", "perhaps").code == 2


@pytest.mark.parametrize(
    ("prepare", "command", "badge"),
    [
        (idle, ("stop", "bob"), "stopped"),
        (busy, ("stop", "bob"), "stopped"),
        (stopped, ("resume", "bob"), "idle"),
        (idle, ("clear", "bob"), "idle"),
        (stopped, ("archive", "bob"), "stopped"),
    ],
)
def test_lifecycle_commands_print_the_resulting_state(
    prepare: Prepare, command: tuple[str, ...], badge: str, call: Caller, daemon: Daemon
) -> None:
    daemon(prepare)

    done = call(*command, "--json")

    assert done.code == 0
    assert done.json["badge"] == badge
    assert badge in call(*command).out


def test_a_fork_has_the_same_history(call: Caller, daemon: Daemon) -> None:
    daemon(stopped)

    assert call("fork", "bob", "--json").json["messages"] == 2
    named = call("fork", "bob", "--name", "eve", "--json").json
    assert (named["name"], named["messages"]) == ("eve", 2)
    assert call("fork", "bob", "--name", "bob").code == 1


def test_rm_refuses_a_part_of_an_id(
    call: Caller, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = count(10)
    monkeypatch.setattr(Ids, "new", lambda _, prefix: f"{prefix}_{next(numbers)}same456789")
    daemon(idle)

    assert call("show", "10same").code == 0

    numbers = count(10)
    refused = call("rm", "10same")
    assert refused.code == 3
    assert "write the whole id or the name" in refused.err


def test_attach_in_a_pipe_names_the_session_before_the_terminal(
    call: Caller, daemon: Daemon
) -> None:
    daemon(idle)

    assert call("attach", "nobody").code == 3
    refused = call("attach", "bob")
    assert (refused.code, "`understudy watch bob` prints" in refused.err) == (2, True)


def test_why_explains_the_wait_of_a_session(call: Caller, daemon: Daemon) -> None:
    daemon(busy)

    assert "waits for a tool" in call("why", "bob").out
    assert call("why", "bob", "--json").json["chain"][0]["waits_for"] == "tool"


def test_why_says_why_a_session_has_stopped(call: Caller, daemon: Daemon) -> None:
    daemon(stopped)

    assert ") has stopped by a user, and waits for nothing, for " in call("why", "bob").out


async def zombie(sup: supervisor.Supervisor) -> None:
    await hanging(sup)
    await sup.session((await sup.list()).items[0].id).interrupt("turn")


def test_why_and_show_say_what_helps_against_a_zombie(call: Caller, daemon: Daemon) -> None:
    daemon(zombie)

    why, show = call("why", "bob"), call("show", "bob")

    assert re.match(r"bob \(s_\w+, scripted, unhealthy\) waits", why.out)
    assert "waits for the task of an ended turn, a zombie (turn_" in why.out
    assert "`understudy fork bob` continues" in why.err
    assert "`understudy fork bob` continues" in show.err


async def family(sup: supervisor.Supervisor) -> None:
    await busy(sup)
    (parent,) = (await sup.list()).items
    for name in ("ann", "eve"):
        child = await sup.session(parent.id).spawn("scripted", "sleep 60", name=name)
        await _seen(child, "turn_started")


def test_stop_counts_the_children_that_stop_too(call: Caller, daemon: Daemon) -> None:
    daemon(family)

    assert re.search(r"children +ann \(s_\w+\), eve \(s_", call("show", "bob").out)
    assert call("stop", "bob").out.endswith("bob, with 2 descendants\n")
    assert call("stop", "ann").out.endswith("ann\n")


def test_promote_says_that_the_agent_cannot_be_steered(
    call: Caller, daemon: Daemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []

    async def prepare(sup: supervisor.Supervisor) -> None:
        await queued_without_steering(sup)
        (info,) = (await sup.list()).items
        (waiting,) = await sup.session(info.id).inputs()
        found.append(waiting.id)

    async def resolve(
        sup: supervisor.Supervisor, text: str, kind: IdKind, *, session: str | None
    ) -> supervisor.Page[supervisor.Match]:
        text = found[-1] if text == "in_x" else text  # ids differ between supervisors
        return await real(sup, text, kind, session=session)

    real = supervisor.Supervisor.resolve
    monkeypatch.setattr(supervisor.Supervisor, "resolve", resolve)
    daemon(prepare)

    done = call("inputs", "bob", "--promote", "in_x")

    assert done.code == 0
    assert "The agent cannot be steered; the input stays queued" in done.err


def test_a_session_with_a_name_of_one_letter_is_found(call: Caller, daemon: Daemon) -> None:
    daemon(one_letter)

    assert call("send", "x", "hello", "--wait").out == "hello\n"
    assert call("send", "y", "hello").code == 3


@pytest.mark.parametrize(
    ("prepare", "command", "hint"),
    [
        (archived, ["send", "bob", "hello"], "unarchive it with `understudy archive ID --undo`"),
        (
            busy,
            ["send", "bob", "x", "--when-busy", "reject"],
            "send it later, or with another --when-busy",
        ),
        (
            stopped,
            ["fork", "bob", "--at-turn", "nope"],
            "` lists them",
        ),
        (idle, ["search", "x", "--cursor", "zzz"], "or leave it out for the first"),
        (
            keyed,
            ["new", "echo", "--key", "echo:mail:bob"],
            "send to that session, or archive it",
        ),
    ],
)
def test_hints_name_commands_and_options(
    call: Caller, daemon: Daemon, prepare: Prepare, command: list[str], hint: str
) -> None:
    daemon(prepare)

    assert hint in call(*command).err


@pytest.mark.parametrize(
    "command",
    [
        ["new", "echo", "--key", "x"],
        ["new", "echo", "--name", ""],
        ["send", "bob", " "],
        ["spawn", "bob", "echo", ""],
    ],
)
def test_invalid_values_are_wrong_usage(call: Caller, daemon: Daemon, command: list[str]) -> None:
    daemon(idle)

    assert call(*command).code == 2


def test_standard_input_that_is_not_text_is_refused(call: Caller, daemon: Daemon) -> None:
    daemon(idle)

    done = call("send", "bob", "-", stdin="\udcff")

    assert (done.code, "Standard input is not UTF-8." in done.err) == (2, True)
