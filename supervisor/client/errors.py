"""Errors between the client and the daemon; all other errors are raised as in the daemon.

SupervisorError
├── NoDaemon       no daemon listens there: nothing has happened
├── DaemonBusy     the daemon accepts no more connections at present: nothing has happened
└── AnswerLost     the request was sent, and no answer came: it may have taken effect or not
"""

from __future__ import annotations

from supervisor.core.errors import SupervisorError


class NoDaemon(SupervisorError):
    """No daemon listens at the address."""


class DaemonBusy(SupervisorError):
    """The daemon listens and accepts no more connections: nothing has happened."""


class AnswerLost(SupervisorError):
    """The request was sent and not answered: it may have taken effect."""
