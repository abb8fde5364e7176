"""From the child that is born to the program that it becomes."""

import errno
import os

# What this wraps would cost six milliseconds more.
TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

CANNOT_EXECUTE = 127


class Launch:
    """What is to run."""

    def __init__(self, fields: list[bytes]) -> None:
        words = int(fields[1])
        self.cwd = fields[0]
        self.command = fields[2 : 2 + words]
        entries = (entry.partition(b"=") for entry in fields[2 + words :])
        self.environment = {name: value for name, _, value in entries}


def read_launch() -> Launch:
    """The first order: how many bytes, a newline; then the folder, how many words, words, entries.

    They stand between NULs. Leaves if the input ends before that.
    """
    head = b""
    while not head.endswith(b"\n"):
        head += read_or_leave(1)
    body = b""
    while len(body) < int(head):
        body += read_or_leave(int(head) - len(body))
    return Launch(body.split(b"\0"))


def read_or_leave(count: int) -> bytes:
    """The next bytes of our orders."""
    data = os.read(0, count)
    if not data:
        os._exit(0)
    return data


def become_agent(launch: Launch, streams: list[int], gate: int, failed: int) -> None:
    """In the child: a session of its own, three descriptors, and nothing else; then wait, and run.

    Every other descriptor is one that does not survive the execution of a program. If nobody opens
    the gate, because the guardian is dead, it is never executed.
    """
    try:
        os.setsid()
        for number, descriptor in enumerate(streams):
            os.dup2(descriptor, number)
        for descriptor in streams:
            os.close(descriptor)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        if os.read(gate, 1):
            execute(launch, failed)
    finally:
        os._exit(CANNOT_EXECUTE)


def execute(launch: Launch, failed: int) -> None:
    """Become the program; returns only if that cannot be, and has then said why."""
    try:
        os.chdir(launch.cwd)
    except OSError as error:
        os.write(failed, b"%d cwd" % (error.errno or 0))
        return
    why = b"%d program" % errno.ENOENT
    for candidate in candidates(launch):
        try:
            os.execve(candidate, launch.command, launch.environment)  # noqa: S606 - that is its job
        except (FileNotFoundError, NotADirectoryError):
            if os.path.exists(candidate):  # noqa: PTH110 - pathlib is too much
                # What is there and is not found is what would have to read it.
                why = b"%d interpreter" % errno.ENOENT
        except OSError as error:
            why = b"%d program" % (error.errno or 0)
            if error.errno != errno.EACCES:
                break
    os.write(failed, why)


def candidates(launch: Launch) -> list[bytes]:
    """Where the program may be: as given, or in the folders of the agent's own PATH."""
    program = launch.command[0]
    if b"/" in program:
        return [program]
    folders = launch.environment.get(b"PATH", os.defpath.encode()).split(b":")
    return [(folder or b".") + b"/" + program for folder in folders]
