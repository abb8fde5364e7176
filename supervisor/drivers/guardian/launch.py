"""The guardian's start: read the launch, fork the agent, execute its program, run the guardian."""

import errno
import os

from .guard import Guardian, report

# signal would take six milliseconds more than the module that it wraps.
TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
else:
    import _signal as signal

CANNOT_EXECUTE = 127
PR_SET_CHILD_SUBREAPER = 36


class LaunchRequest:
    """The command, working directory and environment of the agent."""

    def __init__(self, fields: list[bytes]) -> None:
        self.cwd, self.folder, words = fields[0], fields[1], int(fields[2])
        self.command = fields[3 : 3 + words]
        entries = (entry.partition(b"=") for entry in fields[3 + words :])
        self.environment = {name: value for name, _, value in entries}


def read_launch() -> LaunchRequest:
    """Return the launch, read from standard input; exit if the input ends early.

    Its format: the number of bytes and a newline; then, separated by NULs, the working directory,
    its device and inode or nothing, the number of words of the command, the words, and the entries
    of the environment.
    """
    head = b""
    while not head.endswith(b"\n"):
        head += read_or_exit(1)
    body = b""
    while len(body) < int(head):
        body += read_or_exit(int(head) - len(body))
    return LaunchRequest(body.split(b"\0"))


def read_or_exit(count: int) -> bytes:
    """Return the next bytes of standard input, at most `count`; exit at its end."""
    data = os.read(0, count)
    if not data:
        os._exit(0)
    return data


def become_agent(launch: LaunchRequest, streams: list[int], gate: int, failed: int) -> None:
    """Turn the forked child into the agent: new session, standard streams, default signals.

    It waits for a byte from `gate` before it executes the program; if the guardian dies first, the
    program is never executed. All other descriptors are closed on exec. Does not return.
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


def execute(launch: LaunchRequest, failed: int) -> None:
    """Execute the program; return only if that fails, with the reason written to `failed`."""
    try:
        os.chdir(launch.cwd)
    except OSError as error:
        os.write(failed, b"%d cwd" % (error.errno or 0))
        return
    # Checked where we are now: a path that was checked before may have been replaced since.
    here = os.stat(".")  # noqa: PTH116 - pathlib takes too long to import
    if launch.folder and launch.folder != b"%d:%d" % (here.st_dev, here.st_ino):
        os.write(failed, b"%d folder" % errno.ESTALE)
        return
    why = b"%d program" % errno.ENOENT
    for candidate in program_candidates(launch):
        try:
            os.execve(candidate, launch.command, launch.environment)  # noqa: S606 - the user's command
        except (FileNotFoundError, NotADirectoryError):
            if os.path.exists(candidate):  # noqa: PTH110 - pathlib takes too long to import
                # The file exists, so the interpreter named in its first line does not.
                why = b"%d interpreter" % errno.ENOENT
        except OSError as error:
            why = b"%d program" % (error.errno or 0)
            if error.errno != errno.EACCES:
                break
    os.write(failed, why)


def program_candidates(launch: LaunchRequest) -> list[bytes]:
    """Return the possible paths of the program: as given, or in the agent's own PATH."""
    program = launch.command[0]
    if b"/" in program:
        return [program]
    folders = launch.environment.get(b"PATH", os.defpath.encode()).split(b":")
    return [(folder or b".") + b"/" + program for folder in folders]


def run_guardian(parent: int, supervisor: int | None, descriptors: list[int]) -> None:
    """Start the agent and return when all its processes have ended."""
    commands, reports, *streams = descriptors
    for descriptor, number in ((commands, 0), (reports, 1)):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.set_blocking(1, False)
    report(f"guardian {os.getpid()}")
    # In a process group of its own, so that Ctrl-C on our terminal does not reach it. Not in a
    # session of its own: if the guardian is stopped when the supervisor dies, the kernel continues
    # it, because its group is orphaned then.
    os.setpgid(0, 0)
    child_signals = watch_children()
    become_subreaper()
    launch = read_launch()
    gate, go = os.pipe()
    failure, failed = os.pipe()
    try:
        agent = os.fork()
    except OSError as error:
        report(f"failed {error.errno} fork")
        return
    if agent == 0:
        os.close(go)
        become_agent(launch, streams, gate, failed)
    # The guardian keeps no descriptor of the agent, so its pipes end when the agent closes them.
    for descriptor in (*streams, gate, failed):
        os.close(descriptor)
    guardian = Guardian(agent, go, failure)
    guardian.watch(child_signals, supervisor)
    if os.getppid() != parent:
        guardian.on_supervisor_exit()
    guardian.run()


def ignore_signals() -> None:
    """Ignore all signals that can be ignored."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_IGN)


def watch_children() -> int:
    """Return a descriptor that is readable after each SIGCHLD."""
    wakeup_read, wakeup_write = os.pipe()
    os.set_blocking(wakeup_read, False)
    os.set_blocking(wakeup_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakeup_write, warn_on_full_buffer=False)
    return wakeup_read


def become_subreaper() -> None:
    """Make the kernel assign us every descendant whose parent dies as our child; Linux only."""
    call_libc("prctl", PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def call_libc(function: str, *arguments: int) -> int:
    """Call a function of the C library with these numbers."""
    try:
        import _ctypes  # noqa: PLC0415 - ctypes takes longer to import

        address = _ctypes.dlsym(_ctypes.dlopen(None, 0), function)  # type: ignore[arg-type] # None: this program
        return _ctypes.call_function(address, arguments)  # type: ignore[no-any-return]
    except (ImportError, AttributeError, OSError):
        import ctypes  # noqa: PLC0415 - only for an interpreter without the private module

        return ctypes.CDLL(None)[function](*arguments)  # type: ignore[no-any-return]


def open_pidfd(pid: int) -> int | None:
    """Return a descriptor that is readable when the process dies; None without pidfd support."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
