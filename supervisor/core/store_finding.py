"""A finding about the file of a store. Apart, because short commands import it."""

from __future__ import annotations

from typing import Literal

import attrs


@attrs.frozen
class StoreFinding:
    """Loss or damage of a store's file that does not prevent its use, and what to do about it."""

    code: Literal["records-lost", "store-damaged"]
    detail: str
    hint: str
