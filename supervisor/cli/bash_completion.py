"""Completion for bash: words are quoted as the word that is being typed.

Bash inserts a completion as it is, and runs what the line then says: names of sessions are chosen
by people and agents, and may contain `$(...)`, quotes, blanks and stars.

Rule 1: what is inserted is one word of the shell, and stands for the name itself.
Rule 2: a word that cannot be quoted is left out: with a control character, after a mixture of
        quotes, or if the script of an older version asks, which splits and expands what it gets.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from click.shell_completion import BashComplete, add_completion_class

from supervisor.core.validation import replace_controls

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

# The word under the cursor as it is typed; the script of an older version does not set it.
_CURRENT: Final = "COMP_CURRENT"

_QuoteStyle: TypeAlias = Literal["", "'", '"']

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_./,+@%\u0080-\U0010ffff-]")

# Bash 4.4 is the first with `nosort`. No output of the program is split or expanded.
_SOURCE: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' line
    COMPREPLY=()

    while IFS= read -r line; do
        case "${line%%%%,*}" in
            dir) compopt -o dirnames ;;
            file) compopt -o default ;;
            plain) COMPREPLY+=("${line#*,}") ;;
        esac
    done < <(
        env COMP_WORDS="${COMP_WORDS[*]:0:COMP_CWORD+1}" COMP_CWORD="$COMP_CWORD" \\
            COMP_CURRENT="${COMP_WORDS[COMP_CWORD]}" %(complete_var)s=bash_complete "$1"
    )

    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class QuotingBashComplete(BashComplete):
    """The completion class of click for bash, with words that are quoted."""

    source_template = _SOURCE

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[Any]]:
        """Return the completions that can be inserted, each quoted."""
        items = super().get_completions(args, incomplete)
        current = os.environ.get(_CURRENT)
        if current is None:
            return [item for item in items if not _UNSAFE.search(item.value)]
        style = quote_style(current)
        if style is None:
            return []
        found = [item for item in items if replace_controls(item.value) == item.value]
        for item in found:
            item.value = quoted(item.value, style)
        return found


def register() -> None:
    """Have click use this class for bash."""
    add_completion_class(QuotingBashComplete)


def quote_style(typed: str) -> _QuoteStyle | None:
    """Return the quote that is open in a word; None if the word mixes quotes."""
    first, rest = typed[:1], typed[1:]
    if first == "'":
        return None if "'" in rest else "'"
    bare = re.sub(r"\\.", "", rest if first == '"' else typed)
    if first == '"':
        return None if '"' in bare else '"'
    return None if "'" in bare or '"' in bare else ""


def quoted(word: str, style: _QuoteStyle) -> str:
    """Return the text that stands for the word after this quote, which bash closes."""
    if style == "'":
        return word.replace("'", r"'\''")
    if style == '"':
        # A backslash does not keep bash from replacing `!` in double quotes.
        return re.sub(r'([\\"$`])', r"\\\1", word).replace("!", "\"'!'\"")
    return _UNSAFE.sub(lambda found: f"\\{found[0]}", word)
