"""Settings of every test."""

import signal
from pathlib import Path

import hypothesis
import pytest

from actors.testing import _clock
from tests.support.snippets import snippets_under

# A loaded machine may be slow without being wrong.
hypothesis.settings.register_profile(
    "soak", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
# The same examples in every run: a change is judged by its own faults. `nox -s soak` explores.
hypothesis.settings.register_profile(
    "tests", parent=hypothesis.settings.get_profile("soak"), derandomize=True
)


class Snippets:
    """Collects the programs in Markdown pages.

    Registered as a plugin because a hook written straight into this file would see only
    what lies under tests/, and the pages lie beside it.
    """

    pytest_collect_file = staticmethod(snippets_under(Path(__file__).parents[1]).pytest())


def pytest_configure(config: pytest.Config) -> None:
    # A process that a shell starts in the background ignores SIGINT, and so do its children.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("soak" if config.option.markexpr == "soak" else "tests")
    # A store thread on a loaded machine may take longer than the default; a jump of the virtual
    # clock meanwhile would make timeouts of the test expire.
    _clock.THREAD_PATIENCE_SECONDS = 60.0
    config.pluginmanager.register(Snippets(), "snippets")
