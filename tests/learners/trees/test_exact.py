"""Whether the order in which leaves are added up matters: by the rule, and by adding in other orders."""

from dataclasses import replace

import numpy as np
import pytest
from exchange.forests import on_grid, random_forest

from podium.learners.trees.scoring.exact import has_exact_sums


def leaves(values, start=0.0, dtype=np.float64):
    """A forest of trees of one leaf each."""
    forest, n = random_forest(1, n_trees=len(values), depth=0), len(values)
    assert len(forest.left) == n
    return replace(forest, value=np.array(values, dtype), start=start)


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_forests_on_the_grid_are_exact_in_any_order_and_others_are_not(seed, single):
    forest = random_forest(seed, n_trees=40, single=single)
    assert not has_exact_sums(forest)
    snapped, random = on_grid(forest, 24 if single else 53), np.random.default_rng(seed)
    assert has_exact_sums(snapped)
    leaf = snapped.left == np.arange(len(snapped.left))
    dtype, totals = snapped.value.dtype.type, set()
    terms = [random.choice(snapped.value[a:b][leaf[a:b]]) for a, b in zip(snapped.roots, snapped.roots[1:])]
    for _ in range(20):
        total = dtype(0)
        for term in random.permutation([*terms, dtype(snapped.start)]):
            total = dtype(total + dtype(term))
        totals.add(float(total))
    assert len(totals) == 1


def test_the_53rd_bit_is_the_last_one():
    assert has_exact_sums(leaves([1.0, 2.0**-52]))  # S = 1 + 2^-52, q = 2^(1 - 53)
    assert not has_exact_sums(leaves([1.0, 2.0**-53]))
    assert has_exact_sums(leaves([0.5, 0.5, 0.0]))
    assert not has_exact_sums(leaves([1 - 2.0**-53, 2.0**-52]))  # S = 1 + 2^-53, which rounds to 1
    assert not has_exact_sums(leaves([1.0], start=2.0**-60))


def test_float32_has_24_bits():
    assert has_exact_sums(leaves([1.0, 2.0**-23], dtype=np.float32))
    assert not has_exact_sums(leaves([1.0, 2.0**-24], dtype=np.float32))
    assert has_exact_sums(leaves([1.0, 2.0**-24]))


def test_extremes_are_judged_as_numbers_between():
    assert has_exact_sums(leaves([0.0, 0.0]))
    assert has_exact_sums(leaves([5e-324, -5e-324]))
    assert not has_exact_sums(leaves([1e308, 5e-324]))
    assert has_exact_sums(random_forest(1, start=0.0).first(0))
    assert has_exact_sums(random_forest(1, start=0.1).first(0))
