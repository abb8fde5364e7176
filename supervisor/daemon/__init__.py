"""The long-lived process: lock, recover, listen, and leave in order; ready means ready.

    code = run(configuration, load=lambda: load(cwd=..., environ=os.environ))

is all that a command line needs. `serve` is the same for whoever has a loop already. `listening`
has sockets and connections, `system` has signals and systemd, `telling` has log lines. What its
exit code says is in `exits`.
"""

from .exits import Exit
from .finding import DaemonProcess, find_daemon
from .listening.token import ensure_token, read_token
from .running import run
from .serving import serve
from .system.orders import Orders

__all__ = [
    "DaemonProcess",
    "Exit",
    "Orders",
    "ensure_token",
    "find_daemon",
    "read_token",
    "run",
    "serve",
]
