"""Cascade: features and scores of training files and searches are the same bits; saved and loaded as one folder."""

import itertools
import os
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from collection import WORDS, index_of, random_pages

import podium
from podium import Cascade, Stage
from podium.formats.container import write_container
from podium.formats.kinds import CASCADE
from podium.search import WEIGHTINGS, Features, IndexWriter, open_index, register_weighting, search_run

HISTORIES = ["built", "segments", "merged"]
N_PAGES, N = 80, 15
QUERIES = {f"q{number}": " ".join(pair) for number, pair in enumerate(itertools.combinations(WORDS[:7], 2))}
FEATURES = Features.letor("minmax").add("cover", "coverage", "whole").add("first", "score").add("short", "dl", "body")


@pytest.fixture(scope="module")
def pages():
    return random_pages(np.random.default_rng(2), N_PAGES)


@pytest.fixture(scope="module")
def indexes(pages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    return {name: index_of(pages, folder / name, name, np.random.default_rng(3)) for name in HISTORIES}


@pytest.fixture(scope="module")
def qrels(pages):
    """Documents with a word of the query in the title are relevant; a third is not judged."""
    rng, found = np.random.default_rng(4), {}
    for name, text in QUERIES.items():
        grade = {id: sum(word in page["title"].split() for word in text.split()) for id, page in pages.items()}
        found[name] = {id: label for id, label in grade.items() if rng.random() < 0.6}
    return podium.Qrels.from_dict(found)


def models():
    trees = {"n_estimators": 12, "max_leaf_nodes": 6, "min_samples_leaf": 5, "random_state": 1}
    return {
        "trees": podium.LambdaMART(**trees),
        "linear": podium.Linear(objective="ranknet"),
        "zscore": podium.LambdaMART(transform=("raw", "zscore"), **trees),
        "blend": podium.Blend(members=[podium.LambdaMART(**trees), podium.Linear(objective="ranknet")]),
    }


def rows_by_document(data):
    return {(str(q), d): X.tobytes() for q, d, X in zip(data.qid, data.docids, data.X)}


@pytest.fixture(scope="module", params=sorted(models()))
def fitted(request, indexes, qrels):
    data = Cascade(indexes["built"], Stage(features=FEATURES, n=N)).training_data(QUERIES, qrels)
    return models()[request.param].fit(data)


def test_searches_score_the_rows_of_the_training_data_bit_for_bit(indexes, qrels, fitted):
    reference = None
    for history, index in indexes.items():
        empty = Cascade(index, Stage(features=FEATURES, n=N))
        data = empty.training_data(QUERIES, qrels)
        cascade = empty.with_model(fitted)
        predicted = fitted.predict(data)
        offline = {(str(q), d): score for q, d, score in zip(data.qid, data.docids, predicted)}
        alone = {name: cascade.search(text, N) for name, text in QUERIES.items()}
        for name, hits in alone.items():
            own = {d: score for (q, d), score in offline.items() if q == name}
            assert dict(zip(hits.ids, hits.scores)) == own
        many = cascade.search_many(list(QUERIES.values()), N, n_jobs=4)
        assert [(hits.ids, hits.scores, hits.first_ranks) for hits in many] == [
            (hits.ids, hits.scores, hits.first_ranks) for hits in alone.values()
        ]
        found = {name: (hits.ids, hits.scores) for name, hits in alone.items()}
        reference = reference or (found, rows_by_document(data))
        assert (found, rows_by_document(data)) == reference, history


def test_training_data_do_not_depend_on_threads_or_other_queries(indexes, qrels):
    cascade = Cascade(indexes["segments"], Stage(features=FEATURES, n=N))
    whole = cascade.training_data(QUERIES, qrels, n_jobs=1)
    many = cascade.training_data(QUERIES, qrels, n_jobs=4)
    assert (whole.X.tobytes(), whole.y.tobytes()) == (many.X.tobytes(), many.y.tobytes())
    single = {}
    for name, text in QUERIES.items():
        single |= rows_by_document(cascade.training_data({name: text}, qrels))
    assert single == rows_by_document(whole)
    assert whole.feature_names == FEATURES.names


def test_hits_have_both_ranks_and_what_lies_behind_follows_below(indexes, qrels, fitted):
    index = indexes["segments"]
    cascade = Cascade(index, Stage(fitted, FEATURES, N))
    for text in list(QUERIES.values())[:5]:
        first = index.search(text, 60)
        hits = cascade.search(text, 60)
        assert sorted(hits.ids[:N]) == sorted(first.ids[:N])
        assert hits.ids[N:] == first.ids[N:]
        assert all(a >= b for a, b in itertools.pairwise(hits.scores))
        assert len(hits) <= N or hits.scores[N] < hits.scores[N - 1]
        for hit in hits:
            assert first.ids[hit.first_rank - 1] == hit.id
            assert first.scores[hit.first_rank - 1] == hit.first_score
        assert cascade.search(text, 3).ids == hits.ids[:3]
        assert hits[0].stored == index.stored(hits[0].document)
    run = cascade.run(QUERIES, 60)
    assert run.to_dict()["q0"] == dict(zip(*(lambda h: (h.ids, h.scores))(cascade.search(QUERIES["q0"], 60))))


def test_stages_follow_one_another(indexes, qrels):
    index, small = indexes["segments"], models()
    one = Cascade(index, Stage(features=FEATURES, n=20))
    one = one.with_model(small["linear"].fit(one.training_data(QUERIES, qrels)))
    second = Features.letor().keep(["BM25(title)", "TF(title)"]).add("before", "score")
    two = Cascade(index, [*one.stages, Stage(features=second, n=8)])
    data = two.training_data(QUERIES, qrels)
    for name, text in QUERIES.items():
        before = one.search(text, 8)
        own = data.subset(data.query_ids == name)
        assert own.docids.tolist() == before.ids
        np.testing.assert_array_equal(own.X[:, 2], np.array(before.scores, np.float32))
    two = two.with_model(small["trees"].fit(data))
    text = QUERIES["q3"]
    assert sorted(two.search(text, 8).ids) == sorted(one.search(text, 8).ids)
    assert two.search(text, 20).ids[8:] == one.search(text, 20).ids[8:]
    with pytest.raises(ValueError, match=r"at most the 20 documents of the one before; got n=21"):
        Cascade(index, [one.stages[0], Stage(n=21)])
    with pytest.raises(ValueError, match="'before' is the score of stage 1"):
        two.training_data(QUERIES, qrels, add_judged=True)


def test_labels_of_training_data(indexes, qrels):
    index = indexes["segments"]
    cascade = Cascade(index, Stage(features=FEATURES, n=5))
    judged = qrels.to_dict()
    data = cascade.training_data(QUERIES, qrels)
    for q, d, y in zip(data.qid, data.docids, data.y):
        assert y == judged[str(q)].get(d, 0)
    assert [list(data.docids[data.qid == q]) for q in data.query_ids] == [
        index.search(QUERIES[str(q)], 5).ids for q in data.query_ids
    ]
    only = cascade.training_data(QUERIES, judged, unjudged="skip")
    kept = [d in judged[str(q)] for q, d in zip(data.qid, data.docids)]
    assert 0 < sum(kept) < len(kept)
    assert only.X.tobytes() == data.X[kept].tobytes()
    more = cascade.training_data(QUERIES, qrels, add_judged=True)
    rows, longer = rows_by_document(data), rows_by_document(more)
    assert {key: longer[key] for key in rows} == rows
    assert set(longer) == set(rows) | {(q, d) for q in judged for d in judged[q]}
    deep = cascade.training_data(QUERIES, qrels, n=N_PAGES)
    column = FEATURES.names.index("TF(whole)")
    assert deep.n_rows > data.n_rows
    assert deep.X[:, column].max() == 1
    unlabelled = cascade.training_data(QUERIES)
    assert unlabelled.y is None
    assert unlabelled.X.tobytes() == data.X.tobytes()
    negative = {"q0": {index.search(QUERIES["q0"], 1).ids[0]: -2}, "q1": {}}
    found = cascade.training_data(QUERIES, negative)
    assert (found.n_queries, found.y.max()) == (1, 0)


def test_scores_of_added_documents_are_those_of_the_first_stage(indexes, qrels):
    index, text = indexes["segments"], QUERIES["q0"]
    features = Features.letor().keep(["TF(whole)"]).add("first", "score")
    data = Cascade(index, Stage(features=features, n=3)).training_data({"q0": text}, qrels, add_judged=True)
    scores = dict(zip(*(lambda hits: (hits.ids, hits.scores))(index.search(text, N_PAGES))))
    assert data.n_rows > 3
    np.testing.assert_array_equal(data.X[:, 1], np.array([scores.get(d, 0) for d in data.docids], np.float32))


def test_an_index_and_a_cascade_are_searchers(indexes, fitted):
    cascade = Cascade(indexes["built"], Stage(fitted, FEATURES, N))
    for searcher in (cascade.index, cascade):
        run = search_run(searcher, QUERIES, 5)
        best = [hit for text in QUERIES.values() for hit in searcher.search(text, 5)]
        assert list(run.docids) == [hit.id for hit in best]
        assert run.scores.tolist() == [hit.score for hit in best]
    with pytest.raises(ValueError, match="a cascade has a weighting and fields of its own"):
        search_run(cascade, QUERIES, 5, weighting="tfidf")


def test_a_cascade_with_a_weighting_that_is_not_registered_is_refused_by_name(indexes, fitted, tmp_path):
    register_weighting("raw", lambda tf, lengths, df, n, average, *, c=1.0: c * tf, formula="c tf")
    try:
        cascade = Cascade(indexes["built"], Stage(fitted, FEATURES, N), weighting="raw(c=2)")
        cascade.save(tmp_path / "cascade")
        assert podium.load(tmp_path / "cascade").search(WORDS[0]).ids == cascade.search(WORDS[0]).ids
    finally:
        del WEIGHTINGS["raw"]
    with pytest.raises(ValueError, match=r"cascade.podium: .* weighting 'raw', which is not registered here"):
        podium.load(tmp_path / "cascade")


def test_a_saved_folder_is_the_same_cascade(indexes, fitted, tmp_path):
    settings = {"weighting": "lmir-jm(lambda=0.123456789)", "fields": "title"}
    for history, options in zip(HISTORIES, ({}, settings, {"fields": {"title": 2.0, "body": 1.0}})):
        cascade = Cascade(indexes[history], Stage(fitted, FEATURES, N), **options)
        cascade.save(tmp_path / history)
        loaded = podium.load(tmp_path / history)
        for text in list(QUERIES.values())[:6]:
            one, other = cascade.search(text, 30), loaded.search(text, 30)
            assert (one.ids, one.scores, one.first_scores) == (other.ids, other.scores, other.first_scores)
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
    moved = shutil.move(tmp_path / "built", tmp_path / "elsewhere")
    here = Cascade(indexes["built"], Stage(fitted, FEATURES, N)).search(QUERIES["q0"])
    assert podium.load(moved).search(QUERIES["q0"]).scores == here.scores
    shutil.copytree(indexes["built"].folder, tmp_path / "ix")
    live = Cascade(tmp_path / "ix", Stage(fitted, FEATURES, N))
    live.save(tmp_path / "kept")
    with IndexWriter(tmp_path / "ix") as writer:
        writer.add({"id": "new", "body": WORDS[0]})
        writer.merge()
    assert podium.load(tmp_path / "kept").search(QUERIES["q0"]).ids == live.search(QUERIES["q0"]).ids
    with pytest.raises(ValueError, match=r"has changed since it was opened: .* Open the index again"):
        live.save(tmp_path / "late")
    assert not (tmp_path / "late").exists()


def test_what_cannot_be_saved_is_refused_with_the_reason(indexes, qrels, tmp_path):
    def letters(query):
        return [len(id) for id in query.ids]

    cascade = Cascade(indexes["built"], Stage(features=FEATURES.add("letters", letters), n=N))
    with pytest.raises(ValueError, match=r"stage 1 cannot be saved: feature 'letters' is a Python function"):
        cascade.save(tmp_path / "c")
    cascade = cascade.with_model(models()["trees"].fit(cascade.training_data(QUERIES, qrels)))
    assert cascade.search(QUERIES["q0"])
    with pytest.raises(ValueError, match=r"stage 1 cannot be saved: feature 'letters' is a Python function"):
        cascade.save(tmp_path / "c")
    good = Cascade(indexes["built"], Stage(features=FEATURES, n=N))
    good = good.with_model(models()["trees"].fit(good.training_data(QUERIES, qrels)))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(ValueError, match="is there already"):
        good.save(tmp_path / "full")
    with pytest.raises(FileNotFoundError, match="Create it first"):
        good.save(tmp_path / "no" / "c")
    assert sorted(os.listdir(tmp_path)) == ["full"]


def test_damaged_folders_are_named(indexes, qrels, tmp_path):
    good = Cascade(indexes["built"], Stage(features=FEATURES, n=N))
    good.with_model(models()["trees"].fit(good.training_data(QUERIES, qrels))).save(tmp_path / "c")
    for name, change in {
        "cascade.podium": lambda path: path.write_bytes(path.read_bytes()[:-3] + b"xyz"),
        "stage-1.podium": lambda path: path.unlink(),
        "stage-1.toml": lambda path: path.write_text("letor = true"),
        "index/index.podium": lambda path: path.unlink(),
    }.items():
        folder = shutil.copytree(tmp_path / "c", tmp_path / name.replace("/", "-"))
        change(folder / name)
        with pytest.raises((ValueError, OSError), match=r"index|" + name.replace(".", r"\.")):
            podium.load(folder)
    with pytest.raises(ValueError, match=r"is a folder without a cascade\.podium"):
        podium.load(tmp_path / "c" / "index")
    with pytest.raises(ValueError, match="holds the stages of a cascade, not a model"):
        podium.load(tmp_path / "c" / "cascade.podium")


GOOD = {"stages": [{"n": N}], "weighting": {"variant": "bm25", "k1": 1.2, "b": 0.75, "delta": 0.0}, "fields": "whole"}


@pytest.mark.parametrize(
    "change",
    [
        {"stages": []},
        {"stages": {"n": 3}},
        {"stages": [{"n": "x"}]},
        {"stages": [{"n": True}]},
        {"stages": [{"n": 5}, {"n": 3}]},
        {"stages": [{"n": 5}] * 1000},
        {"weighting": "bm25"},
        {"weighting": {"variant": []}},
        {"weighting": {"variant": "bm25", "mu": 3}},
        {"weighting": {"variant": "bm25", "k1": "x"}},
        {"weighting": {"variant": "lmir-jm", "k1": 1.2}},
        {"fields": None},
        {"fields": 3},
        {"fields": {"title": None}},
        {"fields": [["title"]]},
        {"fields": {}},
        {"more": 1},
    ],
)
def test_crafted_facts_are_refused(indexes, qrels, small_cascade, tmp_path, change):
    folder = shutil.copytree(small_cascade, tmp_path / "c")
    write_container(folder / "cascade.podium", CASCADE, GOOD, {})
    assert podium.load(folder).search(QUERIES["q0"])
    write_container(folder / "cascade.podium", CASCADE, GOOD | change, {})
    with pytest.raises((ValueError, OSError)):
        podium.load(folder)


@pytest.fixture(scope="module")
def small_cascade(indexes, qrels, tmp_path_factory):
    folder = tmp_path_factory.mktemp("small") / "c"
    empty = Cascade(indexes["built"], Stage(features=FEATURES, n=N))
    empty.with_model(models()["linear"].fit(empty.training_data(QUERIES, qrels))).save(folder)
    return folder


def test_a_learned_ranker_ranks_better_than_the_first_stage(indexes, pages):
    """Relevant is what has the word of the query in its title, which BM25 of the whole text cannot tell."""
    words = {name: name for name in WORDS}
    qrels = {name: {id: int(name in page["title"].split()) for id, page in pages.items()} for name in WORDS}
    training, held_out = dict(list(words.items())[::2]), dict(list(words.items())[1::2])
    empty = Cascade(indexes["segments"], Stage(n=50))
    cascade = empty.with_model(models()["trees"].fit(empty.training_data(training, qrels)))
    judged = podium.Qrels.from_dict({name: qrels[name] for name in held_out})
    before, after = (
        podium.evaluate_run(judged, searched.run(held_out), metrics=["ndcg@10"])["ndcg@10"]
        for searched in (empty, cascade)
    )
    assert after > before + 0.1


def test_stages_are_checked(indexes, qrels):
    index = indexes["built"]
    data = Cascade(index, Stage(n=N)).training_data(QUERIES, qrels)
    model = models()["trees"].fit(data)
    assert Cascade(index, model).stages[0].features == Features.letor()
    with pytest.raises(ValueError, match=r"feature 1 is 'PageRank', that of the model 'TF\(body\)'"):
        Stage(model, Features.letor().keep(["PageRank"]))
    with pytest.raises(ValueError, match="49 features declared, the model has 46"):
        Stage(models()["trees"].fit(data.X, data.y, qid=data.qid), FEATURES)
    with pytest.raises(ValueError, match="needs a model of Podium"):
        Stage("lambdamart")
    with pytest.raises(ValueError, match="n, the documents"):
        Stage(n=0)
    with pytest.raises(ValueError, match="field must be one of"):
        Cascade(index, fields="titel")
    with pytest.raises(ValueError, match="unjudged must be one of irrelevant, skip"):
        Cascade(index).training_data(QUERIES, qrels, unjudged="drop")
    with pytest.raises(ValueError, match="need qrels"):
        Cascade(index).training_data(QUERIES, add_judged=True)
    with pytest.raises(ValueError, match="no query has judgements"):
        Cascade(index).training_data({"z": "x"}, qrels)
    with pytest.raises(ValueError, match="no query has candidates"):
        Cascade(index).training_data({"q0": "nowhere"}, qrels)


def test_shares_add_up_to_what_a_document_has_over_the_mean(indexes, fitted):
    cascade = Cascade(indexes["segments"], Stage(fitted, FEATURES, N))
    text = QUERIES["q0"]
    found = cascade.explain(text, 30)
    hits = cascade.search(text, 30)
    assert [hit.id for hit in found.hits] == hits.ids
    assert found.mean_score == pytest.approx(np.mean(hits.scores[:N]))
    for place, hit in enumerate(found.hits):
        assert (hit.rank, hit.first_rank) == (place + 1, hits.first_ranks[place])
        if place >= N:
            assert hit.features == ()
        elif isinstance(fitted, podium.Blend):
            assert "not a sum of trees" in found.note
            assert [one.name for one in hit.features] == list(FEATURES.names)
            assert {one.share for one in hit.features} == {None}
        else:
            assert sum(one.share for one in hit.features) == pytest.approx(hit.score - found.mean_score, abs=1e-6)
            sizes = [abs(one.share) for one in hit.features]
            assert sizes == sorted(sizes, reverse=True)


def test_any_number_of_threads_may_search(indexes, fitted):
    cascade = Cascade(open_index(indexes["segments"].folder), Stage(fitted, FEATURES, N))
    texts, gate = list(QUERIES.values()), threading.Barrier(6)

    def work(turn):
        gate.wait()
        return [cascade.search(text).scores for text in texts[turn:] + texts[:turn]]

    with ThreadPoolExecutor(6) as pool:
        parts = list(pool.map(work, range(6)))
    expected = [cascade.search(text).scores for text in texts]
    for turn, part in enumerate(parts):
        assert part == expected[turn:] + expected[:turn]


def test_a_query_that_finds_nothing(indexes, fitted):
    cascade = Cascade(indexes["segments"], Stage(fitted, FEATURES, N))
    assert cascade.search("nowhere").ids == []
    assert cascade.explain("nowhere").hits == ()
