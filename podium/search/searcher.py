"""Searcher: what finds documents for a query. An index is one, and so is a cascade over an index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from podium.search.reading import Hits
    from podium.search.retrieval.weightings import Weighting

Fields = str | Sequence[str] | Mapping[str, float]  # a field, several, or fields and their weights


class Searcher(Protocol):
    """`weighting` and `fields` are those of the first stage; a searcher that has them set refuses others."""

    def search(self, text: str, k: int = 10, *, weighting: str | Weighting = ..., fields: Fields = ...) -> Hits: ...

    def search_many(
        self,
        texts: Sequence[str],
        k: int = 10,
        *,
        weighting: str | Weighting = ...,
        fields: Fields = ...,
        n_jobs: int | None = None,
    ) -> Sequence[Hits]: ...
