"""What holds for every test of the house."""

import signal
from pathlib import Path

import hypothesis
import pytest

from tests.support.snippets import snippets_under

# A schedule explored under load may be slow without being wrong.
hypothesis.settings.register_profile("house", deadline=None)


class Snippets:
    """Collects the programs in Markdown pages.

    Registered as a plugin because a hook written straight into this file would see only
    what lies under tests/, and the pages lie beside it.
    """

    pytest_collect_file = staticmethod(snippets_under(Path(__file__).parents[1]).pytest())


def pytest_configure(config: pytest.Config) -> None:
    # Who is begun in the background by a shell is deaf to Ctrl-C, and so are those it begins.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("house")
    config.pluginmanager.register(Snippets(), "snippets")
