"""Failed commands: text, hint and exit code, never a traceback."""

import os
import signal
import subprocess
import sys
import time

import orjson
import pytest

import supervisor
from supervisor.cli import group
from supervisor.cli.async_runner import run_async, run_blocking
from supervisor.cli.failures import COMMAND_HINTS, NOT_FOUND_HINTS, exit_code_of, report
from supervisor.cli.output import Screen, json_text
from supervisor.core.errors import SupervisorError
from tests.cli.conftest import Kept
from tests.support.cli_runner import COMMAND, ROOT, Caller


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (supervisor.SessionNotFound("x", hint="y"), 3),
        (supervisor.AgentUnknown("x", hint="y"), 3),
        (supervisor.RecordNotFound("x", hint="y"), 3),
        (supervisor.SpawnRefused("x", hint="y", limit="max_children"), 4),
        (supervisor.QueueFull("x", hint="y"), 4),
        (supervisor.ConfigError("x", hint="y"), 1),
        (supervisor.InvalidKey("x", hint="y"), 2),
        (supervisor.StoreLocked("x", hint="y"), 1),
    ],
)
def test_the_exit_code_depends_on_the_kind_of_failure(error: SupervisorError, code: int) -> None:
    assert exit_code_of(error) == code


def test_an_error_prints_its_text_and_hint(capsys: pytest.CaptureFixture[str]) -> None:
    report(supervisor.QueueFull("10 wait \x1b[2J", hint="wait"), Screen())

    assert capsys.readouterr() == ("", "error: 10 wait \nhint: wait\n")


def test_errors_are_json_with_json_output(capsys: pytest.CaptureFixture[str]) -> None:
    refused = supervisor.SpawnRefused("no", hint="wait", limit="max_depth", used=3, allowed=3)
    report(refused, Screen(as_json=True))

    said = {"code": "spawn_refused", "message": "no", "hint": "wait"}
    more = {"limit": "max_depth", "used": 3, "allowed": 3}
    assert capsys.readouterr().err == json_text({"error": said | more}) + "\n"


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["ps", "--nonsense"], "see `understudy ps --help`"),
        (["config", "check", "a", "b"], "see `understudy config check --help`"),
        (["inputs", "x", "--move", "y"], "see `understudy inputs --help`"),
        (["nonsense"], "see `understudy --help`"),
    ],
)
def test_wrong_usage_is_reported_like_other_errors(
    call: Caller, arguments: list[str], hint: str
) -> None:
    done = call(*arguments)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.endswith(f"hint: {hint}\n")

    told = orjson.loads(call(*arguments, "--json").err)["error"]
    assert (told["code"], told["hint"]) == ("wrong_usage", hint)


def test_json_before_the_command_is_refused_with_a_hint(call: Caller) -> None:
    done = call("--json", "ps")

    assert done.code == 2
    assert orjson.loads(done.err)["error"]["hint"] == "write `understudy COMMAND --json`"


def test_json_after_a_double_dash_is_text(call: Caller) -> None:
    assert call("send", "x", "--", "--json").err.startswith("error: ")


@pytest.mark.parametrize("arguments", [["import", "x.jsonl", "--state", "y.db"], ["restore", "x"]])
def test_a_missing_file_exits_with_not_found(call: Caller, arguments: list[str]) -> None:
    done = call(*arguments)

    assert done.code == 3
    assert "file not found: x" in done.err


def test_warnings_are_json_with_json_output(capsys: pytest.CaptureFixture[str]) -> None:
    Screen(as_json=True).warn("slow \x1b[2J")

    assert orjson.loads(capsys.readouterr().err) == {"warning": "slow \x1b[2J"}


def test_a_defect_is_reported_without_a_traceback(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("oh dear")

    monkeypatch.setattr(group.commands, "main", fail)
    done = call("version")

    assert done.code == 1
    assert "understudy failed: RuntimeError: oh dear" in done.err
    assert "Traceback" not in done.err


def test_an_os_error_is_reported_with_its_text(
    call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied", "/somewhere")

    monkeypatch.setattr(group.commands, "main", fail)
    done = call("version")

    assert (done.code, done.err.splitlines()[0]) == (
        1,
        "error: Permission denied (/somewhere)",
    )


def test_one_error_out_of_a_group_is_raised_bare() -> None:
    async def work() -> None:
        raise ExceptionGroup("", [ExceptionGroup("", [supervisor.QueueFull("x", hint="y")])])

    with pytest.raises(supervisor.QueueFull):
        run_async(Screen(), work)


def test_ctrl_c_is_raised_before_anything_else() -> None:
    async def work() -> None:
        raise BaseExceptionGroup("", [ValueError(), KeyboardInterrupt()])

    with pytest.raises(KeyboardInterrupt):
        run_async(Screen(), work)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_interrupts_a_command_without_trio(number: signal.Signals) -> None:
    async def work() -> None:
        os.kill(os.getpid(), number)
        time.sleep(30)  # noqa: ASYNC251 - as a request does that blocks

    # Not the inherited handler: under nohup the signal is ignored.
    def ours(*_: object) -> None:
        raise AssertionError("the command has no handler of its own")

    before = signal.signal(number, ours)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_blocking(Screen(), work)

        assert signal.getsignal(number) is ours
    finally:
        signal.signal(number, before)


def test_a_command_without_trio_returns_its_exit_code() -> None:
    async def work() -> int:
        return 3

    assert run_blocking(Screen(), work) == 3


def test_ctrl_c_exits_with_130(call: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(group.commands, "main", interrupt)

    assert call("version").code == 130


def test_a_closed_pipe_ends_a_command_quietly(kept: Kept) -> None:
    words = " ".join([*COMMAND, "log", kept.parent, "--state", str(kept.path)])
    done = subprocess.run(
        ["/bin/bash", "-c", f"{words} | head -n 1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stdout.splitlines()[-1] == "0"
    assert done.stderr == ""


def test_closed_output_causes_no_traceback() -> None:
    done = subprocess.run(
        [*COMMAND, "version"], stdout=_closed_pipe(), stderr=subprocess.PIPE, check=False
    )

    assert done.stderr == b""
    assert done.returncode == 0


def _closed_pipe() -> int:
    reader, writer = os.pipe()
    os.close(reader)
    return writer


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["config"], "interrupted\n"),
        (["config", "--json"], '{"error":{"code":"interrupted","message":"interrupted","hint":'),
    ],
)
def test_a_signal_while_a_command_runs_exits_with_130(arguments: list[str], said: str) -> None:
    program = "import signal, os; from supervisor.cli import target;"
    program += f"target.load_configuration = lambda _: os.kill(os.getpid(), {int(signal.SIGINT)});"
    program += f"from supervisor.cli import main; raise SystemExit(main({arguments}))"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)

    assert done.returncode == 130
    assert done.stderr.decode().startswith(said)
    assert done.stderr.count(b"\n") == 1


INTERRUPTED_AT = """
import os, signal, sys
class Hook:
    def find_spec(self, name, *_):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Hook())
from supervisor.cli import main
raise SystemExit(main(sys.argv[2:]))
"""


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("click", "ps"),
        ("orjson", "ps"),
        ("supervisor.cli.commands.ps", "ps"),
        ("h11", "ps"),
        ("trio", "watch bob"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["people", "programs"])
def test_ctrl_c_during_imports_causes_no_traceback(
    module: str, command: str, more: list[str]
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_AT, module, *command.split(), *more],
        capture_output=True,
        check=False,
    )

    assert done.returncode == 130
    assert done.stdout == b""
    if more:
        assert orjson.loads(done.stderr)["error"]["code"] == "interrupted"
    else:
        assert done.stderr == b"interrupted\n"


def test_a_signal_that_was_ignored_before_stays_ignored() -> None:
    """As nohup does it, and a shell with what it puts into the background."""
    program = "trap '' INT HUP; exec \"$@\""
    with subprocess.Popen(
        [
            "/bin/sh",
            "-c",
            program,
            "sh",
            *COMMAND,
            "run",
            "--agent",
            "scripted",
            "say a\nsleep 0.5\nsay b",
        ],
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"a"
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)

        assert process.stdout.read() == b"b\n"
        assert process.wait() == 0


@pytest.mark.parametrize("hint", sorted({*COMMAND_HINTS, *NOT_FOUND_HINTS}))
def test_each_recognized_hint_is_one_of_the_embedding_api(hint: str) -> None:
    files = (file for file in (ROOT / "supervisor").rglob("*.py") if file.name != "failures.py")

    assert any(f'"{hint}"' in file.read_text() for file in files)
