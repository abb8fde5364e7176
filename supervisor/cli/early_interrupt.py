"""Ctrl-C while modules are imported: exit at once.

`KeyboardInterrupt`, raised in the middle of an import, ends in a traceback, and not every C
extension survives it.

Rule 1: import nothing slow, because Ctrl-C is not handled until this module is loaded. `signal`
        builds enumerations of all its numbers; the functions are in `_signal`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

_EXIT_CODE = 130  # the same as in `failures`, which is not imported yet
_MESSAGE = b"interrupted\n"
_JSON_MESSAGE = (
    b'{"error":{"code":"interrupted","message":"interrupted","hint":"nothing was done yet"}}\n'
)


class ExitOnInterrupt:
    """Exit at Ctrl-C in the block, unless another handler is set or the signal is ignored."""

    def __enter__(self) -> None:
        """Install the handler."""
        self._is_installed = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
        if self._is_installed:
            try:
                _signal.signal(_signal.SIGINT, _exit_interrupted)
            except ValueError:  # not the main thread, which alone receives signals
                self._is_installed = False

    def __exit__(self, *_: object) -> None:
        """Restore the previous handler."""
        if self._is_installed:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _exit_interrupted(*_: object) -> None:
    os.write(2, _JSON_MESSAGE if "--json" in sys.argv else _MESSAGE)
    os._exit(_EXIT_CODE)
