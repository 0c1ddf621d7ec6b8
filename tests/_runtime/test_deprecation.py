"""Old names keep working: the same result as the new name, and a DeprecationWarning at the line of the caller."""

import numpy as np
import pandas as pd
import pytest

from podium import RankingData, compare, evaluate
from podium.formats.tables import read_table

X, Y, QID, WEIGHT = [[1.0], [2.0], [3.0]], [0, 1, 2], [1, 1, 1], [1.0, 2.0, 0.5]
FRAME = pd.DataFrame({"label": Y, "qid": QID, "a": [1.0, 2.0, 3.0], "w": WEIGHT})


def weights_of(data):
    return data.sample_weight.tolist()


def table(folder):
    FRAME.to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


CALLS = {
    "from_arrays": lambda folder, name: weights_of(RankingData.from_arrays(X, Y, QID, **{name: WEIGHT})),
    "from_frame": lambda folder, name: weights_of(RankingData.from_frame(FRAME, **{name: "w"})),
    "a column": lambda folder, name: weights_of(RankingData.from_frame(FRAME.rename(columns={"w": name}))),
    "read_table": lambda folder, name: weights_of(read_table(table(folder), **{name: "w"})),
    "evaluate": lambda folder, name: dict(evaluate([3, 2, 1], Y, qid=QID, **{name: WEIGHT})),
    "attribute": lambda folder, name: getattr(RankingData.from_arrays(X, Y, QID, sample_weight=WEIGHT), name).tolist(),
}


@pytest.mark.parametrize("call", CALLS)
def test_document_weight_is_sample_weight_with_a_warning(call, tmp_path):
    expected = CALLS[call](tmp_path, "sample_weight")
    with pytest.warns(DeprecationWarning, match=r"document_weight is deprecated .* use sample_weight") as caught:
        assert CALLS[call](tmp_path, "document_weight") == expected
    assert [warning.filename for warning in caught] == [__file__]


def test_compare_takes_the_old_name_too():
    systems = {"a": np.array([1.0, 2.0, 3.0]), "b": np.array([3.0, 2.0, 1.0])}
    expected = compare(systems, Y, qid=QID, sample_weight=WEIGHT).as_dict()
    with pytest.warns(DeprecationWarning, match="document_weight is deprecated"):
        assert compare(systems, Y, qid=QID, document_weight=WEIGHT).as_dict() == expected


def test_both_names_at_once_are_refused():
    with pytest.raises(ValueError, match="got sample_weight and document_weight, its deprecated name"):
        RankingData.from_arrays(X, Y, QID, sample_weight=WEIGHT, document_weight=WEIGHT)
    both = FRAME.rename(columns={"w": "sample_weight"}).assign(document_weight=1.0)
    with pytest.raises(ValueError, match="got sample_weight and the column document_weight"):
        RankingData.from_frame(both)
