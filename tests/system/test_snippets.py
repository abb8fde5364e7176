"""The programs in the documentation run, and print what the page says."""

from pathlib import Path
from unittest import SkipTest

import pytest
from sybil.example import SybilFailure

from tests.support.snippets import snippets_under

GREETING = """\
# A page

```python
print("hello")
print("again")
```

It says:

<!-- prints -->
```text
{printed}
```
"""


def run_page(folder: Path, text: str) -> int:
    """Run every block of a page; return their number."""
    (folder / "page.md").write_text(text)
    document = snippets_under(folder).parse(folder / "page.md")
    examples = list(document.examples())
    for example in examples:
        example.evaluate()
    return len(examples)


def test_a_program_with_the_expected_output_passes(tmp_path: Path) -> None:
    assert run_page(tmp_path, GREETING.format(printed="hello\nagain")) == 1


@pytest.mark.parametrize("printed", ["hello", "hello\nagain\nand again", "Hello\nagain"])
def test_a_program_that_prints_something_else_fails(tmp_path: Path, printed: str) -> None:
    with pytest.raises(SybilFailure, match="the program prints"):
        run_page(tmp_path, GREETING.format(printed=printed))


def test_a_program_that_raises_fails_on_its_own_line_of_the_page(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError) as failure:
        run_page(tmp_path, "# A page\n\n```python\none = 1\none / 0\n```\n")

    assert failure.traceback[-1].lineno == 4  # counted from 0: the fifth line


def test_a_program_that_is_not_python_fails(tmp_path: Path) -> None:
    with pytest.raises(SyntaxError):
        run_page(tmp_path, "```python\ndef\n```\n")


def test_each_program_runs_alone(tmp_path: Path) -> None:
    with pytest.raises(NameError):
        run_page(tmp_path, "```python\none = 1\n```\n\n```python\nprint(one)\n```\n")


def test_a_program_runs_as_the_main_program(tmp_path: Path) -> None:
    program = "import trio\n\nasync def main():\n    print(__name__)\n\ntrio.run(main)\n"
    page = f"```python\n{program}```\n\n<!-- prints -->\n```text\n__main__\n```\n"

    assert run_page(tmp_path, page) == 1


def test_a_block_with_a_skip_reason_is_skipped(tmp_path: Path) -> None:
    page = '<!-- skip: next "a fragment" -->\n```python\nundefined\n```\n'

    with pytest.raises(SkipTest, match="a fragment"):
        run_page(tmp_path, page)


def test_a_skipped_block_is_skipped_when_parsed_alone(tmp_path: Path) -> None:
    (tmp_path / "page.md").write_text('<!-- skip: next "why" -->\n```python\nundefined\n```\n')
    [example] = snippets_under(tmp_path).parse(tmp_path / "page.md").examples()

    with pytest.raises(SkipTest, match="why"):
        example.evaluate()


def test_a_skip_that_belongs_to_no_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="skip:"):
        run_page(tmp_path, '<!-- skip: next "why" -->\n\nprose\n\n```python\n```\n')


@pytest.mark.parametrize(
    "page",
    [
        "<!-- prints -->\n```text\nhello\n```\n",
        GREETING.format(printed="hello\nagain") + "<!-- prints -->\n```text\nhello\n```\n",
        "```python\n```\n\n<!-- prints -->\n\nSome prose.\n",
    ],
    ids=["without a program", "twice for one program", "without a text block"],
)
def test_output_that_belongs_to_no_program_is_an_error(tmp_path: Path, page: str) -> None:
    with pytest.raises(ValueError, match="prints -->"):
        run_page(tmp_path, page)
