"""Many checkpoints, inside commits and between them."""

from __future__ import annotations

import pytest

from supervisor.store.sqlite import checkpoints, files


@pytest.fixture(autouse=True, params=["in a commit", "between commits"])
def _many_checkpoints(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "in a commit":
        monkeypatch.setattr(files, "MAX_PAGES", 30)
    else:
        monkeypatch.setattr(checkpoints, "DUE_PAGES", 30)
