"""The programs in README.md and docs/, run as tests.

Rule 1: a ```python block is a whole program. It runs alone, as a reader would run it who
        copied it into a file.
Rule 2: a ```text block under the comment `<!-- prints -->` is what the program above it
        prints, to the letter.
Rule 3: a block that cannot run says so: `<!-- skip: next "why" -->` stands before it.
"""

import contextlib
import difflib
import io
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import attrs
from sybil import Document, Example, Region, Sybil
from sybil.evaluators.python import pad
from sybil.parsers.myst import CodeBlockParser

PRINTS = re.compile(r"^<!-- prints -->\n+```text\n(?P<printed>.*?)^```$", re.DOTALL | re.MULTILINE)
MARK = "<!-- prints -->"
# Looked at when the page is read, and not as a step before the program: the two may be run in
# different processes.
SKIPPED = re.compile(r'<!-- skip: next "(?P<why>[^"]+)" -->\n+\Z')
SKIP_MARK = "<!-- skip:"


@attrs.frozen
class Program:
    source: str
    first_line: int  # of the source in its page, counted from 0
    prints: str | None
    why_not: str | None = None  # it is not run


def run_program(example: Example) -> str | None:
    """Run one program; return the difference if it printed something else."""
    __tracebackhide__ = True  # the report ends in the page, not in here
    program: Program = example.parsed
    if program.why_not is not None:
        raise SkipTest(program.why_not)
    source = pad(program.source, example.line + program.first_line)
    code = compile(source, example.path, "exec", dont_inherit=True)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(code, {"__name__": "__main__"})  # noqa: S102 - running it is what this is for
    if program.prints is None or printed.getvalue() == program.prints:
        return None
    return "\n".join(
        difflib.unified_diff(
            program.prints.splitlines(),
            printed.getvalue().splitlines(),
            fromfile="the page says",
            tofile="the program prints",
            lineterm="",
        )
    )


def find_programs(document: Document) -> Iterator[Region]:
    """Each program of a page, together with what the page says it prints."""
    regions = sorted(CodeBlockParser("python", run_program)(document), key=lambda r: r.start)
    prints: dict[Region, str] = {}
    for match in PRINTS.finditer(document.text):
        above = [region for region in regions if region.end <= match.start()]
        if not above or above[-1] in prints:
            raise ValueError(f"{document.path}: {MARK} without a program of its own above it")
        prints[above[-1]] = match["printed"]
    if document.text.count(MARK) != len(prints):
        raise ValueError(f"{document.path}: {MARK} must stand right above a ```text block")
    skipped = {region: SKIPPED.search(document.text, 0, region.start) for region in regions}
    if document.text.count(SKIP_MARK) != sum(why is not None for why in skipped.values()):
        raise ValueError(f"{document.path}: {SKIP_MARK} must stand right above a program")
    for region in regions:
        source, why = region.parsed, skipped[region]
        region.parsed = Program(
            source, source.line_offset, prints.get(region), None if why is None else why["why"]
        )
        yield region


def snippets_under(root: Path) -> Sybil:
    return Sybil(parsers=[find_programs], path=str(root), pattern="*.md")
