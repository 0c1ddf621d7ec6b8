"""Shuffling: every query to the rank that owns it, rows in their order, each with its number among all rows.

The owner of a query follows from a hash of its id, so nobody needs a list of owners, and nothing is sorted globally.
Ranks go through their partitions in step, twice: first ids, labels and weights, from which an owner knows where each of
its rows belongs; then features, which are written there. Of these, one partition at a time is in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from podium._runtime.compiler import Array
from podium.data.categories import places_among
from podium.data.query_ids import group_rows
from podium.data.ranking import RankingData
from podium.data.sharding.collective import CollectiveError
from podium.data.sharding.shard import Shard
from podium.data.sparse import is_sparse
from podium.data.texts import Texts
from podium.distributed.collective import DaskCollective
from podium.distributed.mapping import MappedMemory
from podium.distributed.messages import Expected
from podium.distributed.spilling import Spilled, read_spilled
from podium.formats.names import Names

_F4, _F8, _I8, _U8, _BYTES = map(np.dtype, ("<f4", "<f8", "<i8", "<u8", "|u1"))
_ODD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Rows:
    """What all ranks know of the rows that they share out."""

    like: Spilled  # any partition, as far as they are alike
    first_rows: list[int]  # of each partition: the number of its first row among all
    n_rows: int
    names: Names  # of categories, in all partitions of the training rows together
    rounds: int  # the largest number of partitions of a rank


@dataclass(frozen=True, eq=False)
class ShardRows:
    """The rows of a rank, grouped, and which of all rows they are."""

    data: RankingData
    shard: Shard


def owners_of(query_ids: Array, size: int) -> Array:
    """(queries,) the rank of each query."""
    if query_ids.dtype == object:
        mixed = np.array([zlib.crc32(name.encode("utf-8", "surrogateescape")) for name in query_ids], np.uint64)
    else:
        mixed = query_ids.astype(np.uint64)
    mixed = mixed * _ODD
    mixed ^= mixed >> np.uint64(32)
    return np.asarray((mixed * _ODD >> np.uint64(33)) % np.uint64(size)).astype(np.int64)


def shuffle(collective: DaskCollective, rows: Rows, mine: Sequence[Spilled], memory: MappedMemory) -> ShardRows:
    """The rows of this rank; `mine` are the partitions that it reads for all, none of them empty."""
    pieces = sorted(_facts(collective, rows, mine), key=lambda piece: piece.number)
    return _Assembly(collective, rows, pieces, memory).run(mine)


@dataclass(frozen=True, eq=False)
class _Piece:
    """What a rank gets of one partition, without its features."""

    number: int  # of the partition
    numbers: Array  # (rows,) of the rows among all
    codes: Array  # (rows,) which of its ids
    ids: Array
    columns: Array  # (rows, 1 to 3) labels, weights and scores to start from
    docids: Texts | None


def _facts(collective: DaskCollective, rows: Rows, mine: Sequence[Spilled]) -> Iterator[_Piece]:
    """The pieces of all partitions that belong to this rank, round by round."""
    like, width = rows.like, 1 + rows.like.has_weights + rows.like.has_init_score
    texts = [Expected(_BYTES, (None,)), Expected(_I8, (None,))]
    ids = texts if like.text_ids else [Expected(_U8 if like.unsigned_ids else _I8, (None,))]
    numbers = [Expected(_I8, (1,)), Expected(_I8, (None,)), Expected(_I8, (None,)), Expected(_F8, (None, width))]
    expected = [*numbers, *ids, *(texts if like.has_docids else [])]
    for turn in range(rows.rounds):
        spilled = mine[turn] if turn < len(mine) else None
        for arrays in collective.swap(_outgoing_facts(collective.size, rows, spilled, expected), expected):
            if arrays[0][0] >= 0:
                yield _piece(rows, arrays)


def _outgoing_facts(
    size: int, rows: Rows, spilled: Spilled | None, expected: Sequence[Expected]
) -> list[Sequence[Array]]:
    if spilled is None:
        return [_nothing(expected)] * size
    data, weights = read_spilled(spilled.path)
    columns = [data.labels_for("fit"), *(one for one in (weights, data.init_score) if one is not None)]
    together, owner = np.stack(columns, axis=1), owners_of(data.query_ids, size)
    first = rows.first_rows[spilled.number]
    outgoing: list[Sequence[Array]] = []
    for rank in range(size):
        taken = np.flatnonzero(owner[data.query_numbers] == rank)
        queries, codes = np.unique(data.query_numbers[taken], return_inverse=True)
        ids = data.query_ids[queries]
        packed = _packed(Texts.of(ids)) if rows.like.text_ids else [ids]
        packed += [] if data.docid_texts is None else _packed(data.docid_texts.take(taken))
        outgoing.append([np.array([spilled.number]), taken + first, codes.astype(np.int64), together[taken], *packed])
    return outgoing


def _nothing(expected: Sequence[Expected]) -> list[Array]:
    return [np.array([-1]), *(np.empty([n or 0 for n in one.shape], one.dtype) for one in expected[1:])]


def _packed(texts: Texts) -> list[Array]:
    return [texts.data, texts.offsets]


def _piece(rows: Rows, arrays: Sequence[Array]) -> _Piece:
    (number,), numbers, codes, columns, *rest = arrays
    ids = Texts(*rest[:2]).to_array() if rows.like.text_ids else rest[0]
    docids = Texts(*rest[-2:]) if rows.like.has_docids else None
    if not len(numbers) == len(codes) == len(columns) or (
        len(codes) and not 0 <= codes.min() <= codes.max() < len(ids)
    ):
        raise CollectiveError("the rows of a partition that arrived do not fit together.")
    return _Piece(int(number), numbers, codes, ids, columns, docids)


def _concat(parts: Sequence[Array], rows: Rows) -> Array:
    if parts:
        return np.concatenate(parts)
    return np.empty(0, object if rows.like.text_ids else _U8 if rows.like.unsigned_ids else _I8)


class _Assembly:
    """The rows of a rank, put where they belong."""

    def __init__(self, collective: DaskCollective, rows: Rows, pieces: Sequence[_Piece], memory: MappedMemory) -> None:
        self.collective, self.rows, self.pieces, self.memory = collective, rows, pieces, memory
        ids = _concat([piece.ids[piece.codes] for piece in pieces], rows)
        order, self.offsets, self.query_ids = group_rows(ids)
        self._refuse_others()
        self.order = np.arange(len(ids)) if order is None else order
        self.target = np.empty(len(ids), np.int64)  # of the rows as they arrive: where they stand
        self.target[self.order] = np.arange(len(ids))
        self.starts = dict(zip((piece.number for piece in pieces), np.cumsum([0, *(len(p.codes) for p in pieces)])))

    def run(self, mine: Sequence[Spilled]) -> ShardRows:
        numbers = self._taken([piece.numbers for piece in self.pieces], np.empty(0, np.int64))
        shard = Shard.join(self.collective, self.offsets, self._query_numbers(numbers[self.offsets[:-1]]))
        self._refuse_lost(shard)
        width = 1 + self.rows.like.has_weights + self.rows.like.has_init_score
        columns = self._taken([piece.columns for piece in self.pieces], np.empty((0, width)))
        texts = [piece.docids for piece in self.pieces if piece.docids is not None]
        data = RankingData(
            self._features(mine),
            columns[:, 0].copy(),
            self.offsets,
            self.query_ids,
            np.arange(len(numbers)),
            docid_texts=Texts.concat(texts).take(self.order) if texts else None,
            feature_names=None if self.rows.like.feature_names is None else tuple(self.rows.like.feature_names),
            sample_weight=columns[:, 1].copy() if self.rows.like.has_weights else None,
            init_score=columns[:, -1].copy() if self.rows.like.has_init_score else None,
        )
        return ShardRows(data, replace(shard, zeros=self.memory.zeros))

    def _taken(self, parts: Sequence[Array], empty: Array) -> Array:
        return np.concatenate(parts)[self.order] if parts else empty

    def _query_numbers(self, first_rows: Array) -> Array:
        """Queries are numbered by their first rows among the rows of all ranks."""
        everywhere = np.sort(np.concatenate(self.collective.gather(first_rows)))
        return np.searchsorted(everywhere, first_rows)

    def _refuse_others(self) -> None:
        """Verify that this rank owns all queries of which it has rows: then no other rank has any of theirs."""
        if (owners_of(self.query_ids, self.collective.size) != self.collective.rank).any():
            raise CollectiveError("a query arrived at a rank that does not own it.")

    def _refuse_lost(self, shard: Shard) -> None:
        if shard.n_rows != self.rows.n_rows:
            raise CollectiveError(f"{self.rows.n_rows:,} rows were read, and {shard.n_rows:,} arrived.")

    # --- features

    def _features(self, mine: Sequence[Spilled]) -> Any:
        return self._sparse(mine) if self.rows.like.is_sparse else self._dense(mine)

    def _dense(self, mine: Sequence[Spilled]) -> Array:
        width = self.rows.like.n_features
        features = self.memory.zeros((len(self.target), width), np.float32)
        expected = [Expected(_I8, (2,)), Expected(_F4, (None, width))]
        for _, number, (rows,) in self._arriving(mine, expected):
            start = self.starts[number]
            features[self.target[start : start + len(rows)]] = rows
        return features

    def _sparse(self, mine: Sequence[Spilled]) -> Any:
        from scipy.sparse import csr_array, vstack

        width = self.rows.like.n_features
        expected = [Expected(_I8, (2,)), *(Expected(dtype, (None,)) for dtype in (_F4, _I8, _I8))]
        parts = {number: arrays for _, number, arrays in self._arriving(mine, expected)}
        made = [csr_array((v, i, p), shape=(len(p) - 1, width)) for _, (v, i, p) in sorted(parts.items())]
        together = vstack(made, format="csr") if made else csr_array((0, width), dtype=np.float32)
        return together[self.order]

    def _arriving(
        self, mine: Sequence[Spilled], expected: Sequence[Expected]
    ) -> Iterator[tuple[int, int, Sequence[Array]]]:
        """(rank, number, features) of each partition; what arrives is compared with its checksum."""
        for turn in range(self.rows.rounds):
            outgoing = self._outgoing(mine[turn] if turn < len(mine) else None, expected)
            for rank, (head, *arrays) in enumerate(self.collective.swap(outgoing, expected)):
                if head[0] < 0:
                    continue
                if checksum_of(arrays) != int(head[1]):
                    raise CollectiveError(f"rows of partition {int(head[0]) + 1} were changed on their way.")
                yield rank, int(head[0]), arrays

    def _outgoing(self, spilled: Spilled | None, expected: Sequence[Expected]) -> list[Sequence[Array]]:
        if spilled is None:
            return [[np.array([-1, 0]), *_nothing(expected)[1:]]] * self.collective.size
        data, _ = read_spilled(spilled.path)
        X, owner = data.X, owners_of(data.query_ids, self.collective.size)[data.query_numbers]
        outgoing: list[Sequence[Array]] = []
        for rank in range(self.collective.size):
            taken = np.flatnonzero(owner == rank)
            part = X[taken]
            arrays = self._sparse_arrays(part) if is_sparse(part) else [self._recoded(part, spilled)]
            outgoing.append([np.array([spilled.number, checksum_of(arrays)]), *arrays])
        return outgoing

    def _sparse_arrays(self, part: Any) -> list[Array]:
        return [part.data, part.indices.astype(np.int64), part.indptr.astype(np.int64)]

    def _recoded(self, part: Array, spilled: Spilled) -> Array:
        """Categories by the numbers that they have in training; what is not known there is missing."""
        for column, wanted in self.rows.names.items():
            known = spilled.names.get(column)
            if known is not None and list(known) == list(wanted):
                continue
            values = part[:, self._column(column)]
            present = ~np.isnan(values)
            if known is None and present.any():
                problem = f"column {column!r} holds numbers in partition {spilled.number + 1}, and categories in others"
                raise ValueError(f"{problem}. Give it a categorical type, or text, in all partitions.")
            values[present] = places_among(known or [], wanted)[values[present].astype(np.int64)]
        return part

    def _column(self, name: str) -> int:
        columns = self.rows.like.feature_names
        return int(name) if columns is None else columns.index(name)


def checksum_of(arrays: Sequence[Array]) -> int:
    total = 0
    for array in arrays:
        total = zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data, total)
    return total


def with_query_weights(rows: ShardRows, weights: Array | None) -> ShardRows:
    """With the weights of all queries, of which this rank takes those of its own."""
    if weights is None:
        return rows
    if weights.shape != (rows.shard.n_queries,):
        raise ValueError(f"query_weight has {len(weights)} entries, the data has {rows.shard.n_queries:,} queries.")
    return replace(rows, data=replace(rows.data, query_weight=weights[rows.shard.queries]))
