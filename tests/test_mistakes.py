"""Mistakes that people make in their first hour, each answered in our words; and what would be silently wrong, said."""

import datetime
import re
import warnings

import numpy as np
import pytest

import podium

X = np.random.default_rng(3).random((40, 3))
Y, QID = np.arange(40) % 3, np.repeat(np.arange(4), 10)
QRELS, RUN = podium.Qrels.from_dict({"a": {"d1": 1}}), podium.Run.from_dict({"a": {"d1": 2.0}})


def fit(**options):
    return podium.LambdaMART(n_estimators=2).fit(X, Y, QID, **options)


def frame(**columns):
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({"a": X[:, 0], **columns})


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        (lambda path: podium.write_qrels({"a": {"d1": 1}}, path), "Use podium.Qrels.from_dict"),
        (lambda path: podium.write_qrels(RUN, path), "the judgements must be a podium.Qrels; got Run"),
        (lambda path: podium.write_run({"a": {"d1": 1}}, path), "Use podium.Run.from_dict"),
        (lambda _: podium.evaluate_run("qrels.txt", "run.txt"), "Read the file with podium.read_qrels"),
        (lambda _: podium.evaluate_run(QRELS, "run.txt"), "Read the file with podium.read_run"),
        (lambda _: podium.evaluate_run({"a": {"d1": 1}}, RUN), "Use podium.Qrels.from_dict"),
        (lambda _: podium.evaluate_run(RUN, QRELS), "takes the judgements first: evaluate_run(qrels, run)"),
        (
            lambda _: podium.Run.from_dict({"a": ["d1"]}),
            "expected podium.Run or {query: {document: number}}; got list for query 'a'",
        ),
        (lambda _: podium.Run.from_dict(["d1"]), "expected podium.Run or {query: {document: number}}; got list."),
        (lambda _: podium.Run.from_dict({"a": {"d1": "x"}}), "expected one number per document: could not convert"),
        (lambda _: podium.explain(1), "podium.explain is a module; call one of its functions: podium.explain."),
        (lambda path: podium.LambdaMART().save(path), "It has learned nothing that could be saved; call fit first."),
        (lambda _: fit(eval_set=(X, Y, QID), early_stopping_rounds="5"), "early_stopping_rounds must be an integer"),
        (lambda _: fit(verbose="5"), "verbose must be an integer"),
        (lambda _: fit(callbacks=print), "callbacks must be a list of functions of one Progress"),
        (lambda _: fit(callbacks=["x"]), "callbacks must be functions of one Progress; got str 'x'"),
        (lambda _: podium.LambdaMART().fit(X, Y, "query"), "qid must have one id per row; got the text 'query'"),
        (lambda _: fit().predict(X, "query"), "give the column, as in qid=table['query']"),
        (lambda _: podium.RankingData.from_arrays(X, Y, "query"), "and leave it out of X"),
        (lambda _: podium.evaluate(podium.RankingData.from_arrays(X, Y, QID), Y), "evaluate takes the scores first"),
        (lambda _: podium.evaluate([2, 0, 1], [0.5, -1.0, 0.1], qid=[1, 1, 1]), "scores first, then labels"),
    ],
)
def test_a_mistake_is_a_type_or_value_error_in_our_words(mistake, message, tmp_path):
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        mistake(tmp_path / "file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", [podium.LambdaMART(n_estimators=2), podium.Linear(max_iter=2)])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.datetime64("2024-01-02"), "'b' holds dates or times; expected numbers or names. Make a number of it"),
        (datetime.date(2024, 1, 2), "'b' holds dates or times"),
        (np.timedelta64(3, "s"), "'b' holds dates or times"),
        ([1, 2], "'b' holds lists; expected numbers or names. Give each entry a column"),
        ({"x": 1}, "'b' holds records"),
    ],
)
def test_columns_that_are_neither_numbers_nor_names_are_refused_by_name(model, value, message):
    table = frame(b=[value] * 40)
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(table, Y, QID)
    polars = pytest.importorskip("polars")
    with pytest.raises(ValueError, match=re.escape(message)):
        model.fit(polars.from_pandas(table), Y, QID)


def warned(work):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        work()
    return [str(one.message) for one in caught]


def test_labels_in_the_place_of_scores_are_warned_of():
    labels, scores, qid = [2, 0, 1, 0], [0.9, 0.3, 0.5, 0.1], [1, 1, 1, 1]
    assert len(warned(lambda: podium.evaluate(labels, scores, qid=qid))) == 1
    assert warned(lambda: podium.evaluate(scores, labels, qid=qid)) == []
    assert warned(lambda: podium.evaluate(labels, labels, qid=qid)) == []  # both are integers
    assert warned(lambda: podium.evaluate([0, 0, 0, 0], scores, qid=qid)) == []  # a constant, the usual baseline
    assert warned(lambda: podium.evaluate([0.5, 1, 2, 3], scores, qid=qid)) == []  # fractional labels are labels


def test_ranks_that_contradict_scores_are_counted_once(tmp_path):
    lines = ["a Q0 d1 1 1.0 x", "a Q0 d2 2 5.0 x", "a Q0 d3 3 6.0 x", "b Q0 d1 1 2.0 x", "b Q0 d2 2 2.0 x"]
    (tmp_path / "run").write_text("\n".join(lines))
    (message,) = warned(lambda: podium.read_run(tmp_path / "run"))
    assert "scores contradict ranks (1 query, 2 documents with a higher score than the one ranked above)" in message
    for agreeing in (
        ["a Q0 d2 2 1.0 x", "a Q0 d1 1 5.0 x"],  # the order of the lines is nothing
        ["a Q0 d1 0 1.0 x", "a Q0 d2 0 5.0 x"],  # equal ranks say nothing
        ["a Q0 d1 - 1.0 x", "a Q0 d2 - 5.0 x"],
        ["a Q0 d1 1 5.0 x", "b Q0 d2 2 9.0 x"],  # of two queries
    ):
        (tmp_path / "run").write_text("\n".join(agreeing))
        assert warned(lambda: podium.read_run(tmp_path / "run")) == []


def test_rows_of_many_queries_that_are_ranked_without_query_ids_are_warned_of():
    model = fit()
    (message,) = warned(lambda: model.rank(X))
    assert "all 40 rows are ranked as one query" in message
    assert warned(lambda: model.rank(X, QID)) == []
    assert warned(lambda: model.rank(X, [0] * 40)) == []
    assert warned(lambda: model.rank(X[:1])) == []


def test_unknown_categories_are_counted_per_column():
    pandas = pytest.importorskip("pandas")
    names = np.array(["red", "green", "blue", "grey"])[np.arange(40) % 4]
    table = frame(colour=pandas.Categorical(names))
    model = podium.LambdaMART(n_estimators=2, min_samples_leaf=1).fit(table, Y, QID)

    def coloured(values):
        return frame(colour=pandas.Categorical(values))

    assert warned(lambda: model.predict(table)) == []
    (message,) = warned(lambda: model.predict(coloured(["pink"] * 3 + ["red"] * 37)))
    assert message == "column 'colour': training did not know 3 of 40 values; they count as missing."
    (message,) = warned(lambda: model.predict(coloured(["pink"] * 40)))
    assert "training knew none of these values" in message
    assert warned(lambda: model.predict(coloured([None] * 20 + ["red"] * 20))) == []  # missing is not unknown
    many = pandas.DataFrame({"a": np.zeros(1000), "colour": pandas.Categorical(["pink"] * 9 + ["red"] * 991)})
    assert warned(lambda: model.predict(many)) == []  # fewer than 1 % are nothing unusual


@pytest.mark.parametrize("name", ["infndcg", "nerr", "udcg@10", "sdcg@10", "f1"])
def test_another_metric_gets_no_hint_that_measures_something_else(name):
    with pytest.raises(ValueError, match="Known: ndcg, dcg"):
        podium.evaluate([0.5, 0.1], [1, 0], qid=[1, 1], metrics=[name])


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("ndgc@10", "Did you mean 'ndcg@10'?"),
        ("mpa", "Did you mean 'map'?"),
        ("meandcg", "Did you mean 'meanndcg'?"),
        ("recal@5", "Did you mean 'recall@5'?"),
        ("bperf", "Did you mean 'bpref'?"),
        ("sucess@3", "Did you mean 'success@3'?"),
    ],
)
def test_a_slip_of_the_fingers_is_answered(name, meant):
    with pytest.raises(ValueError, match=re.escape(meant)):
        podium.evaluate([0.5, 0.1], [1, 0], qid=[1, 1], metrics=[name])


class SuccessAt3(podium.Metric):
    """Whether there is a relevant document among the first three, whatever the cutoff."""

    base_name = "success_at_3"

    def value(self, ranked_labels, judged=None):
        return float(max(ranked_labels[:3], default=0) > 0)


class TopGrade(podium.Metric):
    base_name = "top_grade"

    def value(self, ranked_labels, judged=None):
        return float(max(ranked_labels[: self.cutoff], default=0) >= 2)


class HalfGood(podium.Metric):
    """Whether five of the first ten are relevant."""

    base_name = "half_good"

    def value(self, ranked_labels, judged=None):
        return float(np.sum(np.asarray(ranked_labels[:10]) > 0) >= 5)


class Share(podium.Metric):
    """The order means nothing to it."""

    base_name = "share"

    def value(self, ranked_labels, judged=None):
        return float(np.mean(np.asarray(ranked_labels) > 0))


@pytest.mark.parametrize(
    ("metric", "is_constant"),
    [(SuccessAt3(), False), (TopGrade(3), False), (HalfGood(), False), (Share(), True), (TopGrade(), True)],
)
def test_a_lambda_objective_warns_of_metrics_that_no_order_changes_and_of_no_other(metric, is_constant):
    messages = warned(lambda: podium.LambdaMART(n_estimators=1, metric=metric).fit(X, Y, QID))
    assert any("is the same for every order of a list" in message for message in messages) is is_constant
