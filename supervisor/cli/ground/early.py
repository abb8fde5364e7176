"""Ctrl-C while modules are still being imported: leave at once.

`KeyboardInterrupt`, raised in the middle of an import, ends in a traceback; and not every module
that is written in C survives it.

Rule 1: nothing that takes time to import, for until then nobody listens. `signal` itself makes
        enumerations of all its numbers; what it does is in `_signal`.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal as _signal
else:
    import _signal

_CODE = 130  # as in `failures`, which is among what is imported
_SAID = b"interrupted\n"
_SAID_AS_JSON = (
    b'{"error":{"code":"interrupted","message":"interrupted","hint":"nothing was done yet"}}\n'
)


class Importing:
    """For as long as the block lasts, unless somebody else listens, or has it ignored."""

    def __enter__(self) -> None:
        """Listen."""
        self._listens = _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler
        if self._listens:
            try:
                _signal.signal(_signal.SIGINT, _leave)
            except ValueError:  # not the main thread, which alone is told
                self._listens = False

    def __exit__(self, *_: object) -> None:
        """As it was."""
        if self._listens:
            _signal.signal(_signal.SIGINT, _signal.default_int_handler)


def _leave(*_: object) -> None:
    os.write(2, _SAID_AS_JSON if "--json" in sys.argv else _SAID)
    os._exit(_CODE)
