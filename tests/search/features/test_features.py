"""Features: values are the formulas', computed slowly from the texts; the same bits for any history of the index."""

import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import oracles
import pytest
from collection import WORDS, index_of, random_pages

from podium.search import WEIGHTINGS, Analyser, Extractor, Feature, Features, build_index, open_index
from podium.search.features.declaring import LETOR
from podium.search.features.kinds import feature_kinds

HISTORIES = ["built", "segments", "merged"]
N_PAGES = 50


def terms_of(text):
    return [term for term, _ in Analyser().terms(text)]


@pytest.fixture(scope="module")
def pages():
    return random_pages(np.random.default_rng(5), N_PAGES)


@pytest.fixture(scope="module")
def indexes(pages, tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    return {name: index_of(pages, folder / name, name, np.random.default_rng(6)) for name in HISTORIES}


def queries(n=12):
    rng = np.random.default_rng(8)
    words = [*WORDS, "unknown", "the", "site", "http"]
    return [" ".join(rng.choice(words, size)) for size in itertools.islice(itertools.cycle([1, 2, 3, 7]), n)]


@pytest.mark.parametrize("history", HISTORIES)
def test_the_46_are_their_formulas(pages, indexes, history):
    index = indexes[history]
    texts, facts, extractor = (
        oracles.page_terms(pages, terms_of),
        oracles.page_facts(pages),
        Extractor(index, Features()),
    )
    names, tested = list(pages), np.zeros(46)
    for query in queries():
        rng = np.random.default_rng(len(query))
        asked = rng.permutation(names)[: rng.integers(1, 20)].tolist()
        found = extractor.values(query, [index.number(name) for name in asked])
        expected = [oracles.letor_features(texts, facts, terms_of(query), name) for name in asked]
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-6)
        tested += np.abs(found).sum(axis=0)
    assert tested.all()


def test_values_are_the_same_bits_for_any_history_order_and_thread(pages, indexes):
    names = list(pages)
    features = Features(normalize="minmax").add("cover", "coverage", "whole").add("sum", "tf*idf-sum", "body")
    features = features.add("pairs", "bigrams", "whole").add("typical", "feedback", "whole", documents=len(names))
    reference = None
    for history, index in indexes.items():
        extractor = Extractor(index, features)
        numbers = np.array([index.number(name) for name in names])
        found = [extractor.values(query, numbers) for query in queries()]
        reference = reference or found
        assert [part.tobytes() for part in found] == [part.tobytes() for part in reference], history
        turned = [extractor.values(query, numbers[::-1])[::-1, :-1] for query in queries()]  # feedback sees an order
        assert [part.tobytes() for part in turned] == [part[:, :-1].tobytes() for part in reference]
        new = Extractor(index, features)
        with ThreadPoolExecutor(4) as pool:
            parts = list(pool.map(lambda query, own=new, docs=numbers: own.values(query, docs), queries() * 5))
        assert [part.tobytes() for part in parts] == [part.tobytes() for part in reference] * 5


def test_every_weighting_is_a_feature_and_settings_change_it(pages, indexes):
    index = indexes["segments"]
    own = {name: parts["whole"] for name, parts in oracles.page_terms(pages, terms_of).items()}
    query = f"{WORDS[0]} {WORDS[2]} {WORDS[0]}"
    kinds = [name for name, row in feature_kinds().items() if row.code is not None and name in WEIGHTINGS]
    extractor = Extractor(index, Features([Feature(name, name, "whole") for name in kinds]))
    for column, kind in enumerate(kinds):
        scores = oracles.search_scores(own, terms_of(query), kind)
        found = extractor.values(query, [index.number(name) for name in scores])[:, column]
        np.testing.assert_allclose(found, list(scores.values()), rtol=2e-6, atol=2e-6)
    other = {"k1": 2.0, "b": 0.3, "mu": 10.0, "lambda": 0.5, "delta": 0.2}
    numbers = [index.number(name) for name in own]
    for kind in kinds:
        for setting in feature_kinds()[kind].settings:
            if setting == "delta" and kind in ("bm25", "bm25-robertson", "bm25-atire"):
                continue  # which have none
            changed = Features([Feature("x", kind, "whole", {setting: other[setting]})])
            column = Extractor(index, changed).values(query, numbers)[:, 0]
            assert (column != extractor.values(query, numbers)[:, kinds.index(kind)]).any(), (kind, setting)


def test_coverage_sum_and_query_length(pages, indexes):
    index, texts = indexes["segments"], oracles.page_terms(pages, terms_of)
    kinds = [Feature("c", "coverage", "body"), Feature("s", "tf*idf-sum", "body"), Feature("n", "query-length")]
    query = f"{WORDS[0]} {WORDS[1]} {WORDS[0]} nowhere"
    found = Extractor(index, Features(kinds)).values(query, [index.number(name) for name in texts])
    idf = {t: np.log(N_PAGES / sum(t in own["body"] for own in texts.values())) for t in terms_of(query)[:2]}
    for row, own in zip(found, texts.values()):
        present = {term for term in terms_of(query) if term in own["body"]}
        total = sum(own["body"].count(term) * idf[term] for term in terms_of(query)[:3])
        np.testing.assert_allclose(row, [len(present) / 3, total, 4], rtol=1e-6)


@pytest.mark.parametrize("field", ["whole", "body"])
@pytest.mark.parametrize("history", HISTORIES)
def test_bigrams_and_feedback_are_their_formulas(pages, indexes, history, field):
    index, texts = indexes[history], oracles.page_terms(pages, terms_of)
    own, names = {name: parts[field] for name, parts in texts.items()}, list(pages)
    parts = {
        name: [terms_of(page[part]) for part in ("title", "body")[field == "body" :]] for name, page in pages.items()
    }
    features = Features([
        Feature("pairs", "bigrams", field, {"k1": 0.9, "b": 0.4}),
        Feature("typical", "feedback", field, {"documents": 4, "terms": 6, "k1": 0.9, "b": 0.4}),
    ])  # fmt: skip
    extractor, seen = Extractor(index, features), np.zeros(2)
    for turn, query in enumerate([f"{WORDS[0]} {WORDS[1]} {WORDS[0]}", f"{WORDS[2]} {WORDS[0]} nowhere", WORDS[3]]):
        asked = np.random.default_rng(turn).permutation(names)[:30].tolist()
        found = extractor.values(query, [index.number(name) for name in asked])
        pairs = oracles.bigram_scores(parts, own, terms_of(query), 0.9, 0.4)
        typical = oracles.feedback_scores(own, asked, 4, 6, 0.9, 0.4)
        np.testing.assert_allclose(found[:, 0], [pairs[name] for name in asked], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[:, 1], [typical[name] for name in asked], rtol=1e-5, atol=1e-6)
        seen += found.sum(axis=0)
    assert (seen > 0).all()


def test_minmax_is_that_of_the_query_and_constant_columns_are_0(pages, indexes):
    index = indexes["segments"]
    numbers, query = [index.number(name) for name in list(pages)[:20]], f"{WORDS[0]} {WORDS[4]}"
    raw = Extractor(index, Features()).values(query, numbers).astype(np.float64)
    scaled = Extractor(index, Features.letor("minmax"))
    span = raw.max(axis=0) - raw.min(axis=0)
    expected = np.where(span > 0, (raw - raw.min(axis=0)) / np.where(span > 0, span, 1), 0)
    np.testing.assert_allclose(scaled.values(query, numbers), expected, rtol=1e-6)
    assert (expected[:, 5:10] == 0).all()  # IDF, as in MQ2008
    first = scaled.values(query, numbers[:5])
    assert scaled.values(query, numbers, n_ranged=5)[:5].tobytes() == first.tobytes()


def test_what_must_not_occur_is_no_part_of_the_query(pages, indexes):
    index = indexes["built"]
    extractor, numbers = Extractor(index, Features()), [index.number(name) for name in pages]
    plain = extractor.values(f"{WORDS[0]} {WORDS[1]}", numbers)
    written = extractor.values(f'+{WORDS[0]} title:"{WORDS[1]}" -{WORDS[2]}', numbers)
    assert written.tobytes() == plain.tobytes()


def test_names_are_letors_in_its_order():
    fields = ["body", "anchor", "title", "url", "whole"]
    names = [f"{kind}({field})" for kind in ["TF", "IDF", "TF*IDF", "DL"] for field in fields]
    names += [f"{kind}({field})" for field in fields for kind in ["BM25", "LMIR.ABS", "LMIR.DIR", "LMIR.JM"]]
    names += ["PageRank", "inlinks", "outlinks", "slashes in URL", "length of URL", "child pages"]
    assert list(Features().names) == names
    assert len(LETOR) == 46


@pytest.fixture
def shop(tmp_path):
    pages = [
        {"id": "a", "title": "red lamp", "body": "a lamp", "clicks": 7},
        {"id": "b", "title": "blue lamp", "body": "another lamp and a lamp", "clicks": 2.5},
        {"id": "c", "title": "chair", "body": "no lamp"},
    ]
    build_index(pages, tmp_path / "shop")
    return tmp_path / "shop"


TOML = """
letor = true
normalize = "minmax"

[[feature]]
name = "clicks"
kind = "stored"
key = "clicks"
default = -1

[[feature]]
name = 'flat "BM25"'
kind = "bm25-robertson"
field = "title"
k1 = 2.0
b = 0
"""


def test_a_toml_table_adds_features_and_is_written_as_it_is_read(shop, tmp_path):
    (tmp_path / "f.toml").write_text(TOML)
    features = Features.read(tmp_path / "f.toml")
    assert features.names[46:] == ("clicks", 'flat "BM25"')
    assert Features.from_toml(features.to_toml()) == features
    assert Features.of(tmp_path / "f.toml") == features
    only = features.keep(["clicks", "TF(body)"])
    assert Features.from_toml(only.to_toml()) == only
    index = open_index(shop)
    raw = Extractor(index, only).values("lamp", [0, 1, 2], normalize=False)
    assert raw.tolist() == [[7, 1], [2.5, 2], [-1, 1]]
    assert Extractor(index, only).values("lamp", [0, 1, 2])[:, 1].tolist() == [0, 1, 0]


def test_a_python_function_is_a_feature(shop):
    def length_of_title(query):
        assert (query.text, dict(query.terms)) == ("Lamps", {"lamp": 1})
        assert query.ids == ["c", "a"]
        return [len(kept["title"]) for kept in query.stored()]

    features = Features.letor().add("title letters", length_of_title).add("before", "score")
    found = Extractor(open_index(shop), features).values("Lamps", [2, 0], [0.5, 2.0])
    assert found[:, 46:].tolist() == [[5, 0.5], [8, 2]]
    with pytest.raises(ValueError, match=r"'title letters' is a Python function, which no file can hold.*'stored'"):
        features.to_toml()
    with pytest.raises(ValueError, match=r"'bad': expected one number per document \(2\).*shape \(3,\)"):
        Extractor(open_index(shop), Features.letor().add("bad", lambda query: [1, 2, 3])).values("lamp", [0, 1])


def test_every_feature_explains_itself(shop):
    index = open_index(shop)
    features = Features.letor().add("clicks", "stored", key="clicks")
    extractor = Extractor(index, features)
    found = extractor.explain("lamp chair", 1)
    assert [one.value for one in found] == extractor.values("lamp chair", [1])[0].tolist()
    by_name = {one.name: one for one in found}
    bm25 = by_name["BM25(body)"]
    assert bm25.inputs == {"N": 3, "dl": 3, "k1": 1.2, "b": 0.75, "avgdl": 5 / 3}
    assert bm25.terms == {"lamp": {"tf": 2, "df": 3, "cf": 4}, "chair": {"tf": 0, "df": 0, "cf": 0}}
    idf = np.log(1 + 0.5 / 3.5)
    assert bm25.value == pytest.approx(idf * 2 / (2 + 1.2 * (0.25 + 0.75 * 3 / (5 / 3))))
    assert "BM25(body) = " in bm25.sentence()
    assert "lamp: tf 2, df 3, cf 4" in bm25.sentence()
    assert by_name["clicks"].inputs == {"key": "clicks"}
    assert by_name["LMIR.DIR(whole)"].inputs["mu"] == 2000
    assert all(one.formula for one in found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[feature]]\nname = 'x'\nkind = 'bm52'\nfield = 'body'", "kind must be one of .* got 'bm52'"),
        ("[[feature]]\nname = 'x'\nkind = 'bm25'", "field must be one of .* got None"),
        ("[[feature]]\nname = 'x'\nkind = 'bm25'\nfield = 'body'\nmu = 1", "setting must be one of k1, b"),
        ("[[feature]]\nname = 'x'\nkind = 'bm25'\nfield = 'body'\nb = 2", "b must be a number from 0 to 1"),
        ("[[feature]]\nname = 'x'\nkind = 'stored'", "kind stored needs key"),
        ("[[feature]]\nname = 'x'\nkind = 'fact'\nfact = 'rank'", "fact must be one of pagerank"),
        ("[[feature]]\nname = 'x'\nkind = 'feedback'\nfield = 'body'\nterms = 0", "terms must be an integer from 1"),
        ("[[feature]]\nname = 'x'\nkind = 'feedback'\nfield = 'anchor'", "anchor is not among them"),
        ("[[feature]]\nname = 'x'\nkind = 'bigrams'\nfield = 'body'\nb = 7", "b must be a number from 0 to 1"),
        ("[[feature]]\nname = 'x'\nkind = 'score'\nfield = 'body'", "is not about a field"),
        ("[[feature]]\nname = 'x'\nkind = 'function'", "cannot be declared in a file"),
        ("[[feature]]\nkind = 'score'", "needs name"),
        ("letor = true\n[[feature]]\nname = 'PageRank'\nkind = 'score'", "'PageRank' is declared more than once"),
        ("letor = 3", "letor must be true or false"),
        ("normalise = 'x'", "Did you mean 'normalize'"),
        ("letor = true\nnormalize = 'x'", "normalize must be one of minmax"),
        ("letor = false", "at least one feature"),
        ("letor = ", "f.toml"),
    ],
)
def test_bad_declarations_are_named(tmp_path, text, message):
    (tmp_path / "f.toml").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        Features.read(tmp_path / "f.toml")
    assert "f.toml" in str(caught.value)


def test_stored_values_must_be_numbers(tmp_path):
    build_index([{"id": "a", "body": "x", "clicks": "many"}], tmp_path / "i")
    build_index([{"id": "a", "body": "x", "clicks": 3}], tmp_path / "j", keep_texts=False)
    features = Features([Feature("clicks", "stored", settings={"key": "clicks"})])
    with pytest.raises(ValueError, match=r"clicks of document 'a' is 'many'; expected a finite number"):
        Extractor(open_index(tmp_path / "i"), features).values("x", [0])
    with pytest.raises(ValueError, match="keep_texts=False"):
        Extractor(open_index(tmp_path / "j"), features).values("x", [0])
    with pytest.raises(ValueError, match="documents must be numbers from 0 to 0"):
        Extractor(open_index(tmp_path / "i"), Features()).values("x", [1])


LARGEST = (2 - 2**-23) * 2**127  # of float32


BEYOND = {"1e300": 1e300, "-1e300": -1e300, "400 digits": 10**400, "negative": -(10**400), "twice": int(LARGEST) * 2}


@pytest.mark.parametrize("value", [*BEYOND.values(), float("inf"), float("nan")], ids=[*BEYOND, "inf", "nan"])
def test_a_stored_number_beyond_float32_is_an_error_that_names_the_document(tmp_path, value):
    build_index([{"id": "a", "body": "x", "clicks": 3}, {"id": "b", "body": "x", "clicks": value}], tmp_path / "i")
    features = Features([Feature("clicks", "stored", settings={"key": "clicks"})])
    with pytest.raises(ValueError, match=r"clicks of document 'b' is .*; expected a finite number") as caught:
        Extractor(open_index(tmp_path / "i"), features).values("x", [0])
    assert len(str(caught.value)) < 220  # not all digits


@pytest.mark.parametrize("value", [LARGEST, -LARGEST, int(LARGEST), 10**38, 1e-300, 0, True])
def test_any_stored_number_within_float32_is_a_finite_feature(tmp_path, value):
    build_index([{"id": "a", "body": "x", "clicks": value}, {"id": "b", "body": "x"}], tmp_path / "i")
    for normalize in (None, "minmax"):
        features = Features([Feature("clicks", "stored", settings={"key": "clicks", "default": -LARGEST})], normalize)
        found = Extractor(open_index(tmp_path / "i"), features).values("x", [0, 1])
        assert np.isfinite(found).all()
    with pytest.raises(ValueError, match="default must be a finite number"):
        Feature("clicks", "stored", settings={"key": "clicks", "default": 10**400})


def test_terms_count_65535_times_per_field_and_further_occurrences_have_no_position(tmp_path):
    """65,600 times x: the phrase at its last occurrence is not found, that of a word behind position 65,535 is."""
    build_index([("a", "x " * 65_600 + "speed light"), ("b", "x speed light")], tmp_path / "i", language="none")
    index = open_index(tmp_path / "i")
    assert set(index.search('"speed light"').ids) == {"a", "b"}
    assert index.search('"x speed"').ids == ["b"]
    features = Features()
    found = Extractor(index, features).values("x speed", [0, 1])
    assert np.isfinite(found).all()
    values = dict(zip(features.names, found[0].tolist()))
    assert (values["TF(body)"], values["DL(body)"]) == (65_535 + 1, 65_600 + 2)


def test_an_index_without_candidates_or_fields_has_features_of_0(tmp_path):
    build_index([("a", "x y"), ("b", "")], tmp_path / "i", language="none")
    extractor = Extractor(open_index(tmp_path / "i"), Features())
    assert extractor.values("x", []).shape == (0, 46)
    found = dict(zip(extractor.features.names, extractor.values("nothing known", [0, 1]).T.tolist()))
    assert {name for name, values in found.items() if any(values)} == {"DL(body)", "DL(whole)", "PageRank"}
    assert found["PageRank"] == [0.5, 0.5]
    assert extractor.values("?!", [0]).sum() == 4.5  # no terms at all: two lengths of 2 and PageRank
