"""The judgement over the results of the suite, without the suite."""

from __future__ import annotations

import json
from pathlib import Path

from tests.conformance.judge import judge, read_checks

PASSED = ("ping/ping", "SUCCESS")
KNOWN = {"prompts-*/*": "there are no prompts"}


def test_an_expected_failure_is_no_fault() -> None:
    verdict = judge([PASSED, ("prompts-list/prompts-list", "FAILURE")], KNOWN)

    assert verdict.is_good
    assert verdict.passed == ("ping/ping",)


def test_a_failure_for_no_known_reason_is_a_fault() -> None:
    checks = [PASSED, ("prompts-list/prompts-list", "FAILURE"), ("tools-list/x", "FAILURE")]

    verdict = judge(checks, KNOWN)

    assert not verdict.is_good
    assert verdict.unexpected == ("tools-list/x",)


def test_a_row_that_no_failure_matches_is_a_fault() -> None:
    verdict = judge([PASSED, ("prompts-list/prompts-list", "SUCCESS")], KNOWN)

    assert not verdict.is_good
    assert verdict.unmatched == ("prompts-*/*",)


def test_a_run_without_checks_is_a_fault() -> None:
    assert not judge([], {}).is_good


def test_the_results_of_a_run_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "server-server-stateless-2026-11-19T21-42-42-972Z"
    folder.mkdir()
    (folder / "checks.json").write_text(json.dumps([{"id": "a", "status": "SUCCESS", "x": 1}]))

    assert read_checks(tmp_path) == [("server-stateless/a", "SUCCESS")]
