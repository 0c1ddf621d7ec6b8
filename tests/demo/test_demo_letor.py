"""The demonstration data: the same bytes everywhere, and hard enough to be worth learning."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from podium.data.ranking import RankingData
from podium.demo.letor import FEATURE_NAMES, demo_splits, make_letor, write_demo
from podium.formats.letor import read_letor
from podium.lint.checks import check

DATA = make_letor()


def ndcg10(scores: np.ndarray, data: RankingData = DATA) -> float:
    """Mean NDCG@10 with gain 2^label - 1, over the queries that have a relevant document."""
    values = []
    for start, end in zip(data.offsets[:-1], data.offsets[1:]):
        gains = 2 ** data.y[start:end] - 1
        if gains.any():
            discounts = 1 / np.log2(np.arange(2, min(10, end - start) + 2))
            ranked = gains[np.argsort(-scores[start:end], kind="stable")][:10]
            values.append(ranked @ discounts / (np.sort(gains)[::-1][:10] @ discounts))
    return float(np.mean(values))


def feature(name: str, data: RankingData = DATA) -> np.ndarray:
    return np.nan_to_num(data.X[:, FEATURE_NAMES.index(name)].astype(np.float64))


def correlation(values: np.ndarray, rows: np.ndarray) -> float:
    return float(np.corrcoef(values[rows], DATA.y[rows])[0, 1])


def test_two_calls_give_the_same_bytes() -> None:
    again = make_letor()
    assert again.X.tobytes() == DATA.X.tobytes()
    assert again.y.tobytes() == DATA.y.tobytes()
    assert again.docid_texts == DATA.docid_texts


def test_the_bytes_stay_what_they_are() -> None:
    digest = hashlib.sha256()
    for array, kind in ((DATA.X, "<f4"), (DATA.y, "<f8"), (DATA.offsets, "<i8")):
        digest.update(array.astype(kind).tobytes())
    assert digest.hexdigest() == "5f3c94cb30bf8d0ae1ba2226767779bbb218a4ab028778eed508228ee51712ff"


def test_another_seed_gives_other_data() -> None:
    assert not np.array_equal(make_letor(seed=1).offsets, DATA.offsets)


def test_the_shape_is_that_of_a_small_web_collection() -> None:
    assert (DATA.n_queries, DATA.n_features) == (300, 24)
    assert 30 * 300 < DATA.n_rows < 50 * 300
    assert 5 <= DATA.group.min() < 8
    assert 110 < DATA.group.max() <= 120
    assert DATA.feature_names == FEATURE_NAMES
    assert DATA.docids is not None
    assert DATA.docids[0].startswith("D-")


def test_labels_are_skewed_grades() -> None:
    shares = np.bincount(DATA.y.astype(int)) / DATA.n_rows
    assert len(shares) == 5
    assert list(shares) == sorted(shares, reverse=True)
    assert 0.6 < shares[0] < 0.75
    assert 0 < shares[4] < 0.02


def test_some_queries_have_no_relevant_document() -> None:
    empty = np.maximum.reduceat(DATA.y, DATA.offsets[:-1]) == 0
    assert 5 <= empty.sum() <= 40


def test_values_are_missing_in_the_click_features_only() -> None:
    missing = np.isnan(DATA.X).mean(axis=0)
    assert [name for name, share in zip(FEATURE_NAMES, missing) if share] == ["click_rate", "dwell_seconds"]
    assert 0.3 < missing.max() < 0.7


def test_a_document_keeps_its_links_in_every_query() -> None:
    seen: dict[str, float] = {}
    for docid, pagerank in zip(DATA.docid_texts or (), feature("pagerank")):
        assert seen.setdefault(docid, pagerank) == pagerank
    assert len(seen) < DATA.n_rows


def test_the_best_single_feature_beats_a_random_order(rng: np.random.Generator) -> None:
    random = np.mean([ndcg10(rng.random(DATA.n_rows)) for _ in range(5)])
    assert ndcg10(feature("bm25_body")) > random + 0.2
    assert abs(ndcg10(feature("shard_position")) - random) < 0.05


def test_no_single_feature_is_good_enough() -> None:
    assert max(ndcg10(sign * feature(name)) for name in FEATURE_NAMES for sign in (1, -1)) < 0.7


def test_what_counts_depends_on_the_kind_of_query() -> None:
    short, long = feature("query_terms") <= 1, feature("query_terms") >= 5
    title, body = feature("coverage_title"), feature("coverage_body")
    assert correlation(title, short) > correlation(title, long) + 0.1
    assert correlation(body, long) > correlation(body, short) + 0.1


def test_links_help_only_where_the_title_matches() -> None:
    """An interaction: in one-word queries, pagerank matters among pages with the word in the title, and only there."""
    one_word, in_title = feature("query_terms") == 1, feature("coverage_title") == 1
    assert correlation(feature("pagerank"), one_word & in_title) > 0.15
    assert abs(correlation(feature("pagerank"), one_word & ~in_title)) < 0.05


@pytest.mark.slow
def test_trees_beat_sums_and_sums_beat_single_features() -> None:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    train, _, test = demo_splits()
    linear = LinearRegression().fit(np.nan_to_num(train.X), train.y).predict(np.nan_to_num(test.X))
    trees = HistGradientBoostingRegressor(max_iter=60, random_state=0).fit(train.X, train.y).predict(test.X)
    assert ndcg10(linear, test) > ndcg10(feature("bm25_body", test), test) + 0.03
    assert ndcg10(trees, test) > ndcg10(linear, test) + 0.05


def test_splits_share_no_query_and_make_up_the_whole() -> None:
    train, valid, test = demo_splits()
    assert (train.n_queries, valid.n_queries, test.n_queries) == (180, 60, 60)
    assert np.array_equal(RankingData.concat([train, valid, test]).X, DATA.X, equal_nan=True)


def test_the_linter_has_notes_but_no_complaint() -> None:
    report = check(demo_splits()._asdict())
    assert report.exit_code == 0
    assert {finding.code for finding in report.findings} == {
        "queries-without-relevant",
        "query-level-features",
        "missing-values",
        "feature-scales",
    }


def test_numbers_of_queries_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        make_letor(n_queries=0)
    with pytest.raises(ValueError, match="at least 5"):
        demo_splits(n_queries=4)
    assert [part.n_queries for part in demo_splits(n_queries=5)] == [3, 1, 1]


def test_written_files_read_back_as_the_same_data(tmp_path: Path) -> None:
    paths = write_demo(tmp_path / "demo", n_queries=10)
    assert [path.name for path in paths] == ["train.txt", "valid.txt", "test.txt"]
    train = demo_splits(n_queries=10).train
    read = read_letor(paths[0], missing="nan")
    assert np.array_equal(read.X, train.X, equal_nan=True)
    assert np.array_equal(read.y, train.y)
    assert read.docid_texts == train.docid_texts
