"""`understudy run`: output and exit code."""

import sys
from pathlib import Path

import pytest

from tests.support.cli_runner import Caller, in_a_process

SCRIPTED = ("run", "--agent", "scripted")


def test_run_prints_the_agent_text(call: Caller) -> None:
    done = call("run", "hello", "world")

    assert (done.code, done.out, done.err) == (0, "hello world\n", "")


@pytest.mark.parametrize("arguments", [["run"], ["run", "-"]])
def test_the_text_may_be_piped_in(arguments: list[str], call: Caller) -> None:
    assert call(*arguments, stdin="two\nlines\n").out == "two\nlines\n"


def test_texts_between_tool_calls_are_on_separate_lines(call: Caller) -> None:
    assert call(*SCRIPTED, "say one\ntool bash 0\nsay two").out == "one\ntwo\n"


def test_text_streamed_in_chunks_is_complete(call: Caller) -> None:
    done = call(*SCRIPTED, "flood 200")

    assert done.out.count("flood flood") > 200
    assert done.out.count("\n") == 1


def test_escape_sequences_are_removed_even_in_chunks(call: Caller) -> None:
    done = call(*SCRIPTED, "say a\x1b]52;c;\nsay aGk=\x07b\nsay \x9b2Jc")

    assert done.out == "abc\n"


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("fail oops", 1, "error: the turn failed: RuntimeError: oops\n"),
        ("crash", 1, "error: the turn was lost: the script says crash\n"),
        ("nonsense", 1, "line 1 of the script begins with 'nonsense'"),
    ],
)
def test_the_exit_code_depends_on_the_outcome(
    script: str, code: int, said: str, call: Caller
) -> None:
    done = call(*SCRIPTED, script)

    assert done.code == code
    assert said in done.err


def test_a_turn_that_takes_too_long_is_ended(call: Caller) -> None:
    done = call(*SCRIPTED, "--timeout", "0.1s", "sleep 60")

    assert done.code == 1
    assert "the turn took too long" in done.err


def test_permission_requests_are_rejected_without_a_terminal(call: Caller) -> None:
    done = call(*SCRIPTED, "ask rm")

    assert done.out == "rm: rejected\n"
    assert "--yes allows everything" in done.err


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        (["--yes"], "allowed"),
        (["--mode", "approve_all"], "allowed"),
        (["--mode", "deny_all"], "rejected"),
    ],
)
def test_yes_allows_permission_requests(options: list[str], answer: str, call: Caller) -> None:
    assert call(*SCRIPTED, *options, "ask rm").out == f"rm: {answer}\n"


def test_permission_requests_of_children_are_answered(call: Caller) -> None:
    """Else the child would wait for its time-out."""
    done = call(*SCRIPTED, "spawn scripted ask rm\nsleep 0.3")

    assert "rejected: May I use rm?" in done.err


def test_json_output_has_every_record_and_the_result(call: Caller) -> None:
    *records, last = call("run", "--json", "hello").json_lines

    assert [record["seq"] for record in records] == list(range(1, len(records) + 1))
    assert records[-1]["kind"] == "turn_ended"
    assert last["result"]["text"] == "hello"
    assert last["session_id"] == records[0]["session_id"]


def test_the_session_is_kept_only_with_state(call: Caller, home: Path) -> None:
    call("run", "in passing")
    assert list(home.rglob("*")) == []

    call("run", "for later", "--state", "state.db")
    assert "for later" in call("search", "later", "--state", "state.db").out.replace(
        "[later]", "later"
    )


def test_an_unknown_agent_exits_with_not_found(call: Caller) -> None:
    done = call("run", "--agent", "nobody", "hello")

    assert done.code == 3
    assert "use one of echo, scripted" in done.err


def test_a_missing_preset_has_an_installation_hint(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")

    done = call("run", "--agent", "codex", "hello")

    assert done.code == 3
    assert "hint: install it: npm install" in done.err


def test_configured_agents_can_be_used(call: Caller, home: Path) -> None:
    """A real process, in the folder that we are in."""
    file = home / "understudy.toml"
    words = f'["{sys.executable}", "-m", "supervisor.drivers.scripted"]'
    file.write_text(f"[agents.mine]\ncommand = {words}\n")
    file.chmod(0o600)

    assert call("run", "--agent", "mine", "cwd").out == f"{home}\n"


def test_a_text_that_is_too_large_is_refused_by_a_limit(call: Caller) -> None:
    done = call("run", stdin="x" * 70_000)

    assert done.code == 4
    assert "error: " in done.err


def test_blank_text_is_refused(call: Caller) -> None:
    assert call("run", stdin="\n").code == 2
    assert call("run", " ").code == 2


def test_yes_and_mode_exclude_each_other(call: Caller) -> None:
    assert call("run", "--yes", "--mode", "deny_all", "x").code == 2


def test_text_is_printed_while_the_turn_runs() -> None:
    """Between real pipes: the first line is there while the turn still runs."""
    done = in_a_process(*SCRIPTED, "say first\ntool bash 0.1\nsay second")

    assert done.out == "first\nsecond\n"
