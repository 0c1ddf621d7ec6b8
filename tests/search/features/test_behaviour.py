"""Tables of behaviour: every value is that of the row with the same query and document, or the one that is declared."""

import math
from itertools import product

import numpy as np
import pytest
from collection import WORDS, index_of, random_documents

from podium import Cascade, Linear, Stage, load
from podium.formats.container import open_container
from podium.formats.errors import FormatError
from podium.formats.kinds import TABLE
from podium.search import Extractor, Feature, Features, IndexWriter, open_index
from podium.search.features import behaviour_files
from podium.search.features.behaviour import query_key

HISTORIES = ["built", "segments", "merged"]
BY = {"query_document": (True, True), "query": (True, False), "document": (False, True)}
# Each query in several spellings, of which the table and the search may have different ones.
SPELLINGS = [
    [f"{WORDS[0]} {WORDS[1]}", f"{WORDS[0].upper()}  {WORDS[1]} ", f"\t{WORDS[0].title()}\n{WORDS[1]}"],
    [f"{WORDS[2]} straße é", f"{WORDS[2]} STRASSE e\u0301", f" {WORDS[2].upper()}\u3000Straße É"],
    [WORDS[3], WORDS[3].upper(), f" {WORDS[3]} "],
    [f"{WORDS[1]} {WORDS[0]}"],
]


@pytest.fixture(scope="module")
def documents():
    return random_documents(np.random.default_rng(5), 40)


@pytest.fixture(scope="module")
def indexes(documents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("indexes")
    return {name: index_of(documents, folder / name, name, np.random.default_rng(6)) for name in HISTORIES}


def random_table(rng, by, names):
    """{(number of a query or None, document or None): two values} and the spellings of its queries."""
    with_query, with_document = BY[by]
    queries = range(len(SPELLINGS)) if with_query else [None]
    ids = [*rng.permutation(names)[:25].tolist(), "never indexed", 'd-1,"quoted"'] if with_document else [None]
    keys = [key for key in product(queries, ids) if rng.random() < 0.5] or [(queries[0], ids[0])]
    return {key: (float(np.float32(rng.normal())), float(rng.integers(0, 1000))) for key in keys}


def write_rows(path, rows, rng):
    spelt = {number: str(rng.choice(spellings)) for number, spellings in enumerate(SPELLINGS)}
    columns = {
        "query": [spelt.get(query, "-") for query, _ in rows],
        "clicks": [clicks for clicks, _ in rows.values()],
        "unused": ["x"] * len(rows),
        "document": [id or "-" for _, id in rows],
        "dwell": [dwell for _, dwell in rows.values()],
    }
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pyarrow.table(columns), path)
        return
    separator = "\t" if path.suffix == ".tsv" else ","
    quoted = [[f'"{str(cell).replace(chr(34), chr(34) * 2)}"' for cell in row] for row in zip(*columns.values())]
    path.write_text("\n".join(separator.join(row) for row in [list(columns), *quoted]), encoding="utf-8")


def declared(path, by, missing):
    features = Features((Feature("score", "score"),))
    for column in ("clicks", "dwell"):
        features = features.add(column, "table", file=str(path), by=by, column=column, missing=missing)
    return features.add("log of dwell", "log1p", of="dwell")


def expected(rows, by, query, id, missing):
    key = tuple(part if used else None for part, used in zip((query, id), BY[by]))
    clicks, dwell = rows.get(key, (missing, missing))
    return np.array([clicks, dwell, np.float32(math.log1p(np.float32(dwell)))], np.float32)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("by", BY)
def test_values_are_those_of_the_rows_wherever_the_documents_are(indexes, documents, tmp_path, by, seed):
    rng = np.random.default_rng([seed, len(by)])
    rows, missing = random_table(rng, by, list(documents)), [0.0, -0.5, 7.0, math.nan][seed]
    path = tmp_path / f"table.{['csv', 'tsv', 'parquet', 'csv'][seed]}"
    write_rows(path, rows, rng)
    features = declared(path, by, missing)
    path.unlink()  # what was declared was read
    for history, (number, spellings) in product(HISTORIES, enumerate(SPELLINGS)):
        index = indexes[history]
        ids = rng.permutation(list(documents)).tolist()
        numbers = [index.number(id) for id in ids]
        text = str(rng.choice(spellings))
        extractor = Extractor(index, features)
        values = extractor.values(text, numbers)
        wanted = [expected(rows, by, number, id, missing) for id in ids]
        np.testing.assert_array_equal(values[:, 1:], wanted)
        explained = {one.name: one for one in extractor.explain(text, numbers[0])}
        np.testing.assert_array_equal([explained[name].value for name in features.names[1:]], wanted[0])
        key = tuple(part if used else None for part, used in zip((number, ids[0]), BY[by]))
        assert explained["clicks"].inputs["seen"] == (key in rows)
        assert explained["clicks"].formula.endswith(": clicks")


@pytest.mark.parametrize("by", BY)
def test_a_saved_cascade_needs_no_other_file_and_ranks_in_the_same_way(indexes, documents, tmp_path, by):
    rng = np.random.default_rng(len(by))
    rows = random_table(rng, by, list(documents))
    write_rows(tmp_path / "table.csv", rows, rng)
    queries = {f"q{number}": spellings[0] for number, spellings in enumerate(SPELLINGS)}
    qrels = {name: {id: int(rng.integers(0, 3)) for id in documents} for name in queries}
    reference = None
    for history in HISTORIES:
        empty = Cascade(indexes[history], Stage(features=declared(tmp_path / "table.csv", by, 0.0), n=30))
        data = empty.training_data(queries, qrels, n_jobs=3)
        by_document = {(str(q), id): X.tobytes() for q, id, X in zip(data.qid, data.docids, data.X)}
        reference = reference or by_document
        assert by_document == reference
        cascade = empty.with_model(Linear().fit(data))
        cascade.save(tmp_path / history)
    (tmp_path / "table.csv").unlink()
    for history in HISTORIES:
        loaded = load(tmp_path / history)
        loaded.save(tmp_path / f"{history} again")
        for found in (loaded, load(tmp_path / f"{history} again")):
            searched = found.search_many([spellings[-1] for spellings in SPELLINGS], 30, n_jobs=2)
            alone = [found.search(text, 30) for text in queries.values()]
            assert [hits.scores for hits in searched] == [hits.scores for hits in alone]
            online = {(name, *pair) for name, hits in zip(queries, alone) for pair in zip(hits.ids, hits.scores)}
            assert online == set(zip(map(str, data.qid), data.docids, found.stages[0].model.predict(data)))
            explained = found.explain(queries["q0"], 3).hits
            assert {share.name for hit in explained for share in hit.features} == set(data.feature_names)
    stored = sorted(path.name for path in (tmp_path / "built").glob("*.podium-table"))
    assert stored == ["table-1.podium-table"]  # both columns


def test_replaced_deleted_and_merged_documents_keep_the_values_of_their_id(tmp_path):
    (tmp_path / "t.csv").write_text("document,sales\na,1\nb,2\nc,3\n")
    features = Features((Feature("sales", "table", settings=table_settings(tmp_path / "t.csv", by="document")),))
    with IndexWriter(tmp_path / "ix") as writer:
        writer.add_all([("a", "word"), ("b", "word"), ("x", "word")])

    def values():
        index = open_index(tmp_path / "ix")
        hits = index.search("word", 10)
        return dict(zip(hits.ids, Extractor(index, features).values("word", hits.documents)[:, 0].tolist()))

    assert values() == {"a": 1, "b": 2, "x": -9}
    with IndexWriter(tmp_path / "ix") as writer:
        writer.add(("b", "another word"))
        writer.delete("a")
        writer.add(("c", "word"))
    assert values() == {"b": 2, "c": 3, "x": -9}
    with IndexWriter(tmp_path / "ix") as writer:
        writer.add(("a", "word"))
        writer.merge()
    assert values() == {"a": 1, "b": 2, "c": 3, "x": -9}


def table_settings(path, **changes):
    return {"file": str(path), "by": "document", "column": "sales", "missing": -9} | changes


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("document,sales\na,1\nb,2\na,3\n", {}, r"t\.csv, line 4: document 'a': the table has them already, in line 2"),
        ("query,sales\nx Y,1\nX  y,2\n", {"by": "query"}, r"t\.csv, line 3: query 'x y': .* in line 2"),
        (
            "query,document,sales\nx,a,1\nx,b,1\nX,a,2\n",
            {"by": "query_document"},
            r"line 4: query 'x' and document 'a': .* in line 2",
        ),
        ("document,sales\na,\n", {}, r"line 2: column 'sales': expected a finite number, found ''"),
        ("document,sales\na,1\nb,nan\n", {}, r"line 3: column 'sales': expected a finite number, found 'nan'"),
        ("document,sales\na,inf\n", {}, r"line 2: column 'sales'"),
        ("document,sales\na,1e39\n", {}, r"line 2: .*float32"),
        ("document,sales\na,many\n", {}, r"line 2: column 'sales': expected a finite number, found 'many'"),
        ("document,sales\n,1\n", {}, r"line 2: document: the id must be text that is not empty"),
        ("query,sales\n  ,1\n", {"by": "query"}, r"line 2: query: expected the text of a query"),
        ("document,sale\na,1\n", {}, r"there is no column 'sales'; found: document, sale\. Did you mean 'sale'\?"),
        ("docment,sales\na,1\n", {}, r"no column 'document'; .*Did you mean 'docment'\?"),
        ("document,sales\n", {}, "has no rows"),
        ("", {}, "is empty"),
        ("document,sales\na,1,2\n", {}, "line 2: expected 2 columns, found 3"),
        ("document,sales\na,1\n", {"by": "documents"}, "by must be one of .*Did you mean 'document'"),
        ("document,sales\na,1\n", {"missing": math.inf}, "missing must be a finite number"),
        ("document,sales\na,1\n", {"missing": "0"}, "missing must be a finite number"),
        ("document,sales\na,1\n", {"query": "text"}, "a table by document has no column of query"),
        ("document,sales\na,1\n", {"digest": "0" * 32}, "has other values than when the feature was declared"),
        ("document,sales\na,1\n", {"mising": 3}, "setting must be one of .*Did you mean 'missing'"),
    ],
)
def test_faults_of_tables_and_declarations_are_named(tmp_path, text, changes, message):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        Feature("sales", "table", settings=table_settings(tmp_path / "t.csv", **changes))


def test_what_is_taken_for_the_unseen_must_be_stated(tmp_path):
    (tmp_path / "t.csv").write_text("document,sales\na,1\n")
    settings = table_settings(tmp_path / "t.csv")
    del settings["missing"]
    with pytest.raises(ValueError, match="kind table needs missing"):
        Feature("sales", "table", settings=settings)
    with pytest.raises(FileNotFoundError, match=r"gone\.csv: there is no such table"):
        Feature("sales", "table", settings=table_settings(tmp_path / "gone.csv"))


def test_a_table_has_a_largest_number_of_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(behaviour_files, "MOST_ROWS", 2)
    (tmp_path / "t.csv").write_text("document,sales\na,1\nb,2\n")
    Feature("sales", "table", settings=table_settings(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_text("document,sales\na,1\nb,2\nc,3\n")
    with pytest.raises(FormatError, match="more than 2 rows"):
        Feature("sales", "table", settings=table_settings(tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"document": ["a", None], "sales": [1, 2]}, r"row 2: column 'document': expected text or an integer"),
        ({"document": [1.5], "sales": [1]}, r"row 1: column 'document'"),
        ({"document": ["a", "b"], "sales": [1, None]}, r"row 2: column 'sales': expected a finite number, found None"),
        ({"document": ["a", "b"], "sales": [1.0, math.inf]}, r"row 2: column 'sales'"),
        ({"document": ["a"], "sales": ["1"]}, "column 'sales' has the type string; expected numbers"),
        ({"document": ["7", 7][:1] * 2, "sales": [1, 2]}, r"t\.parquet, row 2: document '7': .* in row 1"),
    ],
)
def test_faults_of_parquet_are_named_by_row(tmp_path, columns, message):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(columns), tmp_path / "t.parquet")
    with pytest.raises(FormatError, match=message):
        Feature("sales", "table", settings=table_settings(tmp_path / "t.parquet"))


def test_integers_are_ids_and_keys_may_have_other_names(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pyarrow.table({"sku": [12, 7], "sales": [True, False]}), tmp_path / "t.parquet")
    index = index_of({"7": {"body": "x"}, "12": {"body": "x"}}, tmp_path / "ix", "built", None)
    features = Features((Feature("s", "table", settings=table_settings(tmp_path / "t.parquet", document="sku")),))
    assert Extractor(index, features).values("x", [0, 1])[:, 0].tolist() == [1, 0]  # 12 is before 7, as text


def test_a_declaration_names_tables_beside_it_and_notices_other_values(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "t.csv").write_text("document,sales\na,1\n")
    text = '[[feature]]\nname = "s"\nkind = "table"\nfile = "t.csv"\nby = "document"\ncolumn = "sales"\nmissing = nan\n'
    (tmp_path / "data" / "f.toml").write_text(text)
    features = Features.read(tmp_path / "data" / "f.toml")
    assert Features.from_toml(features.to_toml()) == features
    monkeypatch.chdir(tmp_path / "data")
    assert Features.from_toml(text) == features
    (tmp_path / "data" / "t.csv").write_text("document,sales\na,1.0\n")  # the same value
    assert Features.from_toml(features.to_toml()) == features
    (tmp_path / "data" / "t.csv").write_text("document,sales\na,2\n")
    with pytest.raises(FormatError, match="has other values than when the feature was declared"):
        Features.from_toml(features.to_toml())
    assert Features.from_toml(text) != features


def test_tables_with_equal_keys_are_stored_once_and_columns_of_one_name_stay_apart(tmp_path):
    for name, sales in (("one", 1), ("two", 2)):
        (tmp_path / f"{name}.csv").write_text(f"document,sales,returns\na,{sales},5\nb,9,6\n")
    index = index_of({name: {"body": "x " * n} for n, name in enumerate("abc", 1)}, tmp_path / "ix", "built", None)
    features = Features(
        tuple(
            Feature(f"{name} {column}", "table", settings=table_settings(tmp_path / f"{name}.csv", column=column))
            for name, column in (("one", "sales"), ("two", "sales"), ("two", "returns"), ("one", "returns"))
        )
    )
    empty = Cascade(index, Stage(features=features, n=3))
    data = empty.training_data({"q": "x"}, {"q": {"a": 1, "b": 2}})
    empty.with_model(Linear().fit(data)).save(tmp_path / "saved")
    assert len(list((tmp_path / "saved").glob("table-*"))) == 2
    with open_container(tmp_path / "saved" / "table-1.podium-table", TABLE) as file:
        assert [column["name"] for column in file.meta["columns"]] == ["sales", "returns"]
    rows = load(tmp_path / "saved").training_data({"q": "x"}, {"q": {"a": 1, "b": 2}})
    np.testing.assert_array_equal(rows.X, data.X)
    assert sorted(data.X.tolist()) == [[-9] * 4, [1, 2, 5, 5], [9, 9, 6, 6]]


@pytest.mark.parametrize("file", ["../t.csv", "t.csv", "/etc/hostname", "../other.podium-table"])
def test_a_saved_cascade_reads_tables_of_its_own_folder_only(tmp_path, file):
    (tmp_path / "t.csv").write_text("document,sales\na,1\nb,2\n")
    index = index_of({name: {"body": "x"} for name in "abc"}, tmp_path / "ix", "built", None)
    features = Features((Feature("s", "table", settings=table_settings(tmp_path / "t.csv")),))
    empty = Cascade(index, Stage(features=features, n=3))
    empty.with_model(Linear().fit(empty.training_data({"q": "x"}, {"q": {"a": 1}}))).save(tmp_path / "saved")
    declaration = tmp_path / "saved" / "stage-1.toml"
    declaration.write_text(declaration.read_text().replace("table-1.podium-table", file))
    with pytest.raises(FormatError, match=r"stage-1\.toml: feature 's': expected a table of this folder"):
        load(tmp_path / "saved")
    declaration.write_text(declaration.read_text().replace(file, "table-1.podium-table"))
    load(tmp_path / "saved")
    (tmp_path / "saved" / "table-1.podium-table").unlink()
    with pytest.raises(FileNotFoundError, match=r"table-1\.podium-table"):
        load(tmp_path / "saved")


def test_logarithms_are_those_of_raw_values_and_name_what_has_none(tmp_path):
    (tmp_path / "t.csv").write_text("document,sales\na,1\nb,7\nc,0\nd,-1\n")
    index = index_of({name: {"body": "x"} for name in "abcd"}, tmp_path / "ix", "built", None)
    base = Features((Feature("sales", "table", settings=table_settings(tmp_path / "t.csv")),), normalize="minmax")
    features = base.add("log", "log", of="sales").add("twice", "log1p", of="log")
    assert Features.from_toml(features.to_toml()) == features
    raw = Extractor(index, features).values("x", [0, 1], normalize=False)
    first = np.float32(math.log(7))
    np.testing.assert_array_equal(raw, np.float32([[1, 0, 0], [7, first, math.log1p(first)]]))
    np.testing.assert_array_equal(Extractor(index, features).values("x", [0, 1]), [[0, 0, 0], [1, 1, 1]])
    message = "feature 'log': log needs values above 0; 'sales' is 0 for document 'c' of query 'x'"
    with pytest.raises(ValueError, match=message):
        Extractor(index, features).values("x", [1, 2])
    message = r"log1p needs values above -1; 'sales' is -1 for document 'd' of query 'x'\.$"
    with pytest.raises(ValueError, match=message):
        Extractor(index, base.add("l", "log1p", of="sales")).values("x", [3])


def test_logarithms_are_of_features_declared_before(tmp_path):
    letor = Features.letor()
    message = r"of must name a feature that is declared before it; got 'Pagerank'\. Did you mean 'PageRank'\?"
    with pytest.raises(ValueError, match=message):
        letor.add("log", "log", of="Pagerank")
    with pytest.raises(ValueError, match="declared before it; got 'log'"):
        letor.add("log", "log", of="log")
    with pytest.raises(ValueError, match="kind log needs of"):
        letor.add("log", "log")
    with pytest.raises(ValueError, match="declared before it; got 'PageRank'"):
        letor.add("log", "log1p", of="PageRank").keep(["log"])


def test_keys_of_queries():
    assert query_key("  Running\tSHOES ") == "running shoes"
    assert query_key("\uff33\uff28\uff2f\uff25\uff33 Straße") == query_key("shoes STRASSE") == "shoes strasse"
    assert query_key("\ud800 x") == "\ufffd x"
    assert query_key("shoes-red") != query_key("shoes red")
