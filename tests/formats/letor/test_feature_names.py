"""Names of features in LETOR text: a comment before the rows, a file of names, a declaration beside the file."""

import gzip
import re

import numpy as np
import pytest

import podium
from podium import RankingData, read_letor
from podium.formats import read_data
from podium.formats.errors import FormatError

ROWS = "1 qid:1 1:0.5 2:2\n0 qid:1 1:0.25 2:1\n"
HEADER = '# features: ["BM25(title)", "Page \\"Rank\\" é"]\n'
NAMES = ("BM25(title)", 'Page "Rank" é')


def written(folder, text, name="t.txt"):
    (folder / name).write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return folder / name


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "t", "t.svm"])
@pytest.mark.parametrize("before", ["", "# made by hand\n\n", "\ufeff", "# features: 46\n"])
def test_a_comment_before_the_rows_names_the_features(tmp_path, name, before):
    data = read_letor(written(tmp_path, before + HEADER + ROWS, name))
    assert data.feature_names == NAMES
    assert data.X.tolist() == [[0.5, 2], [0.25, 1]]


@pytest.mark.parametrize("sparse", [True, False])
@pytest.mark.parametrize("labels", [[1, 0, 2], None])
def test_any_names_are_read_back(tmp_path, sparse, labels):
    names = ["BM25(title)", "a, b", 'say "x"', "é\n#", "\\"]
    data = RankingData.from_arrays(np.eye(3, 5), labels, [1, 1, 2], feature_names=names)
    podium.formats.letor.write_letor(data, tmp_path / "t.txt", sparse=sparse)
    again = read_data(tmp_path / "t.txt", labels="optional")
    assert again.feature_names == tuple(names)
    assert (again.y is None) == (labels is None)
    np.testing.assert_array_equal(again.X, data.X)


def test_names_say_how_many_features_there_are(tmp_path):
    """Sparse text may leave out the last ones."""
    data = read_letor(written(tmp_path, '# features: ["a", "b", "c"]\n' + ROWS))
    assert data.X.tolist() == [[0.5, 2, 0], [0.25, 1, 0]]
    for text in ('# features: ["a"]\n' + ROWS, '# features: ["a"]\n0 qid:1 1:1\n' * 1 + ROWS.replace("qid:1", "qid:2")):
        with pytest.raises(FormatError, match="rows have 2 features, and the comment before them names 1"):
            read_letor(written(tmp_path, text))


@pytest.mark.parametrize("list", ['["a", "b"', '["a", "a"]', '["a", 2]', '["a", ""]', "[]"])
def test_a_comment_that_is_meant_to_have_names_and_does_not_is_refused(tmp_path, list):
    with pytest.raises(FormatError, match=r"line 2: expected names of features such as # features: \["):
        read_letor(written(tmp_path, f"# x\n# features: {list}\n{ROWS}"))


@pytest.mark.parametrize("name", ["t.txt", "t.txt.gz", "lgb"])
def test_a_declaration_beside_the_file_names_the_features(tmp_path, name):
    if name == "lgb":
        (tmp_path / "lgb.query").write_text("2\n")
        path = written(tmp_path, "1 0:0.5 1:2\n0 0:0.25 1:1\n", name)
    else:
        path = written(tmp_path, ROWS, name)
    beside = tmp_path / f"{name.removesuffix('.gz')}.features.toml"
    beside.write_text('letor = false\n[[feature]]\nname = "tf"\nkind = "tf"\n[[feature]]\nname = "df"\nkind = "df"\n')
    assert read_data(path).feature_names == ("tf", "df")
    beside.write_text('names = ["x", "y"]\nletor = true\n')
    assert read_data(path).feature_names == ("x", "y")
    beside.write_text('names = ["x"]\n')
    with pytest.raises(FormatError, match=r"has 2 features, and .*features.toml 1 name; expected one name per feature"):
        read_data(path)
    beside.write_text("names = 3\n")
    with pytest.raises(FormatError, match=re.escape(str(beside))):
        read_data(path)


def test_the_comment_goes_before_the_declaration_and_given_names_must_agree_with_both(tmp_path):
    path = written(tmp_path, HEADER + ROWS)
    (tmp_path / "t.txt.features.toml").write_text('names = ["x", "y"]\n')
    assert read_data(path).feature_names == NAMES
    assert read_data(path, names=NAMES).feature_names == NAMES
    with pytest.raises(FormatError, match=r"feature 1 is 'BM25.title.', that of names 'x'"):
        read_data(path, names=["x", "y"])
    with pytest.raises(FormatError, match=r"feature 1 is 'BM25.title.', that of .*features.toml 'x'"):
        read_data(path, names=tmp_path / "t.txt.features.toml")


def test_a_model_keeps_the_names_and_refuses_other_ones_by_name(tmp_path):
    data = read_letor(written(tmp_path, HEADER + ROWS))
    model = podium.MART(n_estimators=2, min_samples_leaf=1).fit(data)
    model.save(tmp_path / "m.podium")
    again = podium.load(tmp_path / "m.podium")
    assert tuple(again.feature_names_in_) == NAMES
    assert "BM25(title)" in str(again.inspect()) or "Rank" in str(again.inspect())
    swapped = read_data(written(tmp_path, ROWS), names=NAMES[::-1])
    with pytest.raises(ValueError, match=r"feature 1 is 'Page \"Rank\" é', that of the model 'BM25\(title\)'"):
        again.predict(swapped)


def test_the_largest_double_is_a_missing_value_with_one_warning(tmp_path):
    """Istella's files have it where a value is missing, in two ways of writing."""
    text = (
        "1 qid:1 1:1.79769e+308 2:1.7976931348623157e308\n0 qid:1 1:3.4028235e38 2:17976931348623157" + "0" * 292 + "\n"
    )
    with pytest.warns(UserWarning, match="the largest double, stands in 3 values; it is read as missing") as caught:
        data = read_letor(written(tmp_path, text))
    assert len(caught) == 1
    np.testing.assert_array_equal(data.X, np.array([[np.nan, np.nan], [3.4028235e38, np.nan]], np.float32))
    for value in ("1.79768e308", "-1.79769e308", "1e39", "1.8e308"):
        with pytest.raises(FormatError, match="not finite as float32"):
            read_letor(written(tmp_path, f"1 qid:1 1:{value}\n"))
