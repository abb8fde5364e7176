"""The scripted agent as a real process: descriptors, signals and children.

These start processes, each for a fraction of a second.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import scripted_process
from tests.support.scripted_process import RunningAgent

TERM_BIT = 1 << (signal.SIGTERM - 1)


def test_a_process_answers_a_prompt_and_exits_when_its_input_ends() -> None:
    with RunningAgent() as agent:
        answer = agent.answer_to(agent.prompt(agent.open(), "say hello\ntool bash 0.01"))
        agent.end_input()

        assert answer["result"] == {"stopReason": "end_turn"}
        assert agent.exit_code() == 0
        assert (agent.hear_line(), agent.log()) == (b"", "")


def test_a_process_reads_a_cancel_while_it_sleeps() -> None:
    with RunningAgent() as agent:
        session = agent.open()
        asked = agent.prompt(session, "say asleep\nsleep 1000")
        agent.hear_text()

        agent.notify("session/cancel", sessionId=session)

        assert agent.answer_to(asked)["result"] == {"stopReason": "cancelled"}


def test_a_process_reads_an_answer_while_it_waits() -> None:
    with RunningAgent() as agent:
        agent.prompt(agent.open(), "ask bash")
        request = agent.hear()

        outcome = {"outcome": "selected", "optionId": "option-1"}
        agent.send({"id": request["id"], "result": {"outcome": outcome}})

        assert agent.hear_text() == "bash: allowed\n"


def test_a_process_reads_its_input_while_its_output_is_full() -> None:
    with RunningAgent() as agent:
        session = agent.open()
        asked = agent.prompt(session, "say now\nflood 900000000")
        agent.hear_text()

        agent.notify("session/cancel", sessionId=session)

        assert agent.answer_to(asked)["result"] == {"stopReason": "cancelled"}


@pytest.mark.parametrize(
    ("step", "code", "logged"),
    [
        ("crash", 1, "scripted: the script says crash\n"),
        ("exit 0", 0, ""),
        ("exit 7", 7, ""),
        ("log oh dear\nexit 3", 3, "oh dear\n"),
    ],
)
def test_a_process_that_exits_in_a_turn_writes_its_last_output(
    step: str, code: int, logged: str
) -> None:
    with RunningAgent() as agent:
        agent.prompt(agent.open(), f"say last words\n{step}\nsay never")

        assert agent.hear_text() == "last words"
        assert agent.exit_code() == code
        assert (agent.hear_line(), agent.log()) == (b"", logged)


def test_an_exiting_process_waits_only_briefly_for_a_reader() -> None:
    with RunningAgent() as agent:
        agent.prompt(agent.open(), "say now\nflood 100000")
        agent.hear_text()

        agent.end_input()

        assert agent.exit_code() == 0


def test_a_process_dies_in_a_phase() -> None:
    with RunningAgent("--die-at", "initialize") as agent:
        agent.request("initialize", protocolVersion=1)

        assert agent.exit_code() == 1
        assert "told to die at initialize" in agent.log()


def test_a_process_with_a_closed_output_exits() -> None:
    with RunningAgent() as agent:
        session = agent.open()
        agent.stop_listening()

        agent.prompt(session, "say hello")

        assert agent.exit_code() == 1


def test_an_invalid_command_line_is_reported_on_standard_error() -> None:
    with RunningAgent("--sing") as agent:
        assert agent.exit_code() == 2
        assert "unknown flag '--sing' (hint: " in agent.log()


# Children ----------------------------------------------------------------------------------------


def test_fork_starts_children_in_its_own_group() -> None:
    with RunningAgent() as agent:
        agent.prompt(agent.open(), "fork 3")
        pids = agent.hear_pids()

        assert len(set(pids)) == 3
        assert {scripted_process.parent(pid) for pid in pids} == {agent.pid}
        assert {os.getpgid(pid) for pid in pids} == {agent.pid}


def test_setsid_starts_an_orphan_in_a_session_of_its_own() -> None:
    with RunningAgent() as agent:
        asked = agent.prompt(agent.open(), "setsid")
        (pid,) = agent.hear_pids()
        agent.answer_to(asked)

        assert scripted_process.parent(pid) != agent.pid
        assert os.getsid(pid) not in (agent.pid, os.getsid(0))


def test_children_outlive_the_process_and_keep_its_output_open() -> None:
    with RunningAgent() as agent:
        agent.prompt(agent.open(), "fork\nexit 0")
        (pid,) = agent.hear_pids()
        agent.exit_code()

        assert scripted_process.state(pid) not in "ZX"


# Signals -----------------------------------------------------------------------------------------


def test_a_process_ends_by_sigterm() -> None:
    with RunningAgent() as agent:
        agent.open()
        agent.signal(signal.SIGTERM)

        assert agent.exit_code() == -signal.SIGTERM


def test_ignore_term_ignores_sigterm_and_children_inherit_it() -> None:
    with RunningAgent() as agent:
        session = agent.open()
        agent.prompt(session, "fork\nignore-term\nfork")
        (before,), (after,) = agent.hear_pids(), agent.hear_pids()
        agent.signal(signal.SIGTERM)

        assert agent.answer_to(agent.prompt(session, "say still here"))["result"]
        assert [
            bool(scripted_process.ignored_signals(pid) & TERM_BIT) for pid in (before, after)
        ] == [
            False,
            True,
        ]


def test_stop_self_stops_the_process_until_sigcont() -> None:
    with RunningAgent() as agent:
        asked = agent.prompt(agent.open(), "say stopping\nstop-self\nsay again")
        assert agent.hear_text() == "stopping"
        scripted_process.wait_for_state(agent.pid, "T")

        agent.signal(signal.SIGCONT)

        assert agent.answer_to(asked)["result"] == {"stopReason": "end_turn"}


# Descriptors -------------------------------------------------------------------------------------


def test_spew_writes_bytes_without_a_newline() -> None:
    with RunningAgent() as agent:
        asked = agent.prompt(agent.open(), "spew 1000000\nraw")

        assert agent.hear_line() == b"x" * 1_000_000 + b"\n"
        assert agent.answer_to(asked)["result"] == {"stopReason": "end_turn"}


def test_deaf_stops_reading_and_misses_the_end_of_the_input() -> None:
    with RunningAgent() as agent:
        asked = agent.prompt(agent.open(), "deaf\nsay what?\nsleep 0.1")
        agent.hear_text()
        unheard = agent.request("session/new", cwd="/", mcpServers=[])
        agent.end_input()
        agent.answer_to(asked)

        assert unheard not in [said.get("id") for said in agent.heard]
        assert agent.is_running


def test_ignore_eof_goes_on_after_the_end_of_the_input() -> None:
    with RunningAgent() as agent:
        asked = agent.prompt(agent.open(), "ignore-eof\nsay go\nsleep 0.1\nsay on")
        agent.hear_text()

        agent.end_input()

        assert agent.hear_text() == "on"
        assert agent.answer_to(asked)["result"]


def test_close_stdout_ends_the_output_and_not_the_process() -> None:
    with RunningAgent() as agent:
        agent.prompt(agent.open(), "say bye\nclose-stdout\nsay never")

        assert agent.hear_text() == "bye"
        assert agent.hear_line() == b""
        assert agent.is_running
        agent.end_input()
        assert agent.exit_code() == 0


def test_env_says_the_variable_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_TEST", "here")
    with RunningAgent() as agent:
        agent.prompt(agent.open(), "env UNDERSTUDY_TEST")

        assert agent.hear_text() == "UNDERSTUDY_TEST=here\n"


# Starting again ----------------------------------------------------------------------------------


def test_another_process_loads_a_saved_conversation(tmp_path: Path) -> None:
    with RunningAgent("--state", str(tmp_path)) as first:
        session = first.open()
        first.answer_to(first.prompt(session, "say hello"))
    with RunningAgent("--state", str(tmp_path), "--load") as second:
        second.request("initialize", protocolVersion=1)
        second.request("session/load", sessionId=session, cwd="/", mcpServers=[])

        assert second.hear_text() == "hello"


def test_the_process_imports_no_slow_modules() -> None:
    ask = "import sys, supervisor.drivers.scripted.__main__; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", ask], capture_output=True, check=True).stdout
    tops = {module.partition(".")[0] for module in loaded.decode().split()}

    # Whatever an interpreter has by itself, and the standard library.
    ours = {name for name in tops if not name.startswith(("_", "sitecustomize", "zipimport"))}
    foreign = {"trio", "attr", "attrs", "cattrs", "orjson", "outcome", "actors"}
    slow = {"asyncio", "argparse", "dataclasses", "inspect", "pathlib", "subprocess"}
    assert ours & (foreign | slow) == set()
