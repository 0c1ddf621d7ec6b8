"""Categories in ranking data: from tables and files to folds, models and back, with numbers of each data set's own."""

import csv
import gzip
import io

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array

import podium
from podium import RankingData
from podium.formats import format_of, read_data, write_data
from podium.formats.errors import FormatError

FILES = ["t.csv", "t.tsv", "t.csv.gz", "t.parquet", "t.podium-data"]
COLOURS = ["red", "green, light", 'b"lue', None, "red", "green, light"]
SIZES = [40, 38, 40, None, 38, 38]


def rows():
    """The values of a table, row by row: what it says, without numbers for names."""
    return [
        {"label": n % 3, "qid": n // 2, "a": n / 4, "colour": COLOURS[n], "b": -n, "size": SIZES[n]} for n in range(6)
    ]


def table(make=pd.DataFrame):
    columns = {name: [row[name] for row in rows()] for name in rows()[0]}
    return make(columns)


def words(data, column):
    """The names in a column, row by row, looked up by hand."""
    at = data.feature_names.index(column)
    known = data.categories[column]
    return [None if value != value else known[int(value)] for value in data.X[:, at].tolist()]


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_a_table_keeps_text_as_categories(tmp_path, name):
    data = RankingData.from_frame(table(), categorical=["size"])
    write_data(data, tmp_path / name)
    again = read_data(tmp_path / name, **({} if name.endswith("data") else {"categorical": ["size"]}))
    assert again.feature_names == ("a", "colour", "b", "size")
    for one in (data, again):
        assert one.categories == {"colour": ('b"lue', "green, light", "red"), "size": (38, 40)}
        assert (words(one, "colour"), words(one, "size")) == (COLOURS, SIZES)
        assert one.X[:, [0, 2]].tolist() == [[n / 4, -n] for n in range(6)]
    assert "categories" not in format_of(tmp_path / name).drops(data)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_every_kind_of_table_gives_and_takes_categories(make):
    data = RankingData.from_frame(table(make), categorical=["size"])
    assert data.categories == {"colour": ('b"lue', "green, light", "red"), "size": (38, 40)}
    for backend in ("pandas", "polars", "pyarrow"):
        again = RankingData.from_frame(data.to_frame(backend), categorical=["size"])
        assert again.categories == data.categories
        np.testing.assert_array_equal(again.X, data.X)


@pytest.mark.parametrize("suffix", ["txt", "csv"])
def test_formats_without_a_place_for_categories_say_so(tmp_path, suffix):
    data = RankingData.from_frame(table())
    if suffix == "txt":
        with pytest.warns(UserWarning, match="no place for categories"):
            write_data(data, tmp_path / "t.txt")
    assert ("categories" in format_of(f"t.{suffix}").drops(data)) == (suffix == "txt")


def test_a_csv_file_that_others_wrote_is_read_as_python_reads_it(tmp_path):
    """The oracle is csv.DictReader, and a dictionary of names in their order."""
    text = "qid,label,site,x\n1,0,b.org,1\n1,2,,nan\n2,1,a.org,\n2,0,NaN,4\n"
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress(text.encode()))
    data = read_data(tmp_path / "t.csv.gz")
    cells = [row["site"] for row in csv.DictReader(io.StringIO(text))]
    known = sorted({cell for cell in cells if cell and cell != "NaN"})
    assert data.categories == {"site": tuple(known)}
    assert words(data, "site") == [cell if cell in known else None for cell in cells]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "red"], r"line 3: column 'c': expected a finite number or an empty cell, found 'red'.*\['c'\]"),
        (["red", "1"], r"line 3: column 'c': expected text as above, such as 'red', found '1'.*--categorical c"),
        (["0,5", "0,7"], r"line 2: column 'c': expected a finite number or an empty cell, found '0,5'"),
        (["12%", "red"], "line 2: column 'c': expected a finite number"),
    ],
)
def test_text_among_numbers_is_refused_unless_it_is_asked_for(tmp_path, cells, message):
    lines = "".join(f'1,1,"{cell}",1\n' for cell in cells)
    (tmp_path / "t.csv").write_text(f"label,qid,c,x\n{lines}")
    with pytest.raises(FormatError, match=message):
        read_data(tmp_path / "t.csv")
    data = read_data(tmp_path / "t.csv", categorical=["c"])
    assert data.categories == {"c": tuple(sorted(cells))}
    assert read_data(tmp_path / "t.csv", drop=["c"]).feature_names == ("x",)


def test_ids_that_float32_would_merge_stay_apart(tmp_path):
    (tmp_path / "t.csv").write_text("label,qid,shop\n1,1,1700000001\n0,1,1700000000\n")
    data = read_data(tmp_path / "t.csv", categorical=["shop"])
    assert words(data, "shop") == [1700000001, 1700000000]


def test_a_column_of_titles_is_reported(tmp_path):
    lines = "".join(f"{n % 2},{n // 3},page {n},{n}\n" for n in range(60))
    (tmp_path / "t.csv").write_text(f"label,qid,title,x\n{lines}")
    with pytest.warns(UserWarning, match="'title' has 60 categories in 60 rows.*--drop title"):
        read_data(tmp_path / "t.csv")
    assert read_data(tmp_path / "t.csv", drop=["title"]).feature_names == ("x",)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"drop": ["colur"]}, "no column 'colur'; found: .*Did you mean 'colour'"),
        ({"drop": ["qid"]}, "column 'qid' is to be dropped, and to be used"),
        ({"categorical": ["qid"]}, "column 'qid' is categorical, but is no feature"),
        ({"categorical": ["size"], "drop": ["size"]}, "column 'size' is categorical, but is no feature"),
    ],
)
def test_columns_that_are_named_wrongly_are_refused(tmp_path, options, message):
    table().to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(FormatError, match=message):
        read_data(tmp_path / "t.csv", **options)


def test_a_category_that_would_read_back_as_missing_is_not_written(tmp_path):
    data = RankingData.from_arrays([[0]], [1], [1], feature_names=["c"], categories={"c": ["nan"]})
    with pytest.raises(ValueError, match="column 'c' has the category 'nan', which would be read as a missing value"):
        write_data(data, tmp_path / "t.csv")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("X", "categories", "message"),
    [
        ([[0], [2]], {"c": ["x", "y"]}, r"column 'c' must hold the places of its 2 categories, from 0, or NaN"),
        ([[0.5], [1]], {"c": ["x", "y"]}, "must hold the places"),
        ([[0], [1]], {"d": ["x", "y"]}, "categories: 'd' is not one of feature_names"),
        ([[0], [1]], {"c": ["x", "x"]}, "categories of 'c' must be distinct texts or numbers"),
        (csr_array([[0], [1]]), {"c": ["x", "y"]}, "a sparse X cannot have categories"),
    ],
)
def test_arrays_with_wrong_categories_are_refused(X, categories, message):
    with pytest.raises(ValueError, match=message):
        RankingData.from_arrays(X, [0, 1], [1, 1], feature_names=["c"], categories=categories)


def coloured(rng, colours, n=240):
    """Data whose labels follow the colour, not its place in the alphabet, read from a table."""
    names = rng.choice(colours, n)
    frame = pd.DataFrame({"label": np.isin(names, ["amber", "cyan", "7"]) * 1, "qid": np.arange(n) // 8})
    return frame.assign(noise=rng.random(n), colour=names)


ALL = ["amber", "blue", "cyan", "dun"]


def test_parts_of_data_keep_their_names_and_joined_data_number_them_again(rng):
    data = RankingData.from_frame(coloured(rng, ALL))
    assert data.subset([1]).categories == data.categories
    for train, test in data.folds(3):
        assert words(train, "colour") == [
            words(data, "colour")[row] for row in np.flatnonzero(np.isin(data.qid, train.qid))
        ]
        assert test.categories == data.categories
    other = coloured(rng, ["ash", "blue", "zinc"]).assign(qid=lambda frame: frame["qid"] + 1000)
    joined = RankingData.concat([data, RankingData.from_frame(other)])
    assert joined.categories == {"colour": ["amber", "ash", "blue", "cyan", "dun", "zinc"]}
    assert words(joined, "colour") == [*words(data, "colour"), *other["colour"]]
    numbers = RankingData.from_frame(other.assign(colour=1.0))
    with pytest.raises(
        ValueError, match=r"part 2 has numbers only, but another part has categories in column 'colour'"
    ):
        RankingData.concat([data, numbers])


def test_ranking_data_trains_scores_and_saves_as_the_table_does(rng, tmp_path):
    frame = coloured(rng, ALL)
    features, target = frame[["noise", "colour"]], (frame["label"], frame["qid"])
    few = {"n_estimators": 5, "min_samples_leaf": 5}
    by_table = podium.LambdaMART(categorical=["colour"], **few).fit(features, *target)
    data = RankingData.from_frame(frame)
    by_data = podium.LambdaMART(**few).fit(data, eval_set=data.subset([3, 4]))
    assert by_data.categories_ == by_table.categories_ == {"colour": ALL}
    by_data.save(tmp_path / "m.podium")
    other = RankingData.from_frame(coloured(rng, ALL[1:]))
    assert other.categories != data.categories
    expected = by_table.predict(pd.DataFrame({"noise": other.X[:, 0], "colour": words(other, "colour")}))
    for model in (by_data, podium.load(tmp_path / "m.podium")):
        np.testing.assert_array_equal(model.predict(features), by_table.predict(features))
        np.testing.assert_array_equal(model.predict(other), expected)
        assert model.score(data) == by_table.score(features, *target)
    more = podium.LambdaMART(**few).fit(data).fit_more(other, n_estimators=1)
    assert more.categories_ == {"colour": ALL}


def test_categories_that_a_model_does_not_know_are_counted_and_missing(rng):
    data = RankingData.from_frame(coloured(rng, ALL))
    model = podium.LambdaMART(n_estimators=3, min_samples_leaf=5).fit(data)
    new = pd.DataFrame({"qid": 1, "noise": [0.5, 0.5, 0.5], "colour": ["zinc", None, "ash"]})
    with pytest.warns(UserWarning, match=r"does not know, in 2 of 3 rows \('ash', 'zinc'\); they count as missing"):
        scores = model.predict(RankingData.from_frame(new, label=None))
    assert scores[0] == scores[1] == scores[2]


def test_numbers_and_text_of_one_name_are_the_same_category(rng):
    """CSV has no types, so 7 in one file and "7" in another are one name."""
    data = RankingData.from_frame(coloured(rng, ["7", "8", "x"]), categorical=["colour"])
    model = podium.LambdaMART(n_estimators=3, min_samples_leaf=5).fit(data)
    numbers = pd.DataFrame({"qid": 1, "noise": 0.5, "colour": [7, 8]})
    texts = numbers.assign(colour=["7", "8"])
    np.testing.assert_array_equal(
        model.predict(RankingData.from_frame(numbers, label=None, categorical=["colour"])),
        model.predict(RankingData.from_frame(texts, label=None, categorical=["colour"])),
    )


@pytest.mark.parametrize("kind", [podium.Linear, podium.RankSVM])
def test_models_of_numbers_refuse_categories_by_name(rng, kind):
    with pytest.raises(
        ValueError, match=f"{kind.__name__} needs numbers, and column 'colour' holds categories such as"
    ):
        kind().fit(RankingData.from_frame(coloured(rng, ALL)))


def test_numbers_in_place_of_categories_are_refused(rng):
    data = RankingData.from_frame(coloured(rng, ALL))
    model = podium.MART(n_estimators=2).fit(data)
    numbers = RankingData.from_arrays(data.X, data.y, data.qid, feature_names=data.feature_names)
    with pytest.raises(ValueError, match="the data has numbers only, but the model has categories in column 'colour'"):
        model.predict(numbers)
    with pytest.raises(ValueError, match=r"column 'colour' holds categories such as 'amber', and numbers in the model"):
        podium.MART(n_estimators=2).fit(numbers).predict(data)
