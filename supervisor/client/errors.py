"""What can go wrong between us and the daemon; everything else is raised as it was over there.

SupervisorError
├── NoDaemon       nobody listens there: nothing has happened
├── DaemonBusy     it takes no more connections just now: nothing has happened
└── AnswerLost     asked, and not answered: it may have happened, or not
"""

from __future__ import annotations

from supervisor.core.errors import SupervisorError


class NoDaemon(SupervisorError):
    """Nobody listens where the daemon should."""


class DaemonBusy(SupervisorError):
    """The daemon listens, and takes no more connections: nothing has happened."""


class AnswerLost(SupervisorError):
    """The daemon was asked and did not answer: what was asked for may have happened."""
