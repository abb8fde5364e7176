"""Count words that hide the component they mean, in code and in docs; run by `nox -s lint`.

    python -m tests.support.prose_check            the rates, and a failure above the bounds
    python -m tests.support.prose_check --list     every place, with file and line

Code means docstrings, comments and messages (string literals with a space) of every package
and of the tests. Docs means README, SECURITY, docs/ and the changelog fragments. The glossary
page quotes the words it bans, so it is left out.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
CODE_PER_1000: Final = 0.3
DOCS_PER_1000: Final = 0.5
EXEMPT: Final = ("docs/reference/glossary.md", "tests/support/prose_check.py")

BANNED: Final = re.compile(
    r"\b(?:whoever|somebody|nobody|everybody|whom|those who|that one|of before|made anew"
    r"|so many|so much|have it done|is no (?!longer\b|more\b|less\b))",
    re.IGNORECASE,
)
WORD: Final = re.compile(r"[A-Za-z][A-Za-z'-]*")


def code_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the comments, docstrings and messages of a Python file with their line numbers."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value


def doc_texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page outside its code blocks."""
    is_code = False
    for number, line in enumerate(source.splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            yield number, line


def files(*patterns: str) -> Iterator[Path]:
    """Yield the files to read, without the exempt ones and build output."""
    for pattern in patterns:
        for path in sorted(ROOT.glob(pattern)):
            name = path.relative_to(ROOT).as_posix()
            if name not in EXEMPT and "_build" not in name:
                yield path


def count(kind: str) -> tuple[int, list[str]]:
    """Return the number of words read and every place with a banned one."""
    code = kind == "code"
    patterns = (
        ("actors/**/*.py", "supervisor/**/*.py", "tests/**/*.py", "docs/**/*.py", "*.py")
        if code
        else ("*.md", "docs/**/*.md")
    )
    words, places = 0, []
    for path in files(*patterns):
        source = path.read_text(encoding="utf-8")
        for number, text in code_texts(source) if code else doc_texts(source):
            words += len(WORD.findall(text))
            places += [
                f"{path.relative_to(ROOT)}:{number}: {found.group(0).strip()}"
                for found in BANNED.finditer(text)
            ]
    return words, places


def main() -> int:
    """Print the rates; return 1 if one of them is above its bound."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", action="store_true", help="print every place")
    listed = parser.parse_args().list
    failed = False
    for kind, bound in (("code", CODE_PER_1000), ("docs", DOCS_PER_1000)):
        words, places = count(kind)
        rate = 1000 * len(places) / max(words, 1)
        failed = failed or rate > bound
        if listed or rate > bound:
            print("\n".join(places if listed else places[:20]))
        print(f"{kind}: {len(places)} in {words} words, {rate:.2f} per 1,000 (at most {bound})")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
