"""The embedded web: the same bytes everywhere, text that a person can read, and hard enough to be worth learning."""

import hashlib
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import podium
from podium.demo import web as package
from podium.demo.show import evaluate_both, split_queries, train_cascade, training_data
from podium.demo.web import make_web, write_web
from podium.demo.web.grammar import Draws, expand
from podium.demo.web.material import load_sentences, load_topics
from podium.demo.web.questions import WORTH
from podium.evaluation.comparing import compare_evaluations
from podium.formats.trec import Qrels, Run
from podium.search import Analyser, build_index, open_index, read_documents, read_queries, search_run

WEB = make_web()
SPAM = ("results", "stuffed", "tag")


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    return open_index(build_index(WEB.documents, tmp_path_factory.mktemp("web") / "index"))


def stems(text):
    return {stem for stem, _ in Analyser().terms(text)}


def digest(web):
    pages = [[page.url, page.title, page.body, page.links] for page in web.pages]
    return hashlib.sha256(json.dumps([pages, web.queries, web.qrels]).encode()).hexdigest()


def test_the_bytes_stay_what_they_are():
    assert digest(WEB) == "f984e33ae706d7fcb92ab768736012baaeadd49c71ea43077cd1caf1235fd6eb"


def test_two_calls_give_the_same_web_and_another_seed_another():
    assert digest(make_web()) == digest(WEB)
    assert digest(make_web(seed=1)) != digest(WEB)


def test_the_source_is_small():
    files = [file for file in Path(package.__file__).parent.rglob("*") if file.suffix in (".toml", ".py")]
    assert len(files) > 20
    assert sum(file.stat().st_size for file in files) < 1_000_000


def test_there_are_a_couple_of_thousand_pages_and_queries_of_each_intent():
    assert 2000 < len(WEB.pages) < 2500
    assert len(WEB.questions) > 150
    intents = Counter(question.intent for question in WEB.questions.values())
    assert set(intents) == set(WORTH)
    assert min(intents.values()) >= 15
    assert len({page.id for page in WEB.pages}) == len({page.url for page in WEB.pages}) == len(WEB.pages)


def test_links_lead_to_pages_and_no_page_to_itself():
    urls = {page.url for page in WEB.pages}
    links = [(page.url, target) for page in WEB.pages for target, _ in page.links]
    assert len(links) > 2 * len(urls)
    assert {target for _, target in links} <= urls
    assert all(source != target for source, target in links)


def test_queries_are_short_and_different():
    lengths = Counter(len(text.split()) for text in WEB.queries.values())
    assert sum(lengths[n] for n in range(2, 8)) > 0.97 * len(WEB.queries)
    assert max(lengths) <= 8
    assert len(set(WEB.queries.values())) == len(WEB.queries)


# ------------------------------------------------------------------------------------------------------- text


def sentences(page):
    return [text for part in page.body.split("\n\n") for text in re.split(r"(?<=[.!?]) ", part)]


def test_most_sentences_are_said_once():
    counts = Counter(text for page in WEB.pages if page.kind != "copy" for text in sentences(page))
    assert len(counts) > 0.5 * counts.total()
    assert counts.most_common(1)[0][1] < 0.05 * len(WEB.pages)
    assert len({page.body for page in WEB.pages}) > 0.99 * len(WEB.pages)


def test_pages_of_a_kind_have_many_shapes():
    """A shape: the number of sentences in each paragraph."""
    shapes = {
        (page.kind, tuple(part.count(". ") for part in page.body.split("\n\n")))
        for page in WEB.pages
        if page.kind not in (*SPAM, "copy")
    }
    kinds = Counter(kind for kind, _ in shapes)
    assert len(shapes) > 250
    assert min(kinds[kind] for kind in ("article", "intro", "guide", "history", "answers", "diary")) > 15


def test_no_pattern_shows_through():
    for page in WEB.pages:
        assert not re.search(r"[\[\]{}]|  |(?<!\.)\.\.(?!\.)|\|(?! [A-Z])", f"{page.title}\n{page.body}"), page.url
        assert page.title
        if page.kind not in (*SPAM, "copy"):
            for part in page.body.split("\n\n"):
                assert re.match(r"[A-Z0-9\"]", part), part
                assert part.endswith((".", "?", "!", ")")), part


def test_every_pattern_can_be_written():
    """Slots without a meaning would be a KeyError; the vocabulary is that of texts, not of a template."""
    kinds = Counter(page.kind for page in WEB.pages)
    assert set(load_sentences()) - {"leads"} == set(kinds) - {"copy"}
    assert len({word for page in WEB.pages for word in re.findall(r"[a-z]+", page.body.lower())}) > 4000


def test_patterns_are_expanded_from_the_inside():
    found = {expand("[a|b [c|{d}]] e", Draws(seed), {"d": "D"}) for seed in range(50)}
    assert found == {"a e", "b c e", "b D e"}


def test_a_draw_takes_each_item_at_most_once():
    draws = Draws(5)
    assert sorted(draws.some(range(9), 20)) == list(range(9))
    kept = draws.ordered("abcdef", 4)
    assert len(set(kept)) == 4
    assert kept == sorted(kept)
    assert {draws.between(2, 4) for _ in range(100)} == {2, 3, 4}


# ------------------------------------------------------------------------------------------------------- judgements


def test_judgements_do_not_look_at_words():
    for question in list(WEB.questions.values())[:20]:
        for page in WEB.pages[::7]:
            assert question.grade(replace(page, title="", body="", url="", links=[])) == question.grade(page)


def test_every_query_has_an_answer_and_grades_are_skewed():
    grades = Counter(grade for pages in WEB.qrels.values() for grade in pages.values())
    assert set(grades) == {1, 2, 3, 4}
    assert grades[1] > grades[4]
    assert all(max(pages.values()) >= 2 for pages in WEB.qrels.values())
    assert max(len(pages) for pages in WEB.qrels.values()) < 30


def test_spam_answers_nothing():
    spam = {page.id for page in WEB.pages if page.kind in SPAM}
    assert len(spam) > 150
    assert not any(spam & set(pages) for pages in WEB.qrels.values())


def test_care_costs_grades_but_never_all():
    question = next(one for one in WEB.questions.values() if one.intent == "task")
    guide = next(page for page in WEB.pages if page.kind == "guide" and question.thing in page.things)
    assert [question.grade(replace(guide, care=care)) for care in (0.9, 0.5, 0.1)] == [4, 3, 2]
    diary = replace(guide, kind="diary")
    assert [question.grade(replace(diary, care=care)) for care in (0.9, 0.5, 0.1)] == [2, 1, 1]


def test_other_names_are_in_links_to_pages_and_not_in_the_pages():
    words: dict[str, set[str]] = {}
    for page in WEB.pages:
        for thing in page.things:
            words.setdefault(thing.name, set()).update(stems(f"{page.title} {page.body}"))
    anchors = stems(" ".join(text for page in WEB.pages for _, text in page.links))
    things = [thing for topic in load_topics() for thing in topic.things]
    assert not [thing.name for thing in things if stems(thing.also) <= words[thing.name]]
    assert sum(stems(thing.also) <= anchors for thing in things) > 0.95 * len(things)


def test_careful_pages_are_linked_more_often(index):
    pages = [page for page in WEB.pages if page.kind in ("article", "guide", "history")]
    inlinks = [index.fact("inlinks")[index.number(page.id)] for page in pages]
    assert np.corrcoef([page.care for page in pages], inlinks)[0, 1] > 0.4


# ------------------------------------------------------------------------------------------------------- difficulty


@pytest.mark.parametrize("policy", ["standard", "trec"])
def test_bm25_is_good_but_not_very_good(index, policy):
    run = search_run(index, WEB.queries, 100)
    found = podium.evaluate_run(Qrels.from_dict(WEB.qrels), run, metrics="ndcg@10", policy=policy, missing="zero")
    assert 0.4 < found["ndcg@10"] < 0.7


def test_a_learned_ranker_gains_and_one_of_shuffled_labels_does_not(index):
    parts = split_queries(WEB)
    data = training_data(index, WEB, parts.train)
    assert data.n_features == 46
    row = compare(index, data, parts)
    assert row.interval[0] > 0.1
    assert row.p_values["randomisation"]["none"] < 0.001
    rng, shuffled = np.random.default_rng(8), data.y.copy()
    for start, end in zip(data.offsets, data.offsets[1:]):
        rows = data.rows[start:end]
        shuffled[rows] = rng.permutation(shuffled[rows])
    assert compare(index, replace(data, y=shuffled), parts).interval[1] < 0


def test_no_feature_and_no_field_is_enough_by_itself(index):
    """What counts is spread over titles, links, addresses and lengths."""
    parts = split_queries(WEB)
    data, test = training_data(index, WEB, parts.train), training_data(index, WEB, parts.test)
    labels = Qrels.from_dict({name: WEB.qrels[name] for name in parts.test})

    def ndcg10(scores):
        return podium.evaluate_run(labels, Run.from_scores(test, scores), metrics="ndcg@10", policy="standard")[
            "ndcg@10"
        ]

    def learned(columns):
        model = podium.LambdaMART(n_estimators=100, max_leaf_nodes=8, extra_trees=False, metric="ndcg@10")
        return ndcg10(model.fit(data.X[:, columns], data.y, qid=data.qid).predict(test.X[:, columns]))

    columns, names = np.arange(46), data.feature_names
    every = learned(columns)
    assert max(ndcg10(sign * test.X[:, k].astype(float)) for k in columns for sign in (1, -1)) < every - 0.1
    assert learned([k for k in columns if "(whole)" in names[k] or "(body)" in names[k]]) < every - 0.05
    assert learned([k for k in columns if "(anchor)" not in names[k]]) < every - 0.01


def compare(index, data, parts):
    cascade = train_cascade(index, data, data)
    return compare_evaluations(evaluate_both(cascade, WEB, parts), metrics=["ndcg@10"]).rows[0]


def test_training_and_test_queries_are_apart_and_make_up_all():
    parts = split_queries(WEB)
    assert {**parts.train, **parts.test} == WEB.queries
    assert len(parts.train) == len(WEB.queries) * 3 // 5


def test_written_files_read_back_as_the_same_web(tmp_path):
    pages, queries, qrels = write_web(WEB, tmp_path / "web")
    assert list(read_documents(pages)) == WEB.documents
    assert read_queries(queries) == WEB.queries
    assert podium.read_qrels(qrels).to_dict() == WEB.qrels
