"""Cascade.fit: a model is chosen only where queries that it was not trained on say that it gains."""

import itertools
import re

import numpy as np
import oracles
import pytest
from collection import WORDS, index_of, random_pages

import podium
from podium import Cascade, Qrels, Stage
from podium.formats.container import write_container
from podium.formats.kinds import CASCADE
from podium.models.frame.estimator import check_fitted
from podium.pipelines.cascades.candidates import SCORE, make_candidates, with_score
from podium.search import Features

N_PAGES, N = 80, 15
QUERIES = {f"q{number}": " ".join(pair) for number, pair in enumerate(itertools.combinations(WORDS[:7], 2))}
NAMES = ["first stage", "z-score sum", "linear", "small trees", "blend"]
FEATURES = Features.letor().keep(["BM25(title)", "TF(title)", "BM25(body)", "DL(whole)", "PageRank"])


@pytest.fixture(scope="module")
def pages():
    return random_pages(np.random.default_rng(2), N_PAGES)


@pytest.fixture(scope="module")
def index(pages, tmp_path_factory):
    return index_of(pages, tmp_path_factory.mktemp("index") / "ix", "segments", np.random.default_rng(3))


@pytest.fixture(scope="module")
def qrels(pages):
    """Documents with a word of the query in the title are relevant, which BM25 of the whole text cannot tell."""
    grades = {
        name: {id: sum(word in page["title"].split() for word in text.split()) for id, page in pages.items()}
        for name, text in QUERIES.items()
    }
    return Qrels.from_dict(grades)


@pytest.fixture(scope="module")
def cascade(index):
    return Cascade(index, Stage(features=FEATURES, n=N))


@pytest.fixture(scope="module")
def fitted(cascade, qrels):
    return cascade.fit(QUERIES, qrels)


def best_by_the_first_stage(index, weighting="bm25", fields="whole"):
    """Judgements that no other order can improve: the first document is the relevant one."""
    hits = {name: index.search(text, N, weighting=weighting, fields=fields).ids for name, text in QUERIES.items()}
    return {name: {id: int(place == 0) for place, id in enumerate(ids)} for name, ids in hits.items()}


def expected_choice(cascade, choice, judged, cutoff=10):
    """From the out-of-fold scores alone, in plain loops: (chosen, {name: (mean, gain, error)})."""
    labels = {name: [] for name in choice.scores}
    for name, scores in choice.scores.items():
        start = 0
        for query in choice.queries:
            found = cascade.index.search(
                QUERIES[query], cascade.stages[0].n, weighting=cascade.weighting, fields=cascade.fields
            ).ids
            of_query = scores[start : start + len(found)].tolist()
            start += len(found)
            order = sorted(range(len(found)), key=lambda place, of=of_query: -of[place])  # equal ones in their order
            labels[name].append([judged[query].get(found[place], 0) for place in order])
        assert start == len(scores)
    pools = [list(judged[query].values()) for query in choice.queries]
    return oracles.choose_by_one_standard_error(labels, pools, NAMES[0], cutoff)


def numbers_of(choice):
    return {one.name: (one.mean, one.gain, one.error) for one in choice.tried}


def test_a_strong_signal_is_used_and_holds_on_other_queries(cascade, qrels):
    judged = qrels.to_dict()
    training, held_out = dict(list(QUERIES.items())[::2]), dict(list(QUERIES.items())[1::2])
    fitted = cascade.fit(training, qrels)
    assert fitted.choice_.chosen != "first stage"
    check_fitted(fitted.stages[0].model)
    known = Qrels.from_dict({name: judged[name] for name in held_out})
    before, after = (
        podium.evaluate_run(known, one.run(held_out, N), metrics=["ndcg@10"])["ndcg@10"] for one in (cascade, fitted)
    )
    assert after > before + 0.1


def test_the_choice_is_that_of_plain_loops_over_the_scores_out_of_fold(cascade, fitted, qrels):
    choice = fitted.choice_
    assert [one.name for one in choice.tried] == NAMES
    chosen, expected = expected_choice(cascade, choice, qrels.to_dict())
    assert choice.chosen == chosen
    for name, numbers in numbers_of(choice).items():
        assert numbers == pytest.approx(expected[name]), name


COMBINATIONS = [
    {"weighting": "lmir-jm", "fields": "title", "normalize": "minmax", "metric": "map", "n": 9, "score": True},
    {"weighting": "bm25", "fields": {"title": 2.0, "body": 1.0}, "normalize": None, "metric": "ndcg@3", "n": 30},
    {"weighting": "tfidf", "fields": "whole", "normalize": "minmax", "metric": "err@5+map", "n": 12, "random_state": 3},
    {"weighting": "bm25-rm3(fb_docs=3)", "fields": "whole", "normalize": None, "metric": "ndcg@3", "n": 10},
]


@pytest.mark.parametrize("change", COMBINATIONS, ids=lambda change: change["weighting"])
@pytest.mark.parametrize("judgements", ["graded", "sparse", "perfect"])
def test_whatever_is_chosen_is_the_same_cascade_after_saving(index, qrels, tmp_path, change, judgements):
    settings = dict(change)
    first = {key: settings.pop(key) for key in ("weighting", "fields")}
    features = Features(FEATURES.features, settings.pop("normalize"))
    features = features.add("mine", "score") if settings.pop("score", False) else features
    empty = Cascade(index, Stage(features=features, n=settings.pop("n")), **first)
    judged, rng = qrels.to_dict(), np.random.default_rng(5)
    if judgements == "sparse":
        judged = {q: {d: y for d, y in labels.items() if rng.random() < 0.4} for q, labels in judged.items()}
        judged["q0"]["a document that the index does not have"] = 2
    elif judgements == "perfect":
        judged = best_by_the_first_stage(index, **first)
    fitted = empty.fit(QUERIES, judged, folds=3, **settings)
    assert (fitted.stages[0].model is None) == (fitted.choice_.chosen == "first stage")
    if judgements == "perfect":
        assert fitted.choice_.chosen == "first stage"
    if settings["metric"].startswith("ndcg"):
        chosen, expected = expected_choice(empty, fitted.choice_, judged, 3)
        assert fitted.choice_.chosen == chosen
        assert numbers_of(fitted.choice_)["linear"] == pytest.approx(expected["linear"])
    fitted.save(tmp_path / "c")
    loaded = podium.load(tmp_path / "c")
    assert loaded.stages[0].features == fitted.stages[0].features
    for text in QUERIES.values():
        one, other = fitted.search(text, 40), loaded.search(text, 40)
        assert (one.ids, one.scores, one.first_ranks) == (other.ids, other.scores, other.first_ranks)
        assert loaded.explain(text, 3) is not None
    assert (tmp_path / "c" / "stage-1.podium").exists() == (fitted.stages[0].model is not None)


def test_a_first_stage_that_is_kept_is_saved_searched_and_explained(cascade, index, tmp_path):
    fitted = cascade.fit(QUERIES, best_by_the_first_stage(index))
    assert fitted.choice_.sentence() == "Chosen: the first stage. No candidate gains more than one standard error."
    assert fitted.choice_.tried[0].mean == 1.0
    assert all(one.gain <= 0 for one in fitted.choice_.tried[1:])
    fitted.save(tmp_path / "c")
    loaded = podium.load(tmp_path / "c")
    for text in QUERIES.values():
        first = index.search(text, 40)
        for one in (fitted, loaded):
            hits = one.search(text, 40)
            assert (hits.ids, hits.scores) == (first.ids, first.scores)
            assert hits.first_ranks == list(range(1, len(first) + 1))
    explained = loaded.explain(QUERIES["q0"], 3)
    assert "No stage has a model" in explained.note
    assert [hit.id for hit in explained.hits] == index.search(QUERIES["q0"], 3).ids
    assert [share.name for share in explained.hits[0].features] == list(FEATURES.names)
    assert {share.share for share in explained.hits[0].features} == {None}


@pytest.mark.slow
def test_random_judgements_mostly_keep_the_first_stage_and_no_choice_breaks_the_rule(cascade, pages):
    kept = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        judged = {name: {id: int(rng.random() < 0.2) for id in pages} for name in QUERIES}
        choice = cascade.fit(QUERIES, judged).choice_
        assert choice.chosen == expected_choice(cascade, choice, judged)[0]
        kept += choice.chosen == "first stage"
    assert kept >= 4


def test_threads_change_nothing(cascade, qrels, tmp_path):
    results = []
    for n_jobs in (1, 3):
        fitted = cascade.fit(QUERIES, qrels, n_jobs=n_jobs)
        fitted.save(tmp_path / str(n_jobs))
        choice = fitted.choice_
        scores = {name: of_rows.tobytes() for name, of_rows in choice.scores.items()}
        results.append((choice.chosen, numbers_of(choice), scores, choice.notes))
    assert results[0] == results[1]
    one, other = ((tmp_path / name / "stage-1.podium").read_bytes() for name in ("1", "3"))
    assert one == other


def test_a_query_is_scored_by_models_that_have_not_seen_its_labels(cascade, fitted, qrels):
    """With other judgements of one query, its own scores are the same; those of other queries are not."""
    judged, name = qrels.to_dict(), "q4"
    judged[name] = {id: 2 - label for id, label in judged[name].items()}
    before, after = fitted.choice_, cascade.fit(QUERIES, judged).choice_
    assert before.queries == after.queries
    sizes = [len(cascade.index.search(QUERIES[query], N)) for query in before.queries]
    asked = np.repeat(before.queries, sizes) == name
    for candidate in NAMES[1:]:
        one, other = before.scores[candidate], after.scores[candidate]
        np.testing.assert_array_equal(one[asked], other[asked])
        assert (one[~asked] != other[~asked]).any()


def zscores(values):
    spread = values.std()
    return np.zeros(len(values)) if spread == 0 else (values - values.mean()) / spread


@pytest.mark.parametrize("normalize", [None, "minmax"])
def test_the_sum_is_that_of_the_zscores_of_both_and_is_saved(index, qrels, tmp_path, normalize):
    features, column = with_score(Features(FEATURES.features, normalize))
    assert features.names[column] == SCORE
    cascade = Cascade(index, Stage(features=features, n=N))
    data = cascade.training_data(QUERIES, qrels)
    candidates = {one.name: one for one in make_candidates(data, column, 0)}
    total, linear = (candidates[name].fit(data, 1) for name in ("z-score sum", "linear"))
    scores, by_linear, first = total.predict(data), linear.predict(data), data.X[:, column].astype(float)
    for query in data.query_ids:
        rows = data.qid == query
        np.testing.assert_allclose(scores[rows], (zscores(first[rows]) + zscores(by_linear[rows])) / 2, atol=1e-12)
    total.save(tmp_path / "sum.podium")
    np.testing.assert_array_equal(podium.load(tmp_path / "sum.podium").predict(data), scores)


def test_a_declared_score_is_not_declared_again():
    declared = FEATURES.add("mine", "score")
    assert with_score(declared) == (declared, len(FEATURES))


def test_queries_that_tell_nothing_are_counted_and_left_out(cascade, qrels):
    judged = qrels.to_dict()
    del judged["q1"], judged["q2"]
    judged["q3"] = dict.fromkeys(judged["q3"], 0)
    judged["q5"] = dict.fromkeys(judged["q5"], 1)
    asked = QUERIES | {"empty": "nowhere"}
    choice = cascade.fit(asked, judged | {"empty": {"d1": 1}, "other": {"d1": 1}}).choice_
    notes = " ".join(choice.notes)
    assert "2 queries without judgements: left out." in notes
    assert "1 query without any candidate: left out." in notes
    assert "1 query whose candidates are all equally relevant: left out." in notes
    without = int(re.search(r"(\d+) quer\w+ without a relevant document among the candidates", notes)[1])
    assert without >= 1
    assert len(choice.queries) == len(asked) - 2 - 1 - 1 - without
    assert not {"q1", "q2", "q3", "q5", "empty"} & set(choice.queries)


def test_fewer_queries_than_folds_make_fewer_folds_and_one_query_is_refused(cascade, qrels):
    few = dict(list(QUERIES.items())[:3])
    choice = cascade.fit(few, qrels).choice_
    assert choice.n_folds == len(choice.queries) == 3
    assert "There are fewer queries than folds: 3 folds instead of 5." in choice.notes
    with pytest.raises(ValueError, match=r"needs 2 queries with relevant and other candidates; got 1 of 1 query"):
        cascade.fit({"q0": QUERIES["q0"]}, qrels)


def test_candidates_that_cannot_be_trained_are_left_out_with_the_reason(index, qrels):
    cascade = Cascade(index, Stage(features=FEATURES, n=4))
    choice = cascade.fit(dict(list(QUERIES.items())[:6]), qrels).choice_
    left_out = [one for one in choice.tried if one.mean is None]
    assert [one.name for one in left_out] == ["small trees", "blend"]
    assert all("its trees need 40" in one.note and one.note in choice.notes for one in left_out)
    assert str(choice).count("left out, because it failed") == 2


def test_missing_values_leave_the_trees_only_and_the_model_can_be_chosen_again(index, qrels, tmp_path):
    rng = np.random.default_rng(1)
    rows = [
        f"{text},{d},{rng.random():.3f}"
        for text in QUERIES.values()
        for d in qrels.to_dict()["q0"]
        if rng.random() < 0.3
    ]
    (tmp_path / "clicks.csv").write_text("\n".join(["query,document,clicks", *rows]))
    table = {"file": str(tmp_path / "clicks.csv"), "by": "query_document", "column": "clicks", "missing": float("nan")}
    fitted = Cascade(index, Stage(features=FEATURES.add("clicks", "table", **table), n=N)).fit(QUERIES, qrels)
    assert [one.name for one in fitted.choice_.tried if one.mean is None] == ["z-score sum", "linear", "blend"]
    assert fitted.choice_.chosen == "small trees"
    fitted.save(tmp_path / "c")
    loaded = podium.load(tmp_path / "c")
    again = loaded.fit(QUERIES, qrels)
    assert again.stages[0].features.names == (*FEATURES.names, "clicks", SCORE)
    assert numbers_of(again.choice_) == numbers_of(fitted.choice_)
    assert again.search(QUERIES["q0"], N).scores == loaded.search(QUERIES["q0"], N).scores


def test_a_metric_that_is_better_when_lower_gains_by_falling(cascade, qrels):
    choice = cascade.fit(QUERIES, qrels, metric="inversions").choice_
    first, *others = choice.tried
    for one in others:
        assert one.gain == pytest.approx(first.mean - one.mean)
    chosen = next(one for one in others if one.name == choice.chosen)
    assert chosen.mean == min(one.mean for one in choice.tried) < first.mean


def test_what_was_tried_is_printed_and_plain(fitted):
    choice = fitted.choice_
    lines = str(choice).splitlines()
    assert lines[0].startswith(f"ndcg@10 (standard) on {len(choice.queries)} queries")
    assert lines[1].split()[:5] == ["candidate", "mean", "gain", "standard", "error"]
    for line, one in zip(lines[2:], choice.tried):
        assert line.startswith(one.name)
        assert f"{one.mean:.4f}" in line
    assert lines[7].startswith(f"Chosen: {choice.chosen}, whose gain of")
    plain = choice.as_dict()
    assert (plain["chosen"], plain["folds"], len(plain["tried"])) == (choice.chosen, 5, 5)
    assert all(one["microseconds"] > 0 and one["seconds"] > 0 for one in plain["tried"][1:])
    assert "pair_exponent=0.5" in plain["tried"][2]["settings"]
    assert "max_leaf_nodes=4" in plain["tried"][3]["settings"]


def test_progress_is_reported_and_bad_rules_are_refused(cascade, index, qrels):
    seen = []
    cascade.fit(dict(list(QUERIES.items())[:4]), qrels, report=lambda done, of, what="": seen.append((done, of, what)))
    assert seen[-5:] == [(number, 5, name) for number, name in enumerate(NAMES, 1)]
    for rules, message in (
        ({"folds": 1}, "folds must be an integer from 2; got 1"),
        ({"metric": "ndgc"}, "Did you mean"),
        ({"metric": "auc(pooled)"}, "must have a value per query"),
        ({"random_state": -1}, "random_state must be an integer from 0; got -1"),
        ({"policy": "mine"}, "policy"),
    ):
        with pytest.raises(ValueError, match=message):
            cascade.fit(QUERIES, qrels, **rules)
    with pytest.raises(ValueError, match=r"expected podium\.Qrels or {query: {document: number}}; got list"):
        cascade.fit(QUERIES, [("q0", "d1", 1)])
    with pytest.raises(ValueError, match="expected one number per document: could not convert string to float: 'good'"):
        cascade.fit(QUERIES, {"q0": {"d1": "good"}})
    with pytest.raises(ValueError, match=r"queries must be {id: text}; got list"):
        cascade.fit(list(QUERIES), qrels)
    two = Cascade(index, [Stage(n=10), Stage(n=5)])
    with pytest.raises(ValueError, match="fit chooses the model of the only stage; the cascade has 2"):
        two.fit(QUERIES, qrels)


def test_queries_may_have_numbers_as_ids(cascade, fitted, qrels):
    numbers = {name: number for number, name in enumerate(QUERIES)}
    judged = {numbers[name]: labels for name, labels in qrels.to_dict().items()}
    choice = cascade.fit({numbers[name]: text for name, text in QUERIES.items()}, judged).choice_
    assert numbers_of(choice) == numbers_of(fitted.choice_)


@pytest.mark.parametrize(
    "stages",
    [[{"n": 5, "model": True}], [{"n": 5, "model": None}], [{"n": 5, "model": False, "x": 1}], [{"model": False}]],
)
def test_crafted_stages_without_a_model_are_refused(cascade, tmp_path, stages):
    cascade.save(tmp_path / "c")
    facts = {"weighting": {"variant": "bm25", "k1": 1.2, "b": 0.75, "delta": 0.0}, "fields": "whole"}
    write_container(tmp_path / "c" / "cascade.podium", CASCADE, facts | {"stages": [{"n": 5, "model": False}]}, {})
    assert podium.load(tmp_path / "c").search(QUERIES["q0"])
    write_container(tmp_path / "c" / "cascade.podium", CASCADE, facts | {"stages": stages}, {})
    with pytest.raises(ValueError, match=r"cascade\.podium"):
        podium.load(tmp_path / "c")
