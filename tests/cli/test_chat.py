"""`understudy chat` in a pipe."""

import re

from tests.support.cli_runner import Caller

SCRIPTED = ("chat", "--agent", "scripted")


def test_piped_lines_are_inputs_and_all_are_answered(call: Caller) -> None:
    done = call("chat", stdin="hello\n\nand good bye\n")

    assert (done.code, done.out) == (0, "hello\nand good bye\n")


def test_a_line_typed_while_busy_is_queued(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="tool bash 0.3\nsay second\nsay third\n/inputs\n")

    assert "queued, at place 1" in done.err
    assert "say third" in done.out
    assert done.out.endswith("second\nthird\n")


def test_a_turn_is_steered(call: Caller) -> None:
    lines = "tool bash 0.3\n/steer softly\n"
    assert "steering" in call(*SCRIPTED, stdin=lines).err

    records = call(*SCRIPTED, "--json", stdin=lines).json_lines
    (said,) = [one["body"] for one in records if one["body"].get("steered")]
    assert said["text"] == "softly"
    assert [one["kind"] for one in records].count("turn_ended") == 1


def test_interrupt_replaces_the_turn_with_a_text(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="sleep 60\n/interrupt say instead\n")

    assert done.out == "instead\n"


def test_a_queued_input_is_cancelled(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="tool bash 0.3\nsay never\n/cancel 1\n/cancel 7\n")

    assert "cancelled: say never" in done.err
    assert "error: no input is queued at '7'" in done.err
    assert done.out == ""


def test_quit_exits_at_once(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="sleep 60\n/quit\nsay never\n")

    assert (done.code, done.out) == (0, "")


def test_an_unknown_command_is_reported(call: Caller) -> None:
    done = call("chat", stdin="/nonsense\n//slash\n/help\n/why\n/show\n")

    assert "error: unknown command /nonsense\nhint: the commands are /help, /steer," in done.err
    assert "/steer TEXT" in done.err
    assert "/slash\n" in done.out
    assert re.search(r"waits for (an input|the model), for", done.err)
    assert "agent      echo" in done.out


def test_a_failed_turn_does_not_end_the_chat(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="fail oops\nsay still here\n")

    assert "error: RuntimeError: oops" in done.err
    assert done.out == "still here\n"


def test_a_crashed_agent_does_not_end_the_chat(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="crash\nsay back again\n")

    assert done.out == "back again\n"


def test_permission_requests_are_rejected_in_a_pipe(call: Caller) -> None:
    assert call(*SCRIPTED, stdin="ask rm\n").out == "rm: rejected\n"


def test_json_output_has_every_record(call: Caller) -> None:
    kinds = [record["kind"] for record in call("chat", "--json", stdin="hello\n").json_lines]

    assert kinds[0] == "session_created"
    assert "turn_ended" in kinds
