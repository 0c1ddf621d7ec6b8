"""The tests against hand counts and scipy, one answer for any threads."""

import math

import numpy as np
import pytest
from scipy import stats

from podium.evaluation.significance import (
    _all_signed_sums,
    _random_sums,
    benjamini_hochberg,
    bonferroni,
    cohens_d,
    correct,
    holm,
    paired_differences,
    random_generator,
    randomisation_test,
    t_test,
    wilcoxon_test,
)


def skewed(rng: np.random.Generator, n: int) -> np.ndarray:
    """Like differences of a metric: many zeros, a few large gains. The mean is 0.4 * 0.2."""
    return np.where(rng.random(n) < 0.6, 0.0, rng.exponential(0.2, n))


# ------------------------------------------------------------------------------------------------ randomisation


@pytest.mark.parametrize(
    ("differences", "p"),
    [
        ([1, 1, 1], 2 / 8),  # +++ and ---
        ([1, 2], 2 / 4),
        ([3, -1], 4 / 4),  # 2, 4, -4, -2: all reach 2
        ([1, 1, 1, -1], 10 / 16),  # sums of 2 or more: 4 + 1 patterns, and as many below
        ([0.1, 0.2, -0.3], 8 / 8),  # the sum is 0 but for rounding
        ([0, 0, 1, 1], 2 / 4),  # zeros change nothing
        ([0, 0, 0], 1),
        ([], 1),
    ],
)
def test_few_queries_are_enumerated(differences: list[float], p: float) -> None:
    assert randomisation_test(differences) == p


def test_weights_multiply_the_differences() -> None:
    # The sums are 4, 2, -2, -4: all reach 3 * 1 + 1 * -1 = 2, and two reach 3 * 1 + 1 * 1 = 4.
    assert randomisation_test([1, -1], [3, 1]) == 4 / 4
    assert randomisation_test([1, 1], [3, 1]) == 2 / 4
    assert randomisation_test([1, 1, 5], [3, 1, 0]) == 2 / 4  # a query of weight 0 does not count


def test_enumeration_in_two_halves_equals_all_at_once(rng: np.random.Generator) -> None:
    differences = rng.normal(0.1, 1, 18)
    sums = _all_signed_sums(differences)
    expected = np.mean(np.abs(sums) >= abs(differences.sum()) - 1e-9)
    assert randomisation_test(differences, permutations=2**18) == expected


def test_enumeration_agrees_with_scipy(rng: np.random.Generator) -> None:
    differences = np.round(rng.normal(0.2, 0.5, 9), 1)
    expected = stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=np.inf, vectorized=True
    )
    assert randomisation_test(differences) == pytest.approx(expected.pvalue, abs=1e-15)


@pytest.mark.parametrize("n", [17, 64, 65, 200])
def test_random_signs_agree_with_the_normal_approximation(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.15, 1, n)
    statistic = differences.sum() / math.sqrt((differences**2).sum())  # sign flips have variance d^2
    assert randomisation_test(differences) == pytest.approx(2 * stats.norm.sf(abs(statistic)), abs=0.015)


def test_random_signs_agree_with_enumeration(rng: np.random.Generator) -> None:
    differences = rng.normal(0.3, 1, 17)
    exact = randomisation_test(differences, permutations=2**17)
    drawn = randomisation_test(differences, permutations=2**17 - 1)
    assert drawn != exact
    assert drawn == pytest.approx(exact, abs=4 * math.sqrt(exact / 2**17))


def test_p_is_never_zero() -> None:
    assert randomisation_test(np.ones(300), permutations=10_000) == 1 / (10_000 + 1)


def test_p_is_one_when_the_mean_is_zero_but_for_rounding() -> None:
    assert randomisation_test([0.1, 0.2, -0.3] * 30) == 1


def test_signs_are_fair_and_independent() -> None:
    # Sums of powers of two tell all their signs: (sum + total) / 2 has the bits of the positive ones.
    terms = np.zeros(128)
    terms[14:64] = 2.0 ** np.arange(50)
    sums = _random_sums(terms, 20_000, random_generator(0, 1, 0))
    positive = ((sums + terms.sum()) / 2).astype(np.int64)
    signs = 2.0 * ((positive[:, None] >> np.arange(50)) & 1) - 1
    assert (signs @ terms[14:64] == sums).all()
    assert np.abs(signs.mean(axis=0)).max() < 4 / math.sqrt(20_000)
    assert np.abs(np.corrcoef(signs.T) - np.eye(50)).max() < 5 / math.sqrt(20_000)


@pytest.mark.parametrize(("n_jobs", "expected"), [(None, 5), (-1, 5), (1, None), (2, 2), (40, 25)])
def test_threads_are_all_cores_unless_reported(
    monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator, n_jobs: int | None, expected: int | None
) -> None:
    """As everywhere else; not more of them than blocks of work, and none where one is enough."""
    from concurrent.futures import ThreadPoolExecutor

    from podium._runtime import threads as _threads

    started: list[int | None] = []

    def pool(threads: int) -> ThreadPoolExecutor:
        started.append(threads)
        return ThreadPoolExecutor(threads)

    monkeypatch.setattr(_threads, "_pool", pool)
    monkeypatch.setattr(_threads, "usable_cores", lambda: 5)
    randomisation_test(rng.normal(0.1, 1, 100), n_jobs=n_jobs)
    assert (started or [None]) == [expected]


@pytest.mark.parametrize("n_jobs", [1, 2, 3, -1])
def test_threads_do_not_change_the_answer(rng: np.random.Generator, n_jobs: int) -> None:
    differences, weights = skewed(rng, 130) - 0.07, rng.random(130)
    assert randomisation_test(differences, weights, n_jobs=n_jobs) == randomisation_test(differences, weights)


def test_the_seed_decides(rng: np.random.Generator) -> None:
    differences = rng.normal(0.1, 1, 100)
    assert randomisation_test(differences, seed=7) == randomisation_test(differences, seed=7)
    assert randomisation_test(differences, seed=7) != randomisation_test(differences, seed=8)


def test_p_is_uniform_when_there_is_no_difference() -> None:
    rng = np.random.default_rng(5)
    p = [randomisation_test(rng.normal(0, 1, 30), permutations=1_000, seed=i) for i in range(400)]
    assert stats.kstest(p, "uniform").pvalue > 0.01


# ------------------------------------------------------------------------------------------------ classical tests


@pytest.mark.parametrize("n", [2, 9, 60])
def test_t_test_agrees_with_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.random(n), rng.random(n)
    assert t_test(b - a) == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-12)


@pytest.mark.parametrize("n", [9, 40, 60])
def test_wilcoxon_agrees_with_scipy(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.random(n), rng.random(n)
    assert wilcoxon_test(b - a) == pytest.approx(stats.wilcoxon(b, a).pvalue, rel=1e-12)


def test_wilcoxon_leaves_zeros_out_and_ties_ranks_that_differ_by_rounding() -> None:
    assert wilcoxon_test([0, 0, 1, 2, 3, 4, 5]) == 2 / 2**5  # all five signs alike, two ways of 32
    assert wilcoxon_test([0.3, 0.1 + 0.2, 0.3]) == wilcoxon_test([1.0, 1.0, 1.0])


@pytest.mark.parametrize("test", [randomisation_test, t_test, wilcoxon_test])
def test_nothing_differs(test) -> None:
    assert test(np.zeros(5)) == 1


def test_the_same_change_everywhere_has_no_spread() -> None:
    assert t_test([0.1, 0.1, 0.1]) == 0
    assert cohens_d([0.1, 0.1, 0.1]) == math.inf
    assert cohens_d([-0.1, -0.1, -0.1]) == -math.inf
    assert cohens_d([0.0, 0.0]) == 0


def test_cohens_d_by_hand() -> None:
    assert cohens_d([1, 2, 3]) == 2 / 1
    assert cohens_d([0, 1]) == pytest.approx(0.5 / math.sqrt(0.5))
    # mean (3*0 + 1*1)/4; variance 2/1 * (3*(1/4)^2 + (3/4)^2)/4
    assert cohens_d([0, 1], [3, 1]) == pytest.approx(0.25 / math.sqrt(2 * (3 / 16 + 9 / 16) / 4))


def test_one_query_has_no_spread_to_know() -> None:
    assert math.isnan(t_test([1.0]))
    assert math.isnan(wilcoxon_test([1.0]))
    assert math.isnan(cohens_d([1.0]))


# ------------------------------------------------------------------------------------------------ corrections


def test_corrections_by_hand() -> None:
    p = np.array([0.03, 0.01, 0.04])
    assert bonferroni(p) == pytest.approx([3 * 0.03, 3 * 0.01, 3 * 0.04])
    assert holm(p) == pytest.approx([2 * 0.03, 3 * 0.01, 2 * 0.03])  # the last step may not fall: 1 * 0.04 -> 0.06
    assert benjamini_hochberg(p) == pytest.approx([0.04, 0.03, 0.04])  # 3/2 * 0.03 = 0.045 is cut to 0.04


def test_corrections_keep_to_their_order(rng: np.random.Generator) -> None:
    for m in (1, 2, 7, 30):
        p = rng.random(m) ** 3
        assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p))
        assert (p <= benjamini_hochberg(p)).all()
        assert (benjamini_hochberg(p) <= holm(p) + 1e-15).all()
        assert (holm(p) <= bonferroni(p)).all()
        assert bonferroni(p).max() <= 1


def test_holm_rejects_step_by_step(rng: np.random.Generator) -> None:
    p, alpha = rng.random(12) ** 4, 0.05
    rejected = np.zeros(12, bool)
    for step, i in enumerate(np.argsort(p)):
        if p[i] > alpha / (12 - step):
            break
        rejected[i] = True
    assert (holm(p) <= alpha).tolist() == rejected.tolist()


def test_undefined_p_values_do_not_count() -> None:
    assert correct([0.01, math.nan, 0.02], "bonferroni") == pytest.approx([0.02, math.nan, 0.04], nan_ok=True)
    assert correct([0.01, 0.02], "none").tolist() == [0.01, 0.02]


# ------------------------------------------------------------------------------------------------ input


def test_values_that_agree_but_for_rounding_are_equal() -> None:
    assert paired_differences(np.array([0.3, 1e6, 0.5]), np.array([0.1 + 0.2, 1e6 + 1e-7, 0.7])).tolist() == [
        0.0,
        0.0,
        0.7 - 0.5,
    ]


def test_bad_input_is_reported() -> None:
    with pytest.raises(ValueError, match=r"differences\[1\] is nan; leave"):
        randomisation_test([1.0, math.nan])
    with pytest.raises(ValueError, match="one dimension"):
        randomisation_test([[1.0]])
    with pytest.raises(ValueError, match="weights has 1 entries, the data has 2 queries"):
        randomisation_test([1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="n_jobs must be"):
        randomisation_test(np.ones(40), n_jobs=0)
