"""What of our own environment an agent gets: what is on this list, and nothing else.

Rule 1: a secret reaches an agent only if somebody names it for that agent, so no key, no token and
        no handle on one (an ssh or desktop agent's socket) is on the list.
Rule 2: nothing that is about us is passed on; every name of ours begins with UNDERSTUDY_.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

ALLOWED_NAMES: Final = frozenset(
    {
        # Who and where one is.
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TMP", "TEMP"),
        # Where one's own files are; not XDG_RUNTIME_DIR, which leads to the sockets of others.
        *("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"),
        *("XDG_CONFIG_DIRS", "XDG_DATA_DIRS"),
        # How one writes.
        *("LANG", "LANGUAGE", "TZ", "TERM", "COLORTERM", "NO_COLOR"),
        # How one gets out, and whom one believes there.
        *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"),
        *("http_proxy", "https_proxy", "all_proxy", "no_proxy"),
        *("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
    }
)
ALLOWED_BEGINNINGS: Final = ("LC_", "SSL_CERT_")


def environment_for(extra: Mapping[str, str]) -> dict[str, str]:
    """An agent's whole environment: what is allowed of ours, and over it what is given for it."""
    ours = {name: value for name, value in os.environ.items() if is_allowed(name)}
    return {**ours, **extra}


def is_allowed(name: str) -> bool:
    """Whether an agent may see what we have under that name."""
    return name in ALLOWED_NAMES or name.startswith(ALLOWED_BEGINNINGS)
