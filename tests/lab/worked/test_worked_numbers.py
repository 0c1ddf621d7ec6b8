"""The worked examples: ours against the arithmetic, agreement against rounding, and slips where sources differ."""

import math
import tomllib
from decimal import Decimal
from fractions import Fraction
from math import exp, log, log2, sqrt
from pathlib import Path

import numpy as np
import oracles
import pytest

import podium
from podium.lab.worked import measures, worked_numbers
from podium.lab.worked.example import DERIVATIVES, LIGHTGBM, MARGINS, RANKNET, SOURCES, SURVEY, formula, number
from podium.metrics import POLICIES, parse_metric


@pytest.fixture(scope="module")
def examples():
    return worked_numbers()


@pytest.fixture(scope="module")
def ours(examples):
    return {(example.source, example.what): example.ours for example in examples}


def test_podium_computes_what_the_arithmetic_beside_it_gives(examples):
    for example in examples:
        redone = eval(example.by_hand, {"log2": log2, "ln": log, "exp": exp, "sqrt": sqrt})
        assert example.ours == pytest.approx(redone, rel=2e-6, abs=2e-6), example.what
        assert example.is_expected


def test_a_printed_decimal_agrees_if_ours_rounds_to_it(examples):
    decimals = [one for one in examples if one.kind == "number" and "." in one.printed and " " not in one.printed]
    assert len(decimals) > 40
    for example in decimals:
        rounded = Decimal(repr(example.ours)).quantize(Decimal(example.printed))
        assert example.agrees == (rounded == Decimal(example.printed)), example.what


def test_a_printed_fraction_or_integer_agrees_if_ours_is_equal(examples):
    exact = [one for one in examples if one.kind == "number" and "." not in one.printed]
    assert len(exact) > 20
    for example in exact:
        assert example.agrees == math.isclose(eval(example.printed), example.ours, rel_tol=1e-5), example.what


def test_a_slip_is_named_where_a_source_differs_and_nowhere_else(examples):
    for example in examples:
        assert example.agrees == (not example.slip), example.what
    differing = {(one.source, one.what) for one in examples if not one.agrees}
    middle = "lambda of the middle document: labels 2 1 0, scores 1 0 0"
    leaf = "LambdaMART: leaf of the better of two documents with equal scores"
    assert differing == {
        (RANKNET, "MART on 17 points: first tree, left leaf"),
        (RANKNET, "MART on 17 points: second tree, upper leaf"),
        (RANKNET, "MART on 17 points: F2, region 4 of 4"),
        (RANKNET, middle),
        (RANKNET, leaf),
        (SURVEY, "NDCG@3 of true labels 0 1 2, ranked by estimates 2 1 0"),
        (SURVEY, "AUC of labels 1 0 1 0 0"),
        (SURVEY, "d log(1 + exp(-2 y F)) / dF at y = 1, F = 0.5"),
        (SURVEY, "leaf with labels +1 +1 -1, F = 0, alpha = 1: Newton step of the printed loss"),
        (SURVEY, middle),
        (SURVEY, "LambdaRank's step of the better document, eta = 1: labels 1 0, scores 0.5 0, NDCG"),
        (SURVEY, leaf),
        (SURVEY, "RankBoost: 6 of 10 pairs in order, 2 reversed, 2 tied: alpha by the bound, r = 4/10"),
        (MARGINS, "P@4 of the ranking that is printed, d1 d4 d3 d2 d5"),
        (MARGINS, "AP of the ranking that is printed"),
        (MARGINS, "ideal DCG@4, grades 5 4 4 4 2"),
        (MARGINS, "ideal DCG@5, grades 5 4 4 4 2"),
        (MARGINS, "NDCG@5 of grades 5 2 4 4 4"),
        (MARGINS, "RankSVM, one pair with x = 2 and 0, hard margin: w"),
        (MARGINS, "slack of a pair with phi 2 and 1, w = 1/2"),
        (DERIVATIVES, "leaf with labels +1 +1 -1, F = 0, alpha = 1: what a Newton step adds"),
        (DERIVATIVES, leaf),
        (DERIVATIVES, "change of what is minimised, when the better document rises from 0.5 to 1"),
        (LIGHTGBM, "variance gain V of gradients 3 | 1, -1"),
        (LIGHTGBM, "GOSS of 100 rows, a = 0.2, b = 0.1: rows drawn, by the text"),
        (LIGHTGBM, "EFB of features with 3 and 4 bins: bin 2 of the second"),
        (LIGHTGBM, "EFB of features with 3 and 4 bins: bins of the bundle"),
        (LIGHTGBM, "EFB of features with 3 and 4 bins: bins 1 and 2, the later wins"),
    }


def test_the_slips_explain_the_printed_numbers():
    assert round(1.444 - 2.471, 3) == -1.027  # the left leaf
    assert round((3 * (1 - 1.444) + 2 * (2 - 1.444) + 5 * (4 - 3.625)) / 10, 4) == 0.1655  # the upper leaf, 0.166
    assert round(48.0 + 15 * 0.43, 2) == 54.45  # the ideal DCG@4, 54.5
    assert round(54.5 + 15 * 0.39, 2) == 60.35  # the ideal DCG@5, 60.4, with a fifth gain of 15
    assert round(52.7 / 60.4, 2) == 0.87  # and the NDCG@5 that follows
    assert round((1 + 3 - 3) / 6, 9) == round(1 - 5 / 6, 9)  # AUC with positions from the top, and from the bottom:
    assert round((5 + 3 - 3) / 6, 9) == round(5 / 6, 9)
    assert round(10 * (1 - 0.2) / 0.1, 9) == 80  # GOSS: ten drawn rows stand for the eighty that are left


@pytest.mark.parametrize(
    ("source", "what", "value"),
    [
        (RANKNET, "MART on 17 points: first tree, left leaf", 13 / 9 - 42 / 17),
        (RANKNET, "MART on 17 points: second tree, upper leaf", 119 / 720),
        (RANKNET, "regression tree on 17 points: impurity G of the first split", 295 / 2448),
        (RANKNET, "RankNet's lambda, predicted 0.2, target 1", 0.2 - 1),
        (RANKNET, "LambdaMART: leaf of the better of two documents with equal scores", (1 / 2) / (1 / 4)),
        (SURVEY, "derivative of RankNet's cost at o = 0.37, alpha = 1.7, S = 0", 1.7 * (0.5 - 1 / (1 + exp(0.629)))),
        (SURVEY, "Plackett-Luce probability of the order of weights 2, 1, 1", 2 / 4 * 1 / 2),
        (SURVEY, "RankBoost: 6 of 10 pairs in order, 2 reversed, 2 tied: Z", 0.2 + 2 * sqrt(0.12)),
        (MARGINS, "AP of the ranking d1 d4 d3 d5 d2", (1 + 1 + 1 + 4 / 5) / 4),
        (MARGINS, "number of pairs of the labels 4 3 2 1", 4 * 3 / 2),
        (LIGHTGBM, "variance gain V of gradients 3 | 1, -1", 9 / 1 / 3),
        (LIGHTGBM, "mean of the four means", 0.71730085),
    ],
)
def test_values_that_a_reader_can_redo(ours, source, what, value):
    assert ours[source, what] == pytest.approx(value, rel=1e-5)


def test_metrics_of_graded_labels_equal_the_oracle(ours):
    labels = [5, 2, 4, 4, 4]
    for k in range(1, 6):
        assert ours[MARGINS, f"DCG@{k} of grades 5 2 4 4 4"] == pytest.approx(oracles.dcg(labels, k))
        assert ours[MARGINS, f"ideal DCG@{k}, grades 5 4 4 4 2"] == pytest.approx(oracles.dcg(sorted(labels)[::-1], k))
        assert ours[MARGINS, f"NDCG@{k} of grades 5 2 4 4 4"] == pytest.approx(oracles.ndcg(labels, k))


def test_lambdas_equal_the_oracle_that_swaps_every_pair(ours):
    g, h = oracles.lambda_derivatives(np.array([0.5, 0.0]), np.array([1.0, 0.0]), oracles.ndcg)
    about = "document: labels 1 0, scores 0.5 0, NDCG"
    assert ours[DERIVATIVES, f"first derivative of the better {about}"] == pytest.approx(g[0], rel=1e-5)
    assert ours[DERIVATIVES, f"first derivative of the worse {about}"] == pytest.approx(g[1], rel=1e-5)
    assert ours[DERIVATIVES, f"second derivative of either {about}"] == pytest.approx(h[1], rel=1e-5)


def test_the_means_of_published_tables_are_those_of_the_tables_that_the_lab_carries(ours):
    """Read from the text of the preset, by fold."""
    text = (Path(podium.__file__).parent / "lab/experiments/presets/mq2008.toml").read_text("utf-8")
    ranksvm, lightgbm = (table["values"] for table in tomllib.loads(text)["published"][:2])
    assert len(ranksvm) == 22
    for source, name, table in ((MARGINS, "RankSVM", ranksvm), (LIGHTGBM, "LightGBM", lightgbm)):
        for metric, values in table.items():
            mean = sum(Fraction(str(value)) for value in values) / 5
            assert ours[source, f"{name}, {metric}: mean of the five folds"] == pytest.approx(float(mean))


def test_every_source_has_its_numbers_before_its_formulas(examples):
    order = [(SOURCES.index(one.source), one.kind == "formula") for one in examples]
    assert order == sorted(order)
    assert {one.source for one in examples} == set(SOURCES)


def test_names_of_examples_are_distinct_within_a_source(examples, ours):
    assert len(ours) == len(examples)


def test_values_are_computed_at_the_call(monkeypatch):
    """Under another policy other numbers come out, and the arithmetic notices."""
    monkeypatch.setattr(measures, "parse_metric", lambda name: parse_metric(name, POLICIES["letor4"]))
    wrong = {one.what: one.ours for one in measures.measure_examples() if not one.is_expected}
    assert wrong["NDCG@5 of grades 5 2 4 4 4"] == pytest.approx(0.8937, abs=5e-5)
    assert wrong["NDCG@5 of labels 0 1 0 1 1"] == pytest.approx(0.7338, abs=5e-5)
    assert not {name for name in wrong if name.startswith(("P@", "AP", "gain", "ERR", "AUC"))}


@pytest.mark.parametrize(
    ("printed", "value", "agrees"),
    [
        ("0.5", 0.5499, True),
        ("0.5", 0.5501, False),
        ("0.50", 0.5049, True),
        ("0.50", 0.506, False),
        ("-1.027", -1.0261, False),
        ("3/4", 0.75, True),
        ("3/4", 0.7501, False),
        ("31", 31.4, False),
        ("1.444 - 0.236", 1.20849, True),
        ("1.444 - 0.236", 1.2086, False),
    ],
)
def test_a_number_agrees_to_the_digits_printed(printed, value, agrees):
    example = number(SURVEY, "a number", printed, str(value), value)
    assert example.agrees == agrees
    assert example.is_expected


def test_a_formula_agrees_only_if_it_is_equal():
    assert formula(SURVEY, "a formula", "0.5 + 0.25", "3/4", 0.75).agrees
    assert not formula(SURVEY, "a formula", "0.5 + 0.25", "3/4", 0.7501).agrees
    assert not formula(SURVEY, "a formula", "0.5", "0.54", 0.54).agrees


def test_a_value_that_is_not_that_of_the_arithmetic_is_not_expected():
    example = number(SURVEY, "a number", "0.5", "1/2", 0.5001)
    assert example.agrees
    assert not example.is_expected
    assert not number(SURVEY, "a number", "0.5", "1/2", math.nan).is_expected
    assert not number(SURVEY, "a number", "0.5", "1/2", math.nan).agrees
