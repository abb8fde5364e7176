"""Words of other programs, and completions that need no daemon."""

import os
import subprocess

import pytest

from supervisor.cli.command_table import COMMANDS
from supervisor.cli.command_words import ALIASES, POINTERS
from tests.cli.test_steer_commands import idle
from tests.support.cli_daemon import use_supervisor
from tests.support.cli_runner import COMMAND, Caller


def test_a_word_of_another_program_runs_our_command(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    use_supervisor(monkeypatch, idle)

    assert [info["name"] for info in call("ls", "--json").json["items"]] == ["bob"]
    assert call("create", "echo").out.startswith("s_")
    assert call("new-session", "echo").out.startswith("s_")
    assert "Create a session" in call("help", "create").out


@pytest.mark.parametrize("word", POINTERS)
def test_an_ambiguous_word_points_to_the_commands(word: str, call: Caller) -> None:
    done = call(word, "x")

    assert done.code == 2
    assert POINTERS[word] in done.err


def test_a_missing_choice_is_reported_on_one_line(call: Caller) -> None:
    said = call("answer", "bob").err.splitlines()

    assert said[0].startswith(
        "error: Missing argument 'DECISION|TEXT'. Choose from: yes, no, always, "
    )
    assert said[1:] == ["hint: see `understudy answer --help`"]


def test_aliases_name_commands_and_hide_none() -> None:
    assert set(ALIASES.values()) <= COMMANDS.keys()
    assert not ALIASES.keys() & COMMANDS.keys()
    assert not ALIASES.keys() & POINTERS.keys()
    assert not POINTERS.keys() & COMMANDS.keys()


@pytest.mark.parametrize(
    ("word", "guess"),
    [
        ("crate", "'crate'. Did you mean create, which is new?"),
        ("serach", "'serach'. Did you mean search?"),
        ("kil", f"'kil'. Did you mean kill? {POINTERS['kill']}."),
        ("qiut", f"'qiut'. Did you mean quit? {POINTERS['quit']}."),
        ("quit", "'quit': Ctrl-D leaves `attach` and `chat`, q leaves `top`;"),
        ("exit", "`understudy stop ID` ends a session, `understudy down` the daemon."),
    ],
)
def test_a_slip_of_the_finger_is_compared_with_words_of_other_programs_too(
    word: str, guess: str, call: Caller
) -> None:
    done = call(word)

    assert done.code == 2
    assert guess in done.err


def completions(line: str) -> list[str]:
    words = f"understudy {line}"
    environ = {"_UNDERSTUDY_COMPLETE": "bash_complete", "COMP_WORDS": words}
    done = subprocess.run(
        COMMAND,
        env={**os.environ, **environ, "COMP_CWORD": str(len(words.split(" ")) - 1)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return [one.split(",", 1)[1] for one in done.stdout.splitlines() if one]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("ps --badge wai", "waiting-for-you"),
        ("config get daemon.s", "daemon.socket"),
        ("log x --kind turn_e", "turn_ended"),
        ("interr", "interrupt"),
        ("answer x ne", "never"),
    ],
)
def test_words_are_completed_without_a_daemon(line: str, word: str) -> None:
    assert word in completions(line)


def test_completion_is_silent_without_a_daemon() -> None:
    assert completions("stop b") == []
