"""A page of a list; alone, because commands that list need no other result class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

import attrs

T = TypeVar("T")


@attrs.frozen
class Page(Generic[T]):
    """One page of a list, as a sequence; `next` is the cursor of the next page, None at the end."""

    items: tuple[T, ...]
    next: str | None

    def __iter__(self) -> Iterator[T]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)

    def __getitem__(self, index: int) -> T:
        return self.items[index]
