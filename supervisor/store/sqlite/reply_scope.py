"""The scope of an idempotency key: one text in the port, two columns in table `kept`.

`create` has no owner; `ID/spawn` is the scope `spawn` of that session; an id alone is the scope
`session`.
"""

from __future__ import annotations

from typing import Final


def split_scope(scope: str) -> tuple[str, str]:
    """Return the columns `scope` and `owner` of the scope of a stored reply."""
    if scope == "create":
        return scope, ""
    owner, separator, name = scope.partition("/")
    return (name if separator else "session"), owner


# The same for rows that were written before version 6, when `kept` had one column for it and
# `create` was `-`. Part of migration 6, so these never change.
OLD_SCOPE_SQL: Final = """
    CASE
        WHEN scope = '-' THEN 'create'
        WHEN instr(scope, '/') > 0 THEN substr(scope, instr(scope, '/') + 1)
        ELSE 'session'
    END
"""
OLD_OWNER_SQL: Final = """
    CASE
        WHEN scope = '-' THEN ''
        WHEN instr(scope, '/') > 0 THEN substr(scope, 1, instr(scope, '/') - 1)
        ELSE scope
    END
"""
# The row with this scope was not a reply: it said that the full-text index is stale.
OLD_STALE_INDEX_SCOPE: Final = "~"
