"""Whole queries: rows of queries that lie in several partitions meet in one of them.

The partition in which a query appears first owns it; others send the rows of that query to the owner, which has its own
rows first and then those of the others in the order of the partitions. So rows of a query keep their order, and the
owners one after the other have the queries in the order of first appearance over all rows. Nothing else is moved.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.query_ids import concat_ids, group_rows
from podium.data.sparse import is_sparse

Rows = Mapping[str, Any]
"""Arrays with one entry per row, "qid" among them."""

SOURCE = "source"  # in joined rows, the partition that each is from


@dataclass(frozen=True)
class Owners:
    """Which partition owns each query: `away[p]` has the queries of partition p that belong to another one."""

    away: list[dict[Any, int]]
    n_queries: int

    @classmethod
    def of(cls, queries: Sequence[Sequence[Any]]) -> Owners:
        """From the distinct query ids of each partition."""
        if len({isinstance(query, str) for ids in queries for query in ids}) > 1:
            raise ValueError(
                "qid must hold integers or text, not a mix; some partitions have text and others integers."
            )
        owner: dict[Any, int] = {}
        away = [
            {query: owner[query] for query in ids if owner.setdefault(query, partition) != partition}
            for partition, ids in enumerate(queries)
        ]
        return cls(away, len(owner))

    def senders(self, owner: int) -> list[int]:
        """The partitions that send rows to this one."""
        return [partition for partition, away in enumerate(self.away) if owner in away.values()]


def distinct_queries(ids: Array) -> list[Any]:
    """In order of first appearance."""
    queries: list[Any] = group_rows(ids)[2].tolist()
    return queries


def gather(parts: Sequence[Any], owners: Owners) -> list[Any]:
    """Per owner, its rows and those that were sent to it, joined; `parts` are Dask's delayed rows per partition."""
    from dask import delayed

    pieces = [delayed(divided)(part, away, p) for p, (part, away) in enumerate(zip(parts, owners.away))]
    return [
        delayed(joined)([delayed(getitem)(pieces[p], owner) for p in (owner, *owners.senders(owner))])
        for owner in range(len(parts))
    ]


def divided(rows: Rows, away: Mapping[Any, int], partition: int) -> dict[int, Rows]:
    """The rows of a partition by owner; its own are always there."""
    rows = {**rows, SOURCE: np.full(len(rows["qid"]), partition)}
    if not away:
        return {partition: rows}
    owner = owner_of_rows(rows["qid"], away, partition)
    return {one: {name: values[owner == one] for name, values in rows.items()} for one in {partition, *away.values()}}


def owner_of_rows(ids: Array, away: Mapping[Any, int], partition: int) -> Array:
    order, offsets, queries = group_rows(ids)
    owners = np.array([away.get(query, partition) for query in queries.tolist()], np.int64)
    grouped = np.repeat(owners, np.diff(offsets))
    if order is None:
        return grouped
    owner = np.empty(len(ids), np.int64)
    owner[order] = grouped
    return owner


def joined(pieces: Sequence[Rows]) -> Rows:
    if len(pieces) == 1:
        return pieces[0]
    return {name: _joined_column(name, [piece[name] for piece in pieces]) for name in pieces[0]}


def _joined_column(name: str, columns: Sequence[Any]) -> Any:
    if name == "qid":
        return concat_ids(columns)
    if not is_sparse(columns[0]):
        return np.concatenate(columns)
    from scipy.sparse import vstack

    return vstack(columns, format="csr")


def returned(ids: Array, away: Mapping[Any, int], partition: int, answers: Mapping[int, tuple[Array, Array]]) -> Array:
    """One value per row of a partition, from its owners' `(values, sources)` of all of their rows."""
    owner, values = owner_of_rows(ids, away, partition), np.empty(len(ids))
    for one, (answer, sources) in answers.items():
        values[owner == one] = answer[sources == partition]
    return values
