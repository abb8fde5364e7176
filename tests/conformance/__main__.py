"""`python -m tests.conformance`: run the suite for both revisions; 0 if it finds no fault.

npx fetches the suite, and the release of node that it needs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.conformance.judge import REVISIONS, judge, read_checks

SUITE: Final = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
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


def run_suite(url: str, revision: str, folder: Path) -> None:
    """Write the results into the folder; the exit code is of no use, see `judge`."""
    packages = ["--package", NODE, "--package", SUITE]
    command = ["npx", "--yes", *packages, "--", "conformance", "server", "--url", url]
    options = ["--requirements", revision, "--output-dir", str(folder)]
    subprocess.run(  # noqa: PLW1510 - see above
        [*command, *options],
        stdout=subprocess.DEVNULL,
        timeout=_MOST_SECONDS,
    )


def main() -> int:
    """Run the suite, print what it found, and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="us-") as folder, served() as url:
        checks = []
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
