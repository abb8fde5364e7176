"""Words of other programs that people try: they run our command, or point to it.

Rule 1: a word that is a command of ours is not listed here.
"""

from __future__ import annotations

from typing import Final

# Words with exactly one meaning here.
ALIASES: Final = {
    "ls": "ps",
    "list": "ps",
    "list-sessions": "ps",
    "new-session": "new",
    "sessions": "ps",
    "create": "new",
    "delete": "rm",
    "remove": "rm",
    "inspect": "show",
    "describe": "show",
    "info": "show",
    "history": "log",
    "tail": "watch",
    "prompt": "send",
    "requests": "inbox",
    "permissions": "inbox",
    "approve": "answer",
    "daemon": "serve",
    "find": "search",
    "edit": "set",
    "update": "set",
    "cost": "usage",
    "costs": "usage",
}

_TURN_OR_SESSION: Final = (
    "`understudy interrupt ID` ends the running turn, `understudy stop ID` the session"
)
_LEAVING: Final = (
    "Ctrl-D leaves `attach` and `chat`, q leaves `top`; `understudy stop ID` ends a session,"
    " `understudy down` the daemon"
)
# Words with several meanings here, or with none.
POINTERS: Final = {
    "kill": _TURN_OR_SESSION,
    "cancel": _TURN_OR_SESSION,
    "end": _TURN_OR_SESSION,
    "terminate": _TURN_OR_SESSION,
    "start": (
        "`understudy new AGENT` creates a session, `understudy resume ID` starts a stopped one,"
        " `understudy serve` the daemon"
    ),
    "up": "`understudy serve --detach` starts the daemon, `understudy new AGENT` creates a session",
    "restart": "write `understudy stop ID` and `understudy resume ID`; reload: `understudy reload`",
    "quit": _LEAVING,
    "exit": _LEAVING,
    "close": _LEAVING,
    "leave": _LEAVING,
    "shutdown": "`understudy down` stops the daemon, `understudy stop ID` a session",
    "pause": "`understudy interrupt ID` ends the turn; an idle session uses no tokens",
    "unarchive": "write `understudy archive ID --undo`",
    "allow": "write `understudy answer ID yes`, or always",
    "deny": "write `understudy answer ID no`, or never",
    "reject": "write `understudy answer ID no`, or never",
    "exec": "`understudy run TEXT` needs no daemon, `understudy send ID TEXT` uses a session",
    "install": "`understudy agents` says how to install an agent",
    "login": "log in with the agent's own program; `understudy doctor` checks the rest",
}
