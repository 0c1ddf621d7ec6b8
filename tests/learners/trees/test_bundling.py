"""Bundling: features that never barrier share a column, and the trees are the same as without."""

import numpy as np
import pytest
from oracles import bundle_slowly
from scipy.sparse import csr_array

from podium.data.sharding.shard import Shard
from podium.learners.trees.training import bundling
from podium.learners.trees.training.binning import bin_rows, find_bin_edges
from podium.learners.trees.training.bundling import LayoutRules, bin_bundled, find_bundles, make_layout
from podium.learners.trees.training.growing import can_be_split
from podium.models.trees.named import LambdaMART

pytestmark = pytest.mark.usefixtures("large_sizes")


def one_hot(rng, n=600, groups=(5, 7), extra=2):
    """Blocks of columns of which exactly one is not 0 in each row, and some dense ones behind."""
    blocks = []
    for size in groups:
        block = np.zeros((n, size), np.float32)
        block[np.arange(n), rng.integers(0, size, n)] = rng.integers(1, 4, n)
        blocks.append(block)
    return np.hstack([*blocks, rng.standard_normal((n, extra)).astype(np.float32)])


def views_of(X, max_conflicts=0.0):
    edges, rules = find_bin_edges(X), LayoutRules(bundle_features=True, max_conflicts=max_conflicts)
    return edges, make_layout(find_bundles(X, edges, rules, 0, 1), edges, rules)


def test_features_that_never_meet_share_a_column(rng):
    X = one_hot(rng)
    _borders, layout = views_of(X)
    columns = layout.column
    assert len(layout.starts) - 1 < X.shape[1]
    non_default = X[:, :12] != 0
    for one in range(12):
        for two in range(one):
            if columns[one] == columns[two]:
                assert not (non_default[:, one] & non_default[:, two]).any()
    assert len(set(columns[12:])) == 2
    assert not set(columns[12:]) & set(columns[:12])
    assert (layout.default_bin[12:] == -1).all()


def test_every_value_can_be_read_back_from_its_bundle(rng):
    X = one_hot(rng)
    edges, layout = views_of(X)
    plain, bundled = bin_rows(X, edges), bin_rows(X, edges, layout=layout)
    assert bundled.columns.shape[0] == len(layout.starts) - 1
    for f in range(X.shape[1]):
        slots = bundled.columns[layout.column[f]].astype(int)
        if layout.default_bin[f] < 0:
            np.testing.assert_array_equal(slots, plain.columns[f])
            continue
        own = slots - layout.offset[f]
        mine = (own >= 0) & (own < edges.n_bins[f] - 1)
        decoded = np.where(mine, own + (own >= layout.default_bin[f]), layout.default_bin[f])
        np.testing.assert_array_equal(decoded, plain.columns[f])
    rows = bundled.rows.view(np.uint8)[:, : bundled.columns.shape[0]]
    np.testing.assert_array_equal(rows.T, bundled.columns)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("growth", ["leaf", "level"])
def test_bundles_without_collisions_change_no_tree(rng, n_jobs, growth):
    X = one_hot(rng, n=1_500)
    y = (X[:, 0] > 0) * 2 + (X[:, 5] > 1) + (X[:, 12] > 0)
    qid = np.arange(len(X)) // 30
    settings = {"n_estimators": 8, "max_leaf_nodes": 9, "min_samples_leaf": 10, "n_jobs": n_jobs, "growth": growth}
    plain = LambdaMART(**settings).fit(X, y, qid=qid)
    bundled = LambdaMART(**settings, bundle_features=True).fit(X, y, qid=qid)
    for name in ("feature", "threshold", "left", "missing_right", "value", "gain", "count"):
        np.testing.assert_array_equal(getattr(plain.forest_, name), getattr(bundled.forest_, name))


@pytest.mark.parametrize("min_samples_leaf", [1, 8, 20])
def test_features_that_leave_too_few_rows_are_known_before(rng, min_samples_leaf):
    """A split is possible if some edge has enough rows on both sides; here it is looked for at every edge."""
    X = np.hstack(
        [
            one_hot(rng, 300, (30, 15, 4)),
            rng.integers(0, 3, (300, 1)).astype(np.float32) * (rng.random((300, 1)) < 0.05),
        ]
    )
    edges, layout = views_of(X)
    binned = bin_rows(X, edges, layout=layout)
    found = can_be_split(binned, min_samples_leaf, Shard.whole(np.array([0, binned.n_rows])))
    plain = bin_rows(X, edges)
    for f in range(X.shape[1]):
        counts = np.bincount(plain.columns[f], minlength=256)
        most = max(min(counts[:at].sum(), counts[at:].sum()) for at in range(1, 256))
        assert found[f] >= (most >= min_samples_leaf)  # none is lost
        if edges.n_bins[f] == 2:
            assert found[f] == (most >= min_samples_leaf)
    assert found.all() == (min_samples_leaf == 1)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_rare_features_change_no_tree(rng, n_jobs):
    """Half of these have fewer rows than a leaf must have, and gains that a histogram would believe."""
    X, qid = one_hot(rng, 2_000, (100, 100)), np.arange(2_000) // 20
    y = np.minimum((X[:, :100] * rng.random(100)).sum(axis=1) * 2, 4).astype(int)
    settings = {"n_estimators": 4, "max_leaf_nodes": 12, "min_samples_leaf": 20, "n_jobs": n_jobs}
    plain = LambdaMART(**settings).fit(X, y, qid)
    bundled = LambdaMART(bundle_features=True, **settings).fit(X, y, qid)
    assert len(bundled.bundles_) > 0
    for name in ("feature", "threshold", "left", "value"):
        np.testing.assert_array_equal(getattr(bundled.forest_, name), getattr(plain.forest_, name))


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_collisions_that_the_sample_has_not_seen_are_taken_apart(rng, monkeypatch, form):
    """The last 100 of 1,000 rows have two non-default columns together, and bundles are found on the first 50."""
    X, qid = one_hot(rng, 1_000, (6, 6), extra=1), np.arange(1_000) // 20
    X[900:, 0] = X[900:, 1] = 1
    y = (X[:, 0] > 0) + (X[:, 1] > 1) + (X[:, 12] > 0)
    plain = LambdaMART(n_estimators=5, min_samples_leaf=5, bundle_features=False).fit(X, y, qid)
    monkeypatch.setattr(bundling, "draw_sample", lambda X, seed, shard: X[:50])
    edges, rules = find_bin_edges(X), LayoutRules(bundle_features=True)
    assert any({0, 1} <= set(members.tolist()) for members, _ in find_bundles(form(X), edges, rules, 0, 1))
    layout = bin_bundled(form(X), edges, rules, 0, 1).layout
    assert (layout.default_bin[:12] >= 0).sum() >= 6
    assert layout.column[0] != layout.column[1]
    bundled = LambdaMART(n_estimators=5, min_samples_leaf=5, bundle_features=True).fit(form(X), y, qid)
    for name in ("feature", "threshold", "left", "value"):
        np.testing.assert_array_equal(getattr(bundled.forest_, name), getattr(plain.forest_, name))


def test_a_dense_matrix_that_is_nearly_sparse_is_bundled_unasked(rng):
    qid = np.arange(600) // 20
    many, few = one_hot(rng, 600, (40,)), one_hot(rng, 600, (12,))
    assert LambdaMART(n_estimators=1).fit(many, many[:, 0], qid).bundles_
    assert not LambdaMART(n_estimators=1, bundle_features=False).fit(many, many[:, 0], qid).bundles_
    assert not LambdaMART(n_estimators=1).fit(few, few[:, 0], qid).bundles_


def test_collisions_are_bounded_and_the_later_feature_wins():
    X = np.zeros((100, 2), np.float32)
    X[:30, 0], X[29:50, 1] = 1, 1  # they barrier in row 29
    assert views_of(X)[1] is None
    edges, layout = views_of(X, max_conflicts=0.01)
    assert layout.column.tolist() == [0, 0]
    bundled = bin_rows(X, edges, layout=layout).columns[0]
    assert np.bincount(bundled).tolist() == [50, 29, 21]


def test_missing_values_and_constants_are_not_bundled(rng):
    X = one_hot(rng)
    X[3, 0] = np.nan
    X[:, 1] = 0
    _, layout = views_of(X)
    assert layout.default_bin[0] == -1
    assert layout.default_bin[1] == -1


def test_a_bundle_has_no_more_slots_than_a_byte_can_name():
    n = 3_000
    X = np.zeros((n, 600), np.float32)
    X[np.arange(n), np.arange(n) % 600] = 1
    edges, layout = views_of(X)
    binned = bin_rows(X, edges, layout=layout)
    assert binned.n_slots.max() == 255
    assert len(binned.columns) == 3  # 254 + 254 + 92 features


@pytest.mark.parametrize("form", [np.asarray, csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("n", "most_away", "max_conflicts"), [(60, 8, 0.0), (60, 28, 0.0), (60, 28, 0.04), (500, 9, 0.01)]
)
def test_bundles_are_those_of_a_plain_search(rng, form, n, most_away, max_conflicts):
    """With up to 28 of 60 rows non_default most features collide, and there are more bundles than a feature may try."""
    X = np.zeros((n, 600), np.float32)
    for f in range(600):
        rows = rng.permutation(n)[: rng.integers(1, most_away + 1)]
        X[rows, f] = rng.integers(1, 5, len(rows))
    edges, layout = views_of(form(X), max_conflicts)
    non_default = [set(np.flatnonzero(X[:, f])) for f in range(600)]
    expected = bundle_slowly(non_default, edges.n_bins - 1, int(max_conflicts * n))
    if form is csr_array:
        by_column = bundle_slowly(non_default, edges.n_bins - 1, int(max_conflicts * n), by_column=True)
        expected = min(expected, by_column, key=len)
    shared = [set(np.flatnonzero(layout.column == column)) for column in range(len(layout.starts) - 1)]
    assert [members for members in shared if len(members) > 1] == [group for group in expected if len(group) > 1]
    assert (len(expected) > 200) == (most_away == 28)


def test_one_hot_columns_that_stand_side_by_side_fill_their_bundles(rng):
    """400 columns a question: by how often they are non_default, columns of both questions would mix."""
    n = 3_000
    X = np.zeros((n, 800), np.float32)
    for question in range(2):
        X[np.arange(n), 400 * question + rng.integers(0, 400, n)] = 1
    columns = [len(views_of(form(X))[1].starts) - 1 for form in (np.asarray, csr_array)]
    assert columns[1] == 4  # 254 + 146, twice
    assert columns[0] > 4


@pytest.mark.parametrize("wrong", ["yes", "None", 1, 0.5])
def test_a_wrong_switch_is_refused(wrong):
    with pytest.raises(ValueError, match="bundle_features must be True, False or None; got"):
        LambdaMART(bundle_features=wrong).fit(np.zeros((4, 1)), [0, 1, 0, 1], group=[4])


@pytest.mark.parametrize("options", [{}, {"row_fraction": 0.7}, {"goss": (0.3, 0.3)}, {"growth": "oblivious"}])
@pytest.mark.parametrize("max_conflicts", [0.0, 0.05, 0.5])
def test_more_trees_on_colliding_bundles_equal_one_long_fit(rng, tmp_path, max_conflicts, options):
    """Rows whose features collide lie in other bins than their values say; scores must not follow those."""
    X = np.where(rng.random((600, 8)) < 0.2, rng.integers(1, 5, (600, 8)), 0).astype(np.float32)
    y, qid = np.clip(X[:, 0] + X[:, 3] - X[:, 5], 0, 4), np.arange(600) // 20
    settings = {"bundle_features": True, "max_conflicts": max_conflicts, "min_samples_leaf": 3, "max_leaf_nodes": 8}
    long = LambdaMART(n_estimators=8, **settings, **options).fit(X, y, qid=qid)
    parts = LambdaMART(n_estimators=3, **settings, **options).fit(X, y, qid=qid).fit_more(X, y, qid, n_estimators=5)
    np.testing.assert_array_equal(parts.forest_.value, long.forest_.value)
    np.testing.assert_array_equal(parts.forest_.threshold, long.forest_.threshold)
    assert (len(long.bundles_) > 0) == (max_conflicts > 0)
