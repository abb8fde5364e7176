"""The bridge of one agent: JSON lines on standard input and output, requests to `/mcp` behind.

It is run as `python -I -S PATH/bridge/__main__.py`, one process per agent, which imports this
package alone and by this short name, so that it is compiled only once. `understudy mcp` runs the
loop too.

Rule 1: only modules of the standard library that load at once: every agent pays for this process.
        `json` and `socket` alone would take longer than the interpreter itself.
Rule 2: one thread and one wait. Each message is a request of its own, on a connection that has no
        other meanwhile, so a call that waits delays no other. One connection is kept for the next
        call, for a bounded time; a call after the end of a supervisor connects again.
Rule 3: every request of the client is answered once, with an error if the server does not answer,
        unless the client has cancelled it.
Rule 4: lines, answers and the number of calls at once have bounds.
Rule 5: the token comes from the environment and goes into a header, nowhere else.
"""

import os
import sys

from .call import ToolsAddress
from .loop import Bridge

TYPE_CHECKING = False

if TYPE_CHECKING:
    import signal
else:  # the module behind it, which takes no time to load
    import _signal as signal

__all__ = ["SOCKET_VARIABLE", "TOKEN_VARIABLE", "Bridge", "ToolsAddress", "main"]

# Set for the bridge by `hand_over`.
SOCKET_VARIABLE = "UNDERSTUDY_TOOLS_SOCKET"
TOKEN_VARIABLE = "UNDERSTUDY_SESSION_TOKEN"  # noqa: S105 - the name of a variable


def main() -> None:
    """Run the bridge of an agent, with the address and the token of its environment."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # end without a traceback
    path, token = os.environ.get(SOCKET_VARIABLE), os.environ.get(TOKEN_VARIABLE)
    if not path or not token:
        sys.stderr.write(f"set {SOCKET_VARIABLE} and {TOKEN_VARIABLE}\n")
        raise SystemExit(2)
    Bridge(ToolsAddress(path, token)).run()
