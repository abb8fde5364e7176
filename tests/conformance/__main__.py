"""`python -m tests.conformance`: run the suite for both revisions; 0 if it finds no fault.

The official inspector calls a tool too, because it is written with another library than the suite
asks. npx fetches both, and the release of node that they need.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.conformance.judge import REVISIONS, judge, read_checks

SUITE: Final = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
INSPECTOR: Final = "@modelcontextprotocol/inspector@2.12.0"
NODE: Final = "node@22"
_MOST_SECONDS: Final = 600.0
_EXIT_SECONDS: Final = 10.0


@contextmanager
def served() -> Iterator[str]:
    """Run the server in the block and yield its address."""
    command = [sys.executable, "-m", "tests.conformance.server"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()
            server.wait(_EXIT_SECONDS)


def npx(package: str, *words: str, stdout: int) -> subprocess.CompletedProcess[str]:
    """Run a command of a package; its exit code is of no use, see `judge`."""
    packages = ["--package", NODE, "--package", package]
    return subprocess.run(
        ["npx", "--yes", *packages, "--", *words],  # noqa: S607 - nox has found it
        stdout=stdout,
        text=True,
        check=False,
        timeout=_MOST_SECONDS,
    )


def run_suite(url: str, revision: str, folder: Path) -> None:
    """Write the results into the folder."""
    options = ["--requirements", revision, "--output-dir", str(folder)]
    npx(SUITE, "conformance", "server", "--url", url, *options, stdout=subprocess.DEVNULL)


def run_inspector(url: str) -> tuple[str, str]:
    """Return name and status of the check that the inspector can call a tool."""
    call = ["--method", "tools/call", "--tool-name", "test_simple_text"]
    words = ["mcp-inspector", "--cli", url, "--transport", "http", *call]
    printed = npx(INSPECTOR, *words, stdout=subprocess.PIPE).stdout
    try:
        is_good = json.loads(printed)["isError"] is False
    except (ValueError, KeyError):
        is_good = False
    return "inspector/tools-call", "SUCCESS" if is_good else "FAILURE"


def main() -> int:
    """Run the suite, print what it found, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="us-") as folder, served() as url:
        checks = [run_inspector(url)]
        for revision in REVISIONS:
            results = Path(folder) / revision
            run_suite(url, revision, results)
            checks += read_checks(results)
    verdict = judge(checks)
    sys.stdout.write(f"{len(verdict.passed)} checks passed\n")
    for name in verdict.unexpected:
        sys.stdout.write(f"failed: {name}\n")
    for name in verdict.unmatched:
        sys.stdout.write(f"expected to fail, but no such check failed: {name}\n")
    return 0 if verdict.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
