"""chat: a conversation through a pipe."""

from tests.cli.calling import Caller

SCRIPTED = ("chat", "--agent", "scripted")


def test_every_line_is_an_input_and_the_end_is_awaited(call: Caller) -> None:
    done = call("chat", stdin="hello\n\nand good bye\n")

    assert (done.code, done.out) == (0, "hello\nand good bye\n")


def test_what_comes_while_it_is_busy_waits_in_the_queue(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="tool bash 0.3\nsay second\nsay third\n/inputs\n")

    assert "queued, at place 0" in done.err
    assert "say third" in done.out
    assert done.out.endswith("second\nthird\n")


def test_a_turn_is_steered(call: Caller) -> None:
    lines = "tool bash 0.3\n/steer softly\n"
    assert "steering" in call(*SCRIPTED, stdin=lines).err

    records = call(*SCRIPTED, "--json", stdin=lines).json_lines
    (said,) = [one["body"] for one in records if one["body"].get("steered")]
    assert said["text"] == "softly"
    assert [one["kind"] for one in records].count("turn_ended") == 1


def test_a_turn_is_interrupted_and_gone_on_with_another_text(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="sleep 60\n/interrupt say instead\n")

    assert done.out == "instead\n"


def test_an_input_that_waits_is_taken_back(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="tool bash 0.3\nsay never\n/cancel 0\n/cancel 7\n")

    assert "cancelled: say never" in done.err
    assert "error: nothing waits at '7'" in done.err
    assert done.out == ""


def test_quit_leaves_at_once(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="sleep 60\n/quit\nsay never\n")

    assert (done.code, done.out) == (0, "")


def test_a_word_that_means_nothing_is_said(call: Caller) -> None:
    done = call("chat", stdin="/nonsense\n//slash\n/help\n/why\n/show\n")

    assert "error: nothing is called /nonsense" in done.err
    assert "/steer TEXT" in done.err
    assert "/slash\n" in done.out
    assert "waits for" in done.err
    assert "agent      echo" in done.out


def test_a_turn_that_fails_is_no_end(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="fail oops\nsay still here\n")

    assert "error: RuntimeError: oops" in done.err
    assert done.out == "still here\n"


def test_an_agent_that_dies_is_no_end_either(call: Caller) -> None:
    done = call(*SCRIPTED, stdin="crash\nsay back again\n")

    assert done.out == "back again\n"


def test_what_is_asked_in_a_pipe_is_rejected(call: Caller) -> None:
    assert call(*SCRIPTED, stdin="ask rm\n").out == "rm: rejected\n"


def test_programs_get_records(call: Caller) -> None:
    kinds = [record["kind"] for record in call("chat", "--json", stdin="hello\n").json_lines]

    assert kinds[0] == "session_created"
    assert "turn_ended" in kinds
