"""Model files of SVMlight: read as written, and errors that name the line."""

import numpy as np
import pytest

from podium.formats.errors import FormatError
from podium.formats.svmlight import SvmlightModel, read_svmlight_model, write_svmlight_model

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
