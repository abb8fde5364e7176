"""What the suite says of us, compared with what a server of tools is expected to fail.

Rule 1: a failed check is expected only for a reason in the table. Any other one is a fault.
Rule 2: a row of the table that no failed check matches is a fault too, so the table stays true.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import attrs

REVISIONS: Final = ("2025-11-25", "2026-07-28")

# A pattern of SCENARIO/CHECK, and why such a check fails.
Expected: TypeAlias = Mapping[str, str]
EXPECTED: Final[Expected] = {
    "prompts-*/*": "there are no prompts",
    "resources-*/*": "there are no resources",
    "completion-complete/*": "there is nothing to complete",
    "logging-set-level/*": "no log is sent to clients",
    "caching/sep-2549-prompts-*": "there are no prompts",
    "caching/sep-2549-resources-*": "there are no resources",
    "tools-call-image/*": "a result is structured content and a text",
    "tools-call-audio/*": "a result is structured content and a text",
    "tools-call-embedded-resource/*": "a result is structured content and a text",
    "tools-call-mixed-content/*": "a result is structured content and a text",
    "tools-call-with-logging/*": "no log is sent to clients",
    "tools-call-with-progress/*": "an answer is one JSON object, without notifications before it",
    "tools-call-sampling/*": "the server asks nothing of clients",
    "tools-call-elicitation/*": "the server asks nothing of clients",
    "elicitation-*/*": "the server asks nothing of clients",
    "input-required-result-*/*": "the server asks nothing of clients",
    "server-stateless/sep-2575-server-rejects-undeclared-capability": "no tool needs a capability",
    "server-stateless/sep-2575-missing-capability-http-400": "no tool needs a capability",
    "http-custom-header-server-validation/*": "no argument is repeated in a header",
    "tasks-*/*": "the extension for tasks is not offered",
}


@attrs.frozen
class Verdict:
    """The checks that passed, those that failed for no known reason, and rows without a check."""

    passed: tuple[str, ...]
    unexpected: tuple[str, ...]
    unmatched: tuple[str, ...]

    @property
    def is_good(self) -> bool:
        return bool(self.passed) and not self.unexpected and not self.unmatched


def judge(checks: Iterable[tuple[str, str]], expected: Expected = EXPECTED) -> Verdict:
    """Return the verdict over checks: name and status."""
    all_checks = list(checks)
    failed = [name for name, status in all_checks if status == "FAILURE"]
    return Verdict(
        passed=tuple(name for name, status in all_checks if status == "SUCCESS"),
        unexpected=tuple(name for name in failed if not _matches(name, expected)),
        unmatched=tuple(row for row in expected if not any(_matches(one, [row]) for one in failed)),
    )


def read_checks(folder: Path) -> list[tuple[str, str]]:
    """Return name and status of each check in the results of a run."""
    found = []
    for path in sorted(folder.glob("*/checks.json")):
        # The folder is named server-SCENARIO-TIME.
        scenario = re.sub(r"-\d{4}-\d{2}-\d{2}T.*", "", path.parent.name).removeprefix("server-")
        found += [
            (f"{scenario}/{check['id']}", str(check["status"]))
            for check in json.loads(path.read_text())
        ]
    return found


def _matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
