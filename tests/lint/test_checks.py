"""The linter: one small data set for each finding, and none for a clean one."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.sparse import csr_array

from podium.data.ranking import RankingData
from podium.data.texts import Texts
from podium.formats import write_data
from podium.lint import facts
from podium.lint.checks import Report, check, rules

N_QUERIES, LENGTH, N_FEATURES = 12, 5, 4
N_ROWS = N_QUERIES * LENGTH


def clean(seed: int = 1, first_query: int = 100, **changed: Any) -> RankingData:
    """Twelve queries of five documents with labels 0, 1, 2, 0, 1 and four features of noise."""
    made: dict[str, Any] = {
        "X": np.random.default_rng(seed).random((N_ROWS, N_FEATURES)),
        "y": np.tile([0, 1, 2, 0, 1], N_QUERIES),
        "qid": np.repeat(np.arange(first_query, first_query + N_QUERIES), LENGTH),
        "docids": [f"D{seed}-{row}" for row in range(N_ROWS)],
    }
    return RankingData.from_arrays(**made | changed)


def features(seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).random((N_ROWS, N_FEATURES))


def labels(**by_query: float) -> np.ndarray:
    """The clean labels with whole queries set to one label: labels(q0=3)."""
    y = np.tile([0.0, 1, 2, 0, 1], N_QUERIES)
    for query, label in by_query.items():
        start = int(query[1:]) * LENGTH
        y[start : start + LENGTH] = label
    return y


def column(values: Any, place: int = 2) -> np.ndarray:
    X = features()
    X[:, place] = values
    return X


def row_copied(target: int, source: int) -> np.ndarray:
    X = features()
    X[target] = X[source]
    return X


def one(**changed: Any) -> dict[str, RankingData]:
    return {"train.txt": clean(**changed)}


def lengths(*sizes: int, highest: int = 2, first: int = 0) -> dict[str, RankingData]:
    """Lists of these lengths with labels 0, 1, ..., highest, 0, 1, ...; the first document of each may differ."""
    X = np.random.default_rng(1).random((sum(sizes), N_FEATURES))
    y = np.concatenate([[first, *(np.arange(1, size) % (highest + 1))] for size in sizes])
    return {"train.txt": RankingData.from_arrays(X, y, group=sizes)}


def moved_rows() -> dict[str, RankingData]:
    order = np.arange(N_ROWS)
    order[[2, 30]] = [30, 2]
    return one(X=features()[order], y=labels()[order], qid=np.repeat(np.arange(N_QUERIES), LENGTH)[order])


def named(seed: int = 1, names: tuple[str, str] = ("x", "y")) -> dict[str, Any]:
    """Four features of which the third has categories."""
    X = features(seed)
    X[:, 2] = np.arange(N_ROWS) % 2
    return {"X": X, "feature_names": list("abcd"), "categories": {"c": names}}


def copied_part() -> dict[str, RankingData]:
    other = clean(seed=2, first_query=300)
    X, ids = other.X.copy(), [f"D2-{row}" for row in range(N_ROWS)]
    X[7], ids[7] = clean().X[3], "D1-3"
    return {"train.txt": clean(), "test.txt": clean(seed=2, first_query=300, X=X, docids=ids)}


CULPRITS = {
    "no-rows": lambda: {"train.txt": RankingData.from_arrays(np.empty((0, 3)), [], qid=[])},
    "no-features": lambda: one(X=np.empty((N_ROWS, 0))),
    "no-labels": lambda: one(y=None),
    "nothing-to-learn": lambda: one(y=np.ones(N_ROWS)),
    "interleaved-queries": moved_rows,
    "one-document-queries": lambda: one(qid=[99, *np.repeat(np.arange(N_QUERIES), LENGTH)[1:]]),
    "queries-without-relevant": lambda: one(y=labels(q3=0)),
    "one-label-queries": lambda: one(y=labels(q3=2)),
    "repeated-docids": lambda: one(docids=["D0", "D0", *(f"D{row}" for row in range(2, N_ROWS))]),
    "conflicting-documents": lambda: one(X=row_copied(11, 10)),
    "identical-documents": lambda: one(X=row_copied(13, 10)),
    "fractional-labels": lambda: one(y=labels(q0=0) + np.where(np.arange(N_ROWS) == 2, 0.5, 0)),
    "label-ceiling": lambda: one(y=np.arange(N_ROWS) % 33),
    "label-gaps": lambda: one(y=np.where(labels() == 2, 7, labels())),
    "label-distribution": lambda: lengths(40, 40, 40, highest=0, first=1),
    "long-lists": lambda: lengths(10_001),
    "uneven-lists": lambda: lengths(*[6] * 11, 40),
    "all-missing-features": lambda: one(X=column(np.nan)),
    "constant-features": lambda: one(X=column(0.25)),
    "query-level-features": lambda: one(X=column(np.repeat(np.arange(N_QUERIES), LENGTH))),
    "constant-in-one-file": lambda: one(X=column(0.25)) | {"test.txt": clean(seed=2, first_query=300)},
    "duplicate-features": lambda: one(X=column(features()[:, 0])),
    "missing-values": lambda: one(X=column(np.where(np.arange(N_ROWS) % 7 == 0, np.nan, features()[:, 2]))),
    "feature-scales": lambda: one(X=features() * [1, 1, 5000, 1]),
    "merged-numbers": lambda: one(X=column(2**24 + 2 * (np.arange(N_ROWS) % 7))),
    "leaking-features": lambda: one(X=column(labels() + features()[:, 2] / 2)),
    "different-features": lambda: one() | {"test.txt": clean(seed=2, first_query=300, X=features(2)[:, :3])},
    "different-names": lambda: (
        one(feature_names=list("abcd")) | {"test.txt": clean(seed=2, first_query=300, feature_names=list("abdc"))}
    ),
    "different-kinds": lambda: (
        one(**named()) | {"test.txt": clean(seed=2, first_query=300, feature_names=list("abcd"))}
    ),
    "other-categories": lambda: one(**named()) | {"test.txt": clean(seed=2, first_query=300, **named(2, ("x", "z")))},
    "shared-documents": copied_part,
    "shared-queries": lambda: one() | {"test.txt": clean(seed=2)},
}


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


def test_a_clean_data_set_gets_one_sentence() -> None:
    report = check(one())
    assert report.sentences() == ["train.txt: 60 documents of 12 queries, and nothing to complain about."]
    assert report.exit_code == 0
    assert report.as_dict()["findings"] == []


def test_clean_splits_get_one_sentence() -> None:
    report = check(one() | {"test.txt": clean(seed=2, first_query=300)})
    assert report.sentences() == ["train.txt, test.txt: 120 documents of 24 queries, and nothing to complain about."]


def test_every_rule_has_a_culprit() -> None:
    assert CULPRITS.keys() == rules().keys()


@pytest.mark.parametrize("code", rules())
def test_each_finding_is_found_alone(code: str, tmp_path: Path) -> None:
    parts = CULPRITS[code]()
    for name, data in parts.items() if code == "merged-numbers" else ():
        write_data(data, tmp_path / name)
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(text.replace(":16777216 ", ":16777217 ", 1))  # an odd one, read as its neighbour
    report = check(parts, {name: tmp_path / name for name in parts if (tmp_path / name).exists()})
    assert codes(report) == {code}
    (finding,) = report.findings
    assert finding.level == rules()[code][0]
    assert report.exit_code == (0 if finding.level == "note" else 1)
    assert finding.file.startswith("train.txt")
    assert json.loads(json.dumps(report.as_dict()))["findings"][0]["code"] == code
    (line,) = report.sentences()
    assert line.endswith(f". [{code}]")
    assert "  " not in line


def found(parts: dict[str, RankingData], code: str) -> Any:
    return next(finding for finding in check(parts).findings if finding.code == code)


def test_findings_count_and_name_the_culprits() -> None:
    finding = found(one(y=labels(q0=0, q3=0, q4=0, q7=0)), "queries-without-relevant")
    assert finding.details["count"] == 4
    assert finding.details["queries"] == ["100", "103", "104", "107"]
    assert "4 of 12 queries (100, 103, 104, ...)" in finding.sentence


def test_features_are_called_by_name_or_by_number_from_one() -> None:
    assert found(one(X=column(0.25)), "constant-features").details["features"] == ["3"]
    named = one(X=column(0.25), feature_names=["bm25", "tf", "pagerank", "length"])
    assert found(named, "constant-features").details["features"] == ["pagerank"]


def test_interleaved_rows_are_located_in_the_input() -> None:
    details = found(moved_rows(), "interleaved-queries").details
    assert (details["query"], details["left"], details["again"]) == ("0", 2, 4)  # row 3 is of another query
    assert details["count"] == 2


def test_a_subset_is_not_taken_for_interleaved() -> None:
    assert codes(check({"part": clean().subset([7, 2, 3])})) == set()


def test_half_of_the_queries_without_pairs_is_a_warning() -> None:
    report = check(one(y=labels(q0=0, q1=0, q2=0, q3=0, q4=0, q5=0)))
    assert [finding.level for finding in report.findings] == ["warning"]


def test_queries_without_pairs_are_counted_once() -> None:
    parts = lengths(1, 5, 5, 5)
    y = np.array([0.0] + [0] * 5 + [3] * 5 + [0, 1, 2, 0, 1])
    data = RankingData.from_arrays(parts["train.txt"].X, y, group=[1, 5, 5, 5])
    assert {finding.code: finding.details["count"] for finding in check({"a": data}).findings} == {
        "one-document-queries": 1,
        "queries-without-relevant": 1,
        "one-label-queries": 1,
    }


def test_queries_of_one_document_say_nothing_about_features() -> None:
    assert codes(check(one(qid=np.arange(N_ROWS)))) == {"nothing-to-learn"}


def test_duplicates_are_counted_per_query_only() -> None:
    across = [
        "same",
        *(f"D{row}" for row in range(1, LENGTH)),
        "same",
        *(f"E{row}" for row in range(LENGTH + 1, N_ROWS)),
    ]
    assert codes(check(one(docids=across, X=row_copied(LENGTH, 0)))) == set()


def test_unknown_docids_are_no_duplicates() -> None:
    assert codes(check(one(docids=[""] * N_ROWS))) == set()


def test_repeated_docids_tell_how_many_have_another_label() -> None:
    ids = ["a", "a", "b", "c", "c", *(f"D{row}" for row in range(LENGTH, N_ROWS))]  # labels 0, 1 and 0, 1
    assert found(one(docids=ids), "repeated-docids").details["with_other_label"] == 2


def test_missing_and_signed_zero_count_as_equal_values() -> None:
    X = features()
    X[10], X[13] = [0.0, np.nan, 1.0, -0.0], [-0.0, np.nan, 1.0, 0.0]
    assert "identical-documents" in codes(check(one(X=X)))


def test_missing_values_name_the_emptiest_feature_first() -> None:
    X = features()
    X[:6, 0] = X[:12, 3] = np.nan
    details = found(one(X=X), "missing-values").details
    assert details["shares"] == {"4": 12 / 60, "1": 6 / 60}
    assert details["share"] == pytest.approx(18 / 240)


def test_splits_are_looked_at_together() -> None:
    parts = one(X=column(0.25)) | {
        "test.txt": clean(seed=2, first_query=300, X=np.c_[features(2)[:, :2], column(0.25)[:, 2:]])
    }
    report = check(parts)
    assert [(finding.code, finding.file) for finding in report.findings] == [
        ("constant-features", "train.txt, test.txt")
    ]


def test_a_feature_constant_in_each_file_but_different_is_of_query_level() -> None:
    parts = one(X=column(0.25)) | {"test.txt": clean(seed=2, first_query=300, X=column(0.75))}
    assert "query-level-features" in codes(check(parts))
    assert "constant-features" not in codes(check(parts))


def test_a_reversed_leak_is_a_leak() -> None:
    assert codes(check(one(X=column(-labels())))) == {"leaking-features"}


def test_a_good_feature_is_no_leak() -> None:
    assert codes(check(one(X=column(labels() + 3 * features()[:, 2])))) == set()


def test_the_same_file_twice_is_an_error() -> None:
    report = check({"train.txt": clean(), "test.txt": clean()})
    assert codes(report) == {"shared-documents"}
    assert report.findings[0].details["count"] == N_ROWS


def test_without_docids_shared_documents_need_the_same_query() -> None:
    same, renamed = clean(docids=None), clean(docids=None, first_query=300)
    assert codes(check({"train.txt": same, "test.txt": same})) == {"shared-documents"}
    assert codes(check({"train.txt": same, "test.txt": renamed})) == set()


def test_shared_query_ids_are_compared_as_text() -> None:
    text = clean(seed=2, qid=[str(name) for name in clean().qid])
    assert codes(check(one() | {"test.txt": text})) == {"shared-queries"}


def test_flat_rows_are_no_shared_documents() -> None:
    X, other = features(), features(2)
    X[0] = other[0] = 0
    assert codes(check({"a": clean(X=X, docids=None), "b": clean(X=other, docids=None)})) == {"shared-queries"}


def test_the_worst_findings_come_first() -> None:
    levels = [finding.level for finding in check(one(X=column(0.25), y=np.arange(N_ROWS) % 40 * 5)).findings]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert len(set(levels)) == 3


def test_no_data_set_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one data set"):
        check({})


def test_the_overview_tells_sizes_and_labels() -> None:
    assert check(one()).parts["train.txt"] == {
        "documents": 60,
        "queries": 12,
        "features": 4,
        "list_lengths": {"shortest": 5, "median": 5.0, "longest": 5},
        "labels": {"0": 24, "1": 24, "2": 12},
    }


def test_facts_do_not_depend_on_the_block_size(monkeypatch: pytest.MonkeyPatch) -> None:
    X, offsets = column(np.where(np.arange(N_ROWS) % 7 == 0, np.nan, 1)).astype(np.float32), clean().offsets
    whole = facts.measure(X, offsets)
    monkeypatch.setattr(facts, "_BLOCK", 3 * N_FEATURES)
    pieces = facts.measure(X, offsets)
    for name in whole.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(whole, name), getattr(pieces, name))


def test_equal_texts_have_equal_hashes_and_others_differ() -> None:
    texts = ["", "a", "b", "ab", "ba", "ab", "a\0", "ä", ""]
    hashes = facts.hash_texts(Texts.of(texts)).tolist()
    for i, one_text in enumerate(texts):
        for j, other in enumerate(texts):
            assert (hashes[i] == hashes[j]) == (one_text == other)


def test_repeats_are_pairs_of_neighbours() -> None:
    before, again = facts.repeats(np.array([7, 3, 7, 7, 3], np.uint64))
    assert list(zip(before.tolist(), again.tolist())) == [(0, 2), (2, 3), (1, 4)]


values = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, np.nan]), st.floats(allow_nan=False, allow_infinity=False, width=32)
)


@st.composite
def ranking_data(draw: st.DrawFn) -> RankingData:
    n, f = draw(st.integers(0, 12)), draw(st.integers(0, 4))
    X = draw(arrays.arrays(np.float32, (n, f), elements=values))
    y = draw(arrays.arrays(np.float64, n, elements=st.one_of(st.integers(0, 3), st.floats(0, 1e300))))
    qid = draw(st.lists(st.integers(0, 4), min_size=n, max_size=n))
    docids = draw(st.none() | st.lists(st.text(max_size=3), min_size=n, max_size=n))
    return RankingData.from_arrays(X, y, qid=qid, docids=docids)


@settings(max_examples=100, deadline=None)
@given(st.lists(ranking_data(), min_size=1, max_size=3))
def test_no_data_set_crashes_the_linter(parts: list[RankingData]) -> None:
    report = check({f"part {number}": part for number, part in enumerate(parts)})
    assert report.sentences()
    json.dumps(report.as_dict(), allow_nan=False)


def sparse(data: RankingData) -> RankingData:
    return replace(data, X=csr_array(data.X))


@settings(max_examples=100, deadline=None)
@given(st.lists(ranking_data(), min_size=1, max_size=3))
def test_sparse_data_has_the_findings_of_dense_data(parts: list[RankingData]) -> None:
    dense = {f"part {number}": part for number, part in enumerate(parts)}
    assert check({name: sparse(data) for name, data in dense.items()}) == check(dense)


@pytest.mark.parametrize("code", sorted(rules().keys() - {"different-kinds", "other-categories", "merged-numbers"}))
def test_each_finding_is_found_in_sparse_data_too(code: str) -> None:
    parts = CULPRITS[code]()
    assert check({name: sparse(data) for name, data in parts.items()}) == check(parts)


def test_categories_are_compared_by_name_not_by_number() -> None:
    """The same documents, of which one file numbers the categories the other way round."""
    first, again = clean(**named()), clean(**named(names=("y", "x")))
    turned = again.X.copy()
    turned[:, 2] = 1 - turned[:, 2]
    report = check({"train.txt": first, "test.txt": clean(**named(names=("y", "x")) | {"X": turned})})
    assert [finding.code for finding in report.findings] == ["shared-documents"]
    assert f"{N_ROWS} of {N_ROWS} documents" in report.sentences()[0]
