"""Model files of SVMlight: read as written, and errors that name the line."""

import numpy as np
import pandas
import pytest
from exchange.forests import random_model

import podium
from podium.exchange import read, verify
from podium.exchange.engines import svmlight as engine
from podium.exchange.engines.svmlight import SvmlightModel, read_svmlight_model, write_svmlight_model
from podium.formats.errors import FormatError
from podium.models.imported import ImportedLinear

SVMRANK = """SVM-light Version V6.20
0 # kernel type
3 # kernel parameter -d 
1 # kernel parameter -g 
1 # kernel parameter -s 
1 # kernel parameter -r 
empty# kernel parameter -u 
5 # highest feature index 
12 # number of training documents 
2 # number of support vectors plus 1 
0 # threshold b, each following line is a SV (starting with alpha*y)
1 1:1.5 2:-0.25 5:3e-2 #
"""  # noqa: W291 (the program writes spaces at the ends of lines)


def test_a_file_of_svmrank_is_one_vector_with_factor_1(tmp_path):
    (tmp_path / "model.dat").write_text(SVMRANK)
    model = read_svmlight_model(tmp_path / "model.dat")
    assert (model.kernel, model.threshold, model.factors.tolist()) == ("linear", 0.0, [1.0])
    assert model.vectors.tolist() == [[1.5, -0.25, 0.0, 0.0, 0.03]]


@pytest.mark.parametrize("kernel", ["linear", "polynomial", "gaussian", "sigmoid"])
def test_what_is_written_is_read_again_number_by_number(rng, tmp_path, kernel):
    vectors = rng.standard_normal((7, 4)) * (rng.random((7, 4)) < 0.6)
    model = SvmlightModel(kernel, rng.standard_normal(7), vectors, -0.1, degree=2, gamma=1 / 3, constant=1e-17)
    write_svmlight_model(tmp_path / "m.dat", model)
    again = read_svmlight_model(tmp_path / "m.dat")
    np.testing.assert_array_equal(again.vectors, vectors)
    np.testing.assert_array_equal(again.factors, model.factors)
    same = "kernel", "threshold", "degree", "gamma", "constant"
    assert [getattr(again, name) for name in same] == [getattr(model, name) for name in same]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("SVM-light Version V6.20", "tree", r'm.dat, line 1: expected "SVM-light Version ...", found \'tree\''),
        ("0 # kernel type", "4 # kernel type", "kernel type must be an integer from 0 to 3; got 4"),
        ("3 # kernel parameter -d", "3", r'line 3: expected "VALUE # kernel parameter -d", found \'3\s*\''),
        ("5 # highest", "x # highest", "line 8: expected a number before # highest feature index, found 'x '"),
        ("5 # highest", "4 # highest", "line 12: features must be from 1 to 4; found"),
        ("5 # highest", "2147483647 # highest", "1 vectors of 2147483647 features cannot be held in memory"),
        ("2 # number of s", "3 # number of s", "expected 2 vectors, found 1. Is the file cut short"),
        ("2 # number of s", "1 # number of s", "line 12: expected 0 vectors, found more"),
        ("2:-0.25", "2:", r'line 12: expected "FACTOR FEATURE:VALUE ..." in rising order'),
        ("2:-0.25", "1:-0.25", "in rising order"),
        ("2:-0.25", "0x2:1", "in rising order"),
        ("1 1:1.5", "nan 1:1.5", "in rising order"),
    ],
)
def test_errors_name_what_was_expected_and_where(tmp_path, old, new, message):
    assert old in SVMRANK
    (tmp_path / "m.dat").write_text(SVMRANK.replace(old, new, 1))
    with pytest.raises(FormatError, match=message):
        read_svmlight_model(tmp_path / "m.dat")


# --- as a format of models


def test_files_are_recognised_and_give_the_model_that_they_are(rng, tmp_path):
    X, y = rng.standard_normal((60, 4)), rng.integers(0, 3, 60)
    for model in (podium.RankSVM(), podium.KernelRankSVM(gamma=0.5)):
        model.fit(X, y, qid=np.arange(60) // 6).write_svmlight(tmp_path / "m.dat")
        imported = read(tmp_path / "m.dat")
        assert type(imported.model) is type(model)
        np.testing.assert_allclose(imported.model.predict(X), model.predict(X), rtol=1e-6, atol=1e-9)
        assert imported.model.fit(X, y, qid=np.arange(60) // 6)


@pytest.mark.parametrize("intercept", [0.0, 0.75])
def test_linear_models_are_exported_with_their_weights(intercept, rng, tmp_path):
    model = ImportedLinear.of(rng.standard_normal(5), intercept, "test", names=list("abcde"))
    report = model.export(tmp_path / "m.dat", "svmlight", golden=tmp_path / "rows.jsonl")
    again = read(tmp_path / "m.dat").model
    np.testing.assert_array_equal(again.coef_, model.coef_)
    assert again.intercept_ == intercept
    X = rng.standard_normal((20, 5)).astype(np.float32)
    sums = X.astype(np.float64) @ model.coef_.astype(np.float32).astype(np.float64) + intercept
    np.testing.assert_allclose(report.expected(X), sums, rtol=1e-12)
    table = pandas.DataFrame(X, columns=list("abcde"))
    assert report.claim.holds(model.predict(table), report.expected(X)).all()
    assert report.notes == ("names of features are not in the file",)
    with pytest.raises(ValueError, match="no program for SVMlight's text can be asked from Python"):
        verify(model, tmp_path / "m.dat")


def test_a_ranksvm_is_exported_as_write_svmlight_writes_it(rng, tmp_path):
    X, y = rng.standard_normal((60, 4)), rng.integers(0, 3, 60)
    model = podium.RankSVM().fit(X, y, qid=np.arange(60) // 6)
    model.export(tmp_path / "a.dat", "svmlight")
    model.write_svmlight(tmp_path / "b.dat")
    assert (tmp_path / "a.dat").read_bytes() == (tmp_path / "b.dat").read_bytes()


def test_what_is_not_linear_is_refused(tmp_path):
    with pytest.raises(ValueError, match="A file of SVMlight holds linear models; this model is one of trees"):
        random_model(1).export(tmp_path / "m.dat", "svmlight")
    with pytest.raises(ValueError, match=r"weight of feature 'feature 2' is larger than float32 can be"):
        ImportedLinear.of(np.array([1.0, 1e300]), 0.0, "test").export(tmp_path / "m.dat", "svmlight")
    assert not (tmp_path / "m.dat").exists()


def test_a_short_file_cannot_ask_for_much_memory():
    text = SVMRANK.replace("5 # highest", "99999999 # highest")
    with pytest.raises(ValueError, match="1 vectors of 99999999 features cannot be held in memory"):
        engine.read(text.encode())
    with pytest.raises(ValueError, match="expected 999999 vectors, found fewer lines"):
        engine.read(SVMRANK.replace("2 # number of s", "1000000 # number of s").encode())


@pytest.mark.parametrize("kernel", ["0", "2"])
def test_numbers_that_overflow_are_refused(kernel):
    text = SVMRANK.replace("0 # kernel type", f"{kernel} # kernel type").replace("\n1 1:1.5", "\n1e200 1:1e200")
    with pytest.raises(ValueError, match=r"is not finite|too large for float32"):
        engine.read(text.encode())
