"""Tuning of a weighting: values, choices and folds are those of plain loops over the same grid."""

import itertools
import json
import re
import sys

import numpy as np
import pytest
from collection import WORDS, index_of, random_documents

from podium import Cascade, Linear, Stage, cli
from podium.metrics.registry import parse_metric
from podium.search import build_index, open_index, parse_weighting, read_weighting, tune_weighting, write_weighting
from podium.workflows.searching import open_cascade

FIRST = [
    dict(zip(("k1", "b"), point)) for point in itertools.product((0.6, 0.9, 1.2, 1.6, 2), (0.2, 0.4, 0.6, 0.75, 0.9))
]
SECOND = [
    dict(zip(("fb_docs", "fb_terms", "original_query_weight"), point))
    for point in itertools.product((5, 10, 20), (10, 20, 40), (0.3, 0.5, 0.7, 0.9))
]


def weighting_of(name, *settings):
    joined = {key: value for part in settings for key, value in part.items()}
    return parse_weighting(f"{name}({', '.join(f'{key}={value}' for key, value in joined.items())})")


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    """Documents are relevant by chance, those with the words of the query in the title more often."""
    rng = np.random.default_rng(3)
    documents = random_documents(rng, 80)
    index = index_of(documents, tmp_path_factory.mktemp("index"), "segments", rng)
    queries = {f"q{number}": " ".join(rng.choice(WORDS[:12], 3)) for number in range(14)}
    queries |= {"unjudged": WORDS[0], "no results": "nowhere"}
    qrels = {
        query: {
            id: int(rng.random() < (0.5 if set(text.split()) & set(own["title"].split()) else 0.1))
            for id, own in documents.items()
        }
        for query, text in queries.items()
        if query != "unjudged"
    }
    return index, queries, qrels | {"not asked": {"d1": 1}}


def precisions(collection, weighting):
    """P@5 of each judged query: relevant ones of the first five, divided by five; of ties the larger ids."""
    index, queries, qrels = collection
    return {
        query: sum(qrels[query][id] for id in first_five(index.search(text, 80, weighting=weighting))) / 5
        for query, text in queries.items()
        if query in qrels
    }


def first_five(hits):
    return [id for _, id in sorted(zip(hits.scores, hits.ids), reverse=True)[:5]]


def mean(values, queries):
    return float(np.mean([values[query] for query in queries]))


def best(name, collection, queries, memo):
    """The best of both steps for some queries, of equal ones the first; k1 and b first, then feedback."""

    def value(weighting):
        if weighting not in memo:
            memo[weighting] = precisions(collection, weighting)
        return round(mean(memo[weighting], queries), 12)

    chosen, tried = parse_weighting(name), [parse_weighting(name)]
    for step in [FIRST, SECOND] if name == "bm25-rm3" else [FIRST]:
        tried += [weighting_of(name, chosen.settings, point) for point in step]
        chosen = max(tried, key=value)
    return chosen, set(tried)


@pytest.mark.parametrize("name", ["bm25", "bm25-rm3"])
def test_the_choice_is_that_of_plain_loops_and_each_fold_is_searched_with_what_the_others_chose(collection, name):
    index, queries, qrels = collection
    tuned = tune_weighting(index, queries, qrels, name, fields="whole", metric="p@5", folds=3)
    judged, memo = [query for query in queries if query in qrels], {}
    chosen, tried = best(name, collection, judged, memo)
    means = {one.weighting: value for one, value in tuned.tried.items()}
    assert (tuned.weighting, set(means), tuned.n_queries) == (chosen, tried, 15)
    assert {one.fields for one in tuned.tried} == {(("whole", 1.0),)}
    assert means == pytest.approx({one: mean(memo[one], judged) for one in tried})
    assert tuned.tried[tuned.chosen] > tuned.tried[tuned.start]
    folds, held_out = np.random.default_rng(0).permutation(15) % 3, {}
    for number, fold in enumerate(tuned.folds):
        inside = [query for query, own in zip(judged, folds) if own == number]
        own, _ = best(name, collection, [query for query in judged if query not in inside], memo)
        held_out |= {query: memo[own][query] for query in inside}
        assert (fold.chosen.weighting, fold.n_queries) == (own, 5)
        assert fold.value == pytest.approx(mean(memo[own], inside))
    assert tuned.cross_validated == pytest.approx(mean(held_out, judged))


def test_what_is_given_stays_if_nothing_is_better(tmp_path):
    """One document: any parameters find it."""
    build_index([("a", "laser"), ("b", "sound")], tmp_path / "i")
    queries, qrels = {"1": "laser", "2": "sound"}, {"1": {"a": 1}, "2": {"b": 1}}
    tuned = tune_weighting(open_index(tmp_path / "i"), queries, qrels, "bm25(k1=1.7)", folds=2)
    assert (tuned.weighting, tuned.fields) == (parse_weighting("bm25(k1=1.7)"), {"whole": 1.0})
    assert tuned.chosen == tuned.start
    assert tuned.tried[tuned.chosen] == tuned.cross_validated == 1.0


WEIGHTS = (0.25, 0.5, 1.0, 2.0, 4.0)


@pytest.mark.parametrize(("name", "given"), [("bm25", None), ("bm25f", {"title": 2.0, "body": 1.0, "url": 1.0})])
def test_weights_of_fields_are_those_of_plain_loops_and_searches(collection, name, given):
    """One field after the other, with all weights, from the best so far; one that is not given may be absent."""
    index, queries, qrels = collection
    tuned = tune_weighting(index, queries, qrels, name, fields=given, metric="p@5", folds=2)
    asked = [query for query in queries if query in qrels]

    def value(fields):
        hits = [index.search(queries[query], 80, weighting=tuned.weighting, fields=fields) for query in asked]
        return float(np.mean([sum(qrels[query][id] for id in first_five(own)) / 5 for query, own in zip(asked, hits)]))

    best = dict(given or {"whole": 1.0})
    first = next(iter(best.values()))
    others = ["body", "url"] if given else [field for field in ("title", "anchor", "url") if index.field(field).n_terms]
    assert "title" in others or given
    for field in others:
        tried = [best] + [best | {field: weight * first} for weight in WEIGHTS]
        best = max(tried, key=lambda fields: round(value(fields), 12))
    assert tuned.fields == best
    assert tuned.tried[tuned.chosen] == pytest.approx(value(best))
    assert tuned.tried[tuned.chosen] >= tuned.tried[tuned.start]


def test_the_surface_is_the_grid_of_k1_and_b(collection):
    index, queries, qrels = collection
    tuned = tune_weighting(index, queries, qrels, fields="whole", metric="p@5", folds=2)
    k1, b, means = tuned.surface()
    by_weighting = {str(one.weighting): mean for one, mean in tuned.tried.items()}
    for row, column in np.ndindex(5, 5):
        assert means[row, column] == by_weighting[str(weighting_of("bm25", {"k1": k1[row], "b": b[column]}))]
    assert [row[0] for row in tuned.surface_rows()] == ["k1 = 0.6", "k1 = 0.9", "k1 = 1.2", "k1 = 1.6", "k1 = 2"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weighting": "lmir-dir"}, "expected a weighting with k1 and b, such as bm25 or bm25-rm3; got lmir-dir"),
        ({"folds": 16}, "folds must be an integer from 2 to 15, the number of judged queries; got 16"),
        ({"folds": True}, "folds must be an integer from 2 to 15, the number of judged queries; got True"),
        ({"metric": "inversions"}, "of which more is better, such as ndcg@10; got inversions"),
        ({"metric": "ndgc@10"}, "Did you mean 'ndcg"),
        ({"weighting": "bm25-rm3", "fields": "anchor"}, "field anchor is not among them"),
        ({"metric": "auc(pooled)"}, "a metric with a value per query of which more is better"),
        ({"random_state": -1}, "random_state must be an integer from 0; got -1"),
        ({"random_state": None}, "random_state must be an integer from 0; got None"),
        ({"queries": ["q0", "q1"]}, "queries must be {id: text}; got list"),
        ({"queries": {"q0": None}}, "queries must be {id: text}; the text of 'q0' is NoneType"),
        ({"qrels": [("q0", "d1", 1)]}, "expected podium.Qrels or {query: {document: number}}; got list"),
        ({"qrels": {"q0": ["d1"], "q1": ["d1"]}}, "expected podium.Qrels or {query: {document: number}}; got list"),
        ({"qrels": {"q0": {"d1": "good"}}}, "expected one number per document: could not convert string to float"),
        ({"qrels": {"q0": {"d1": 0}, "q1": {"nowhere": 1}}}, "2 judged queries, and no weighting gets more than 0"),
    ],
)
def test_bad_arguments_are_named(collection, options, message):
    index, queries, qrels = collection
    given = {"queries": queries, "qrels": qrels} | options
    if options.keys() & {"queries", "qrels"}:
        given["folds"] = 2
    with pytest.raises(ValueError, match=re.escape(message)):
        tune_weighting(index, **given)


def test_queries_may_have_numbers_as_ids_and_metrics_may_be_objects(collection):
    index, queries, qrels = collection
    numbers = {name: number for number, name in enumerate(queries)}
    asked = {numbers[name]: text for name, text in queries.items()}
    judged = {numbers[name]: labels for name, labels in qrels.items() if name in numbers}
    by_name = tune_weighting(index, queries, qrels, metric="P@5", folds=3)
    by_object = tune_weighting(index, asked, judged, metric=parse_metric("p@5"), folds=3)
    assert (by_name.metric, by_object.metric, by_name.tried) == ("P@5", "p@5", by_object.tried)


def test_without_two_judged_queries_it_says_so(collection):
    index, queries, qrels = collection
    with pytest.raises(ValueError, match="tuning needs two judged queries or more; found 1"):
        tune_weighting(index, {"q0": queries["q0"]}, qrels)


@pytest.fixture
def podium(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)

    def call(*words):
        monkeypatch.setattr(sys, "argv", ["podium", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return int(stopped.value.code or 0), captured.out, captured.err

    return call


def test_the_command_prints_the_table_or_all_as_json(collection, podium, tmp_path):
    index, queries, qrels = collection
    (tmp_path / "queries.tsv").write_text("".join(f"{id.replace(' ', '')}\t{text}\n" for id, text in queries.items()))
    lines = [f"{query.replace(' ', '')} 0 {id} {label}\n" for query, own in qrels.items() for id, label in own.items()]
    (tmp_path / "qrels").write_text("".join(lines))
    words = ("tune-bm25", index.folder, "--queries", "queries.tsv", "--qrels", "qrels", "--metric", "p@5", "--folds", 3)
    tuned = tune_weighting(index, queries, qrels, metric="p@5", folds=3)
    code, out, _ = podium(*words)
    assert code == 0
    assert [str(tuned.weighting) in line for line in out.splitlines() if "chosen on all" in line] == [True]
    code, out, _ = podium(*words, "--json")
    assert json.loads(out) == tuned.as_dict()
    chosen = json.loads(out)["weighting"]
    code, out, _ = podium("search", index.folder, queries["q0"], "--k", 3, "--json", "--weighting", chosen)
    assert [hit["id"] for hit in json.loads(out)["hits"]] == index.search(queries["q0"], 3, weighting=chosen).ids
    code, out, _ = podium(*words, "--out", "t.toml", "--picture", "t.svg")
    assert out.splitlines()[-2:] == ["t.toml: written", "t.svg: written"]
    assert read_weighting("t.toml") == (tuned.weighting, tuned.fields)
    assert "<svg" in (tmp_path / "t.svg").read_text()
    assert podium(*words, "--out", "t.toml", "--picture", "t.svg")[0] == 0  # its own files are replaced
    code, out, _ = podium("search", index.folder, queries["q0"], "--k", 3, "--json", "--weighting", "t.toml")
    expected = index.search(queries["q0"], 3, weighting=tuned.weighting, fields=tuned.fields)
    assert [hit["id"] for hit in json.loads(out)["hits"]] == expected.ids
    code, out, _ = podium(*words, "--weighting", "t.toml", "--field", "whole", "--json")
    assert json.loads(out)["start"] | {"value": 0} == {"weighting": chosen, "fields": {"whole": 1.0}, "value": 0}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--out", "t.txt"], "--out t.txt: the name must end in .toml"),
        (["--out", "other.toml"], "the file is there already and holds something else, not a weighting"),
        (["--out", "nowhere/t.toml"], "the folder nowhere does not exist"),
        (["--picture", "t.gif"], "the suffix of a picture must be one of .svg, .png"),
        (["--picture", "queries.tsv.png", "--weighting", "missing.toml"], "missing.toml"),
    ],
)
def test_bad_outputs_are_refused_before_the_work(collection, podium, tmp_path, words, message):
    (tmp_path / "other.toml").write_text("a = 1\n")
    (tmp_path / "queries.tsv").write_text("q0\tlaser\n")
    (tmp_path / "qrels").write_text("q0 0 d1 1\n")
    code, _, error = podium("tune-bm25", collection[0].folder, "--queries", "queries.tsv", "--qrels", "qrels", *words)
    assert code == 2
    assert message in error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.toml", "qrels", "queries.tsv"]


def test_progress_counts_what_is_tried(collection):
    index, queries, qrels = collection
    reports = []
    tuned = tune_weighting(
        index, queries, qrels, metric="p@5", folds=2, report=lambda done, total: reports.append((done, total))
    )
    assert max(done for done, _ in reports) >= len(tuned.tried)
    assert all(done <= total for done, total in reports)


def test_a_cascade_takes_a_weighting_file(collection, podium, tmp_path):
    index, queries, qrels = collection
    write_weighting(tmp_path / "w.toml", "bm25(k1=0.7, b=0.123456789)", {"title": 3.0, "body": 1.0})
    model = tmp_path / "m.podium"
    data = Cascade(index, Stage(n=5)).training_data(queries, qrels)
    Linear().fit(data).save(model)
    assert podium("cascade", index.folder, model, "--out", "c", "--weighting", "w.toml")[0] == 0
    made = open_cascade(tmp_path / "c")
    assert (str(made.weighting), dict(made.fields)) == (
        "bm25(k1=0.7, b=0.123457, delta=0)",
        {"title": 3.0, "body": 1.0},
    )
    assert made.weighting.b == 0.123456789


def test_a_run_with_feedback_is_that_of_single_searches(collection, podium, tmp_path):
    index, queries, _ = collection
    (tmp_path / "queries.tsv").write_text("".join(f"{id.replace(' ', '')}\t{text}\n" for id, text in queries.items()))
    weighting = "bm25-rm3(fb_docs=4, fb_terms=3)"
    assert podium("search", index.folder, "--queries", "queries.tsv", "--out", "run", "--weighting", weighting)[0] == 0
    rows = [line.split() for line in (tmp_path / "run").read_text().splitlines()]
    for query, text in queries.items():
        hits = index.search(text, 1000, weighting=weighting)
        written = [(row[2], float(row[4])) for row in rows if row[0] == query.replace(" ", "")]
        assert sorted(written) == sorted(zip(hits.ids, hits.scores))
