"""A linter for ranking data: each finding states what was found, what it means and what to do.

Three levels. An *error* makes training or evaluation fail or its result invalid. A *warning* is probably a
mistake, or costs quality. A *note* is worth knowing; nothing breaks. Features without names are numbered from 1, as
in LETOR files; rows are counted from 1 in the order of the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from podium._runtime.words import counted
from podium.data.precision import EXACT
from podium.data.ranking import RankingData
from podium.data.sparse import is_sparse
from podium.data.texts import Texts
from podium.formats.digits import merged_in_file
from podium.formats.lines import FilePath
from podium.lint import facts
from podium.lint.category_checks import category_differences, in_same_numbers
from podium.lint.rules import Finding, Level, Report, rules
from podium.lint.sparse_facts import measure_sparse

LARGEST_LABEL = 31  # the exponential gain 2^label - 1 stops here
LONGEST_LIST = 10_000  # LightGBM's limit for its ranking objectives
_LABEL_GAP = 5  # a gap of 5 grades multiplies the gain by 32
_ONE_LABEL_SHARE = 0.95
_LONGER_THAN_MOST = 5  # times the length that nine queries in ten keep to
_SCALE_RATIO = 1000
_LEAK_ACCURACY = 0.995
_LEAK_PAIRS, _LEAK_QUERIES = 30, 10  # with fewer, a feature may be perfect by chance
_EXAMPLES = 3  # in a sentence
_LISTED = 100  # in the details


@dataclass(frozen=True, eq=False)
class _Part:
    name: str
    data: RankingData  # grouped
    rows: np.ndarray  # the row number in the input of each row
    facts: facts.Facts
    path: FilePath | None = None  # the file it was read from

    @classmethod
    def of(cls, name: str, data: RankingData, path: FilePath | None) -> _Part:
        grouped = data.grouped()
        measure = measure_sparse if is_sparse(grouped.X) else facts.measure
        return cls(name, grouped, data.rows, measure(grouped.X, grouped.offsets), path)

    @property
    def coded(self) -> list[int]:
        """The columns whose numbers stand for categories, so that their order and size mean nothing."""
        return [(self.data.feature_names or ()).index(name) for name in self.data.categories or ()]

    @property
    def labels(self) -> np.ndarray:
        return self.data.labels_for(f"{self.name}: check")

    def labels_differ(self, rows: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether the labels of each two rows differ; no labels, no difference."""
        labels = self.data.y
        return np.zeros(len(rows), dtype=bool) if labels is None else labels[rows] != labels[others]


def check(parts: Mapping[str, RankingData], paths: Mapping[str, FilePath] | None = None) -> Report:
    """Check data sets, named by file; several are treated as the splits of one experiment.

    `paths` are the files that they were read from, whose text may have more digits than the data keep.
    """
    if not parts:
        raise ValueError("check needs at least one data set; got none.")
    read_from = paths or {}
    full = {name: data for name, data in parts.items() if data.n_rows and data.n_features}
    differences = [_finding(code, file, **details) for code, file, details in category_differences(full)]
    full = in_same_numbers(full)
    filled = [_Part.of(name, data, read_from.get(name)) for name, data in full.items()]
    findings = [*_empty_parts(parts), *_between_all(full), *differences]
    for part in filled:
        for look_at_part in (*_PART_CHECKS, *(_LABEL_CHECKS if part.data.y is not None else (_no_labels,))):
            findings.extend(look_at_part(part))
    for group in _alike(filled):
        for look_at_features in _FEATURE_CHECKS:
            findings.extend(look_at_features(group))
    for one, other in combinations(filled, 2):
        findings.extend(_between_two(one, other))
    findings.sort(key=lambda finding: ("error", "warning", "note").index(finding.level))
    return Report(tuple(findings), {name: _overview(data) for name, data in parts.items()})


def _alike(parts: Sequence[_Part]) -> list[Sequence[_Part]]:
    """Splits of the same features are looked at together: one finding, not one per file."""
    if len({part.data.n_features for part in parts}) == 1:
        return [parts]
    return [[part] for part in parts]


def _overview(data: RankingData) -> dict[str, Any]:
    labels, counts = np.unique([] if data.y is None else data.y, return_counts=True)
    shortest, median, longest = np.quantile(data.group, [0, 0.5, 1]).tolist() if data.n_queries else (0, 0, 0)
    return {
        "documents": data.n_rows,
        "queries": data.n_queries,
        "features": data.n_features,
        "list_lengths": {"shortest": int(shortest), "median": median, "longest": int(longest)},
        "labels": {_number(label): int(count) for label, count in zip(labels[:_LISTED], counts)},
    }


# One data set


def _empty_parts(parts: Mapping[str, RankingData]) -> Iterator[Finding]:
    for name, data in parts.items():
        if data.n_rows == 0:
            yield _finding("no-rows", name)
        elif data.n_features == 0:
            yield _finding("no-features", name)


def _interleaved(part: _Part) -> Iterator[Finding]:
    rows = part.rows
    breaks = np.setdiff1d(np.flatnonzero(np.diff(rows) != 1) + 1, part.data.offsets)
    if len(breaks):
        queries = np.unique(_query_of(part.data, breaks))
        left, again = int(rows[breaks[0] - 1]) + 1, int(rows[breaks[0]]) + 1
        query = str(part.data.query_ids[queries[0]])
        yield _about_queries("interleaved-queries", part, queries, query=query, left=left, again=again)


def _no_labels(part: _Part) -> Iterator[Finding]:
    yield _finding("no-labels", part.name)


def _queries_without_pairs(part: _Part) -> Iterator[Finding]:
    """Queries that give nothing to compare, by their cause; each is counted once."""
    data, lengths = part.data, part.data.group
    low, high = (of.reduceat(part.labels, data.offsets[:-1]) for of in (np.minimum, np.maximum))
    causes = {
        "one-document-queries": lengths == 1,
        "queries-without-relevant": (lengths > 1) & (high == 0),
        "one-label-queries": (lengths > 1) & (low == high) & (high > 0),
    }
    if (low == high).all():
        counts = {code: int(mask.sum()) for code, mask in causes.items()}
        yield _about_queries("nothing-to-learn", part, np.arange(data.n_queries), causes=counts)
        return
    for code, mask in causes.items():
        if mask.any():
            yield _about_queries(code, part, np.flatnonzero(mask), level="warning" if mask.mean() >= 0.5 else "note")


def _repeated_docids(part: _Part) -> Iterator[Finding]:
    data, texts = part.data, part.data.docid_texts
    if texts is None:
        return
    named = np.flatnonzero(np.diff(texts.offsets) > 0)
    first, second = (named[places] for places in facts.repeats(_within_query(facts.hash_texts(texts), data)[named]))
    if len(second):
        differing = int(part.labels_differ(first, second).sum())
        yield _about_documents("repeated-docids", part, second, with_other_label=differing)


def _identical_documents(part: _Part) -> Iterator[Finding]:
    data = part.data
    first, second = facts.repeats(_within_query(part.facts.row_hashes, data))
    equal = facts.rows_equal(data.X, first, data.X, second)
    conflict = part.labels_differ(first, second)
    for code, chosen in (("conflicting-documents", equal & conflict), ("identical-documents", equal & ~conflict)):
        if chosen.any():
            yield _about_documents(code, part, second[chosen])


def _odd_labels(part: _Part) -> Iterator[Finding]:
    labels, counts = np.unique(part.labels, return_counts=True)
    fractional, above = labels != np.floor(labels), labels > LARGEST_LABEL
    gaps = np.flatnonzero(np.diff(labels) >= _LABEL_GAP)
    if fractional.any():
        some = _some(f"{label:g}" for label in labels[fractional])
        yield _finding("fractional-labels", part.name, count=int(counts[fractional].sum()), some=some)
    if above.any():
        yield _finding("label-ceiling", part.name, count=int(counts[above].sum()), largest=float(labels[-1]))
    if len(gaps):
        yield _finding("label-gaps", part.name, lower=float(labels[gaps[-1]]), upper=float(labels[gaps[-1] + 1]))


def _label_distribution(part: _Part) -> Iterator[Finding]:
    labels, counts = np.unique(part.labels, return_counts=True)
    top = int(counts.argmax())
    share = float(counts[top] / part.data.n_rows)
    if len(labels) > 1 and share > _ONE_LABEL_SHARE:
        some = _some(f"{label:g}" for label in np.delete(labels, top))
        yield _finding("label-distribution", part.name, most_common=float(labels[top]), share=share, some=some)


def _list_lengths(part: _Part) -> Iterator[Finding]:
    lengths = part.data.group
    usual = int(np.quantile(lengths, 0.9, method="lower"))
    too_long = lengths > LONGEST_LIST
    uneven = (lengths > _LONGER_THAN_MOST * usual) & ~too_long
    if too_long.any():
        yield _about_queries("long-lists", part, np.flatnonzero(too_long), longest=int(lengths.max()))
    if uneven.any():
        longest = int(lengths[uneven].max())
        yield _about_queries("uneven-lists", part, np.flatnonzero(uneven), longest=longest, usual=usual)


def _merged_numbers(part: _Part) -> Iterator[Finding]:
    """Numbers that are different in the file and one in the data."""
    if part.path is None:
        return
    largest = np.fmax(np.abs(part.facts.low), np.abs(part.facts.high))
    merged = merged_in_file(part.path, part.data, np.setdiff1d(np.flatnonzero(largest >= EXACT), part.coded))
    if merged:
        mask = np.zeros(part.data.n_features, dtype=bool)
        mask[list(merged)] = True
        one, other = map(str, next(iter(merged.values())))
        yield from _about_features("merged-numbers", [part], mask, one=one, other=other)


# The features, in all data sets together


def _still_features(group: Sequence[_Part]) -> Iterator[Finding]:
    still, empty = _constant(group), _all_missing(group)
    comparable = any(part.data.group.max() > 1 for part in group)  # else nothing can vary inside a query
    same_in_query = ~_any(part.facts.varies_in_query for part in group) & comparable
    yield from _about_features("all-missing-features", group, empty)
    yield from _about_features("constant-features", group, still & ~empty)
    yield from _about_features("query-level-features", group, same_in_query & ~still)
    for part in group:
        yield from _about_features("constant-in-one-file", [part], ~part.facts.varies & ~still & ~same_in_query)


def _duplicate_features(group: Sequence[_Part]) -> Iterator[Finding]:
    keys = np.zeros(group[0].data.n_features, np.uint64)
    for part in group:
        keys = facts.mix(keys ^ part.facts.column_hashes)
    moving = np.flatnonzero(~_constant(group))
    first, second = (moving[places] for places in facts.repeats(keys[moving]))
    for part in group:
        equal = facts.columns_equal(part.data.X, first, second)
        first, second = first[equal], second[equal]
    if len(first):
        copies = np.zeros(len(keys), bool)
        copies[second] = True
        names = [[_feature(group, column) for column in pair] for pair in zip(second[:_LISTED], first)]
        copy, original = names[0]
        yield from _about_features("duplicate-features", group, copies, copy=copy, original=original, pairs=names)


def _missing_values(group: Sequence[_Part]) -> Iterator[Finding]:
    rows = sum(part.data.n_rows for part in group)
    missing = np.sum([part.facts.missing for part in group], axis=0)
    missing[_all_missing(group)] = 0  # those have a finding of their own
    order = np.argsort(-missing, kind="stable")[: np.count_nonzero(missing)]
    shares = {_feature(group, column): float(missing[column] / rows) for column in order[:_LISTED]}
    worst = _some((f"{name} ({share:.1%})" for name, share in shares.items()), len(order))
    share = float(missing.sum() / (rows * len(missing)))
    yield from _about_features("missing-values", group, missing > 0, share=share, worst=worst, shares=shares)


def _feature_scales(group: Sequence[_Part]) -> Iterator[Finding]:
    low = np.fmin.reduce([part.facts.low for part in group]).astype(np.float64)
    high = np.fmax.reduce([part.facts.high for part in group]).astype(np.float64)
    spans = np.where(high > low, high - low, np.nan)
    spans[_coded(group)] = np.nan
    if np.fmax.reduce(spans) > _SCALE_RATIO * np.fmin.reduce(spans):
        narrow, wide = np.nanargmin(spans), np.nanargmax(spans)
        details: dict[str, Any] = {"narrow": _feature(group, narrow), "narrow_span": float(spans[narrow])}
        details |= {"wide": _feature(group, wide), "wide_span": float(spans[wide])}
        yield _finding("feature-scales", _files(group), **details)


def _leaking_features(group: Sequence[_Part]) -> Iterator[Finding]:
    labelled = [part for part in group if part.data.y is not None]
    counts = [facts.count_pairs(part.data.X, part.labels, part.data.offsets) for part in labelled]
    pairs, queries = sum(part.pairs for part in counts), sum(part.queries for part in counts)
    if pairs < _LEAK_PAIRS or queries < _LEAK_QUERIES:
        return
    lead = np.sum([part.larger - part.smaller for part in counts], axis=0)
    right = 0.5 + 0.5 * np.abs(lead) / pairs  # a tie is half right; a feature that is always wrong leaks as well
    leaks = right >= _LEAK_ACCURACY
    leaks[_coded(group)] = False
    accuracy = float(right[leaks].min(initial=1.0))
    yield from _about_features("leaking-features", group, leaks, accuracy=accuracy, pairs=pairs)


def _coded(group: Sequence[_Part]) -> list[int]:
    return sorted({column for part in group for column in part.coded})


# Between data sets


def _between_all(parts: Mapping[str, RankingData]) -> Iterator[Finding]:
    counts = {name: data.n_features for name, data in parts.items()}
    named = {data.feature_names: name for name, data in parts.items() if data.feature_names}
    if len(set(counts.values())) > 1:
        sizes = ", ".join(f"{name} has {count:,}" for name, count in counts.items())
        yield _finding("different-features", ", ".join(parts), sizes=sizes, features=counts)
    elif len(named) > 1:
        column, differing = next((i, names) for i, names in enumerate(zip(*named), 1) if len(set(names)) > 1)
        names = ", ".join(f"{name} has {feature}" for name, feature in zip(named.values(), differing))
        yield _finding("different-names", ", ".join(parts), column=column, names=names)


def _between_two(one: _Part, other: _Part) -> Iterator[Finding]:
    """The same documents in two splits, or at least the same query ids."""
    rows = _shared_rows(one, other)
    if len(rows):
        files = _files([one, other])
        yield _about_documents("shared-documents", other, rows, file=files, counted_in=other.name)
        return
    ids = set(map(str, one.data.query_ids))
    both = np.flatnonzero([str(name) in ids for name in other.data.query_ids])
    if len(both):
        yield _about_queries("shared-queries", other, both, file=_files([one, other]), counted_in=other.name)


def _shared_rows(one: _Part, other: _Part) -> np.ndarray:
    """Rows of the other part whose features and document id (where there is none: query id) are in the first too."""
    if one.data.n_features != other.data.n_features:
        return np.empty(0, np.int64)
    by_document = one.data.docid_texts is not None and other.data.docid_texts is not None
    keys, other_keys = (_document_keys(part, by_document) for part in (one, other))
    _, mine, theirs = np.intersect1d(keys, other_keys, return_indices=True)
    same = facts.rows_equal(one.data.X, mine, other.data.X, theirs) & ~facts.rows_flat(one.data.X, mine)
    return np.sort(theirs[same])


def _document_keys(part: _Part, by_document: bool) -> np.ndarray:
    if by_document and part.data.docid_texts is not None:
        names = facts.hash_texts(part.data.docid_texts)
    else:
        names = np.repeat(facts.hash_texts(Texts.of(map(str, part.data.query_ids))), part.data.group)
    return facts.mix(part.facts.row_hashes ^ names)


_PART_CHECKS = (_interleaved, _repeated_docids, _identical_documents, _list_lengths, _merged_numbers)
_LABEL_CHECKS = (_queries_without_pairs, _odd_labels, _label_distribution)
_FEATURE_CHECKS = (_still_features, _duplicate_features, _missing_values, _feature_scales, _leaking_features)


# From a check to a finding


def _finding(code: str, file: str, where: str = "", level: Level | None = None, **details: Any) -> Finding:
    usual_level, template = rules()[code]
    return Finding(code, level or usual_level, file, template.format(where=where, **details), details)


def _about_queries(
    code: str, part: _Part, queries: np.ndarray, *, file: str = "", level: Level | None = None, **details: Any
) -> Finding:
    total = part.data.n_queries
    ids = [str(name) for name in part.data.query_ids[queries[:_LISTED]]]
    where = f"{len(queries):,} of {counted(total, 'query', 'queries')} ({_some(ids, len(queries))})"
    details |= {"count": len(queries), "of": total, "queries": ids}
    return _finding(code, file or part.name, where, level, **details)


def _about_documents(code: str, part: _Part, rows: np.ndarray, *, file: str = "", **details: Any) -> Finding:
    data, examples = part.data, []
    for row, query in zip(rows[:_LISTED], _query_of(data, rows[:_LISTED])):
        docid = None if data.docid_texts is None else data.docid_texts[int(row)]
        examples.append({"query": str(data.query_ids[query]), "row": int(part.rows[row]) + 1, "docid": docid})
    texts = [f"{one['docid'] or 'row {row}'.format(**one)} of query {one['query']}" for one in examples]
    where = f"{len(rows):,} of {counted(data.n_rows, 'document')} ({_some(texts, len(rows))})"
    return _finding(code, file or part.name, where, **details, count=len(rows), of=data.n_rows, documents=examples)


def _about_features(code: str, group: Sequence[_Part], mask: np.ndarray, **details: Any) -> Iterator[Finding]:
    if mask.any():
        count = int(mask.sum())
        names = [_feature(group, column) for column in np.flatnonzero(mask)[:_LISTED]]
        where = f"{count:,} of {counted(len(mask), 'feature')} ({_some(names, count)})"
        yield _finding(code, _files(group), where, **details, count=count, of=len(mask), features=names)


def _constant(group: Sequence[_Part]) -> np.ndarray:
    return ~_any(part.facts.varies | (part.facts.first != group[0].facts.first) for part in group)


def _all_missing(group: Sequence[_Part]) -> np.ndarray:
    return ~_any(part.facts.missing < part.data.n_rows for part in group)


def _any(masks: Iterable[np.ndarray]) -> np.ndarray:
    return np.asarray(np.any(list(masks), axis=0))


def _within_query(hashes: np.ndarray, data: RankingData) -> np.ndarray:
    """Keys that are equal only inside one query."""
    numbers = np.repeat(np.arange(data.n_queries, dtype=np.uint64), data.group)
    return facts.mix(hashes ^ facts.mix(numbers))


def _query_of(data: RankingData, rows: np.ndarray) -> np.ndarray:
    return np.searchsorted(data.offsets, rows, side="right") - 1


def _files(group: Sequence[_Part]) -> str:
    return ", ".join(part.name for part in group)


def _feature(group: Sequence[_Part], column: int | np.integer[Any]) -> str:
    names = group[0].data.feature_names
    return str(column + 1) if names is None else names[column]


def _some(texts: Iterable[str], total: int | None = None) -> str:
    """The first few: ["a", "b", "c", "d"] -> "a, b, c, ..."."""
    known = list(texts)
    return ", ".join(known[:_EXAMPLES]) + (", ..." if (total or len(known)) > _EXAMPLES else "")


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(float(value))
