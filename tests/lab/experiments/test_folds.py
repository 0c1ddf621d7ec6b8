"""Folds: no query is in two parts of a fold, each query is tested once, and the rotation is LETOR's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import podium
from podium.lab.experiments.folds import FoldFiles, GivenFolds, QueryFolds, deal_queries, rotation


def write_part(path: Path, queries: range, n_features: int = 3, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    qid = np.repeat(np.array(queries), 4)
    X = rng.random((len(qid), n_features), dtype=np.float32) + 0.5
    podium.write_letor(podium.RankingData.from_arrays(X, rng.integers(0, 3, len(qid)), qid), path)
    return path


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("parts")
    return [write_part(folder / f"S{i}.txt", range(10 * i, 10 * i + 5 + i)) for i in range(1, 6)]


def ids(data: podium.RankingData | None) -> set[str]:
    return set() if data is None else set(map(str, data.query_ids))


def all_folds(parts: list[Path]) -> list[GivenFolds | QueryFolds]:
    held_out = GivenFolds((FoldFiles("1", tuple(parts[:3]), (), (parts[4],)),), seed=3)
    return [rotation(parts), held_out, *(QueryFolds(tuple(parts), k, seed) for k in (3, 5, 7) for seed in (0, 1))]


def test_no_query_is_in_two_parts_of_a_fold_and_none_is_lost(parts: list[Path]) -> None:
    everything = set().union(*(ids(podium.read_letor(path)) for path in parts))
    for folds in all_folds(parts):
        for name in folds.names:
            fold = folds.load(name)
            train, valid, test = ids(fold.train), ids(fold.valid), ids(fold.test)
            assert train
            assert valid
            assert test
            assert train.isdisjoint(valid) and train.isdisjoint(test) and valid.isdisjoint(test)  # noqa: PT018
            if not isinstance(folds, GivenFolds) or folds.folds[0].valid:
                assert train | valid | test == everything


def test_each_query_is_tested_once(parts: list[Path]) -> None:
    for folds in (rotation(parts), QueryFolds(tuple(parts), 4, 2)):
        tested = [query for name in folds.names for query in ids(folds.load(name).test)]
        validated = [query for name in folds.names for query in ids(folds.load(name).valid)]
        assert len(tested) == len(set(tested)) == 5 * 5 + 15 == len(set(validated)) == len(validated)


def test_the_rotation_is_that_of_letor(parts: list[Path]) -> None:
    found = {fold.name: [[path.stem for path in part] for part in fold_parts(fold)] for fold in rotation(parts).folds}
    assert found == {
        "1": [["S1", "S2", "S3"], ["S4"], ["S5"]],
        "2": [["S2", "S3", "S4"], ["S5"], ["S1"]],
        "3": [["S3", "S4", "S5"], ["S1"], ["S2"]],
        "4": [["S4", "S5", "S1"], ["S2"], ["S3"]],
        "5": [["S5", "S1", "S2"], ["S3"], ["S4"]],
    }
    fold = rotation(parts).load("2")
    assert fold.train.n_queries == 7 + 8 + 9
    assert ids(fold.test) == {str(query) for query in range(10, 16)}


def fold_parts(fold: FoldFiles) -> tuple[tuple[Path, ...], ...]:
    return fold.train, fold.valid, fold.test


def test_queries_are_dealt_out_evenly_and_by_the_seed() -> None:
    parts = deal_queries(23, 5, 1)
    assert sorted(np.bincount(parts)) == [4, 4, 5, 5, 5]
    assert (parts == deal_queries(23, 5, 1)).all()
    assert (parts != deal_queries(23, 5, 2)).any()


def test_a_query_in_two_files_is_refused(parts: list[Path], tmp_path: Path) -> None:
    same = write_part(tmp_path / "test.txt", range(12, 14))
    with pytest.raises(ValueError, match="query 12 is in train and in test"):
        GivenFolds((FoldFiles("1", (parts[0],), (parts[1],), (same,)),)).load("1")


def test_files_may_lack_their_last_features(parts: list[Path], tmp_path: Path) -> None:
    narrow = write_part(tmp_path / "narrow.txt", range(90, 92), n_features=2)
    fold = GivenFolds((FoldFiles("1", (parts[0],), (parts[1],), (narrow,)),)).load("1")
    assert fold.test is not None
    assert fold.test.n_features == fold.train.n_features == 3
    assert (fold.test.X[:, 2] == 0).all()


def test_the_test_part_is_not_read_where_nobody_may_see_it(parts: list[Path], tmp_path: Path) -> None:
    folds = GivenFolds((FoldFiles("1", (parts[0],), (parts[1],), (tmp_path / "nowhere.txt",)),))
    assert folds.load("1", test=False).test is None
    assert QueryFolds(tuple(parts), 4, 2).load("3", test=False).test is None
    with pytest.raises(FileNotFoundError):
        folds.load("1")


def test_wrong_folds_are_refused(parts: list[Path]) -> None:
    with pytest.raises(ValueError, match="fold must be one of 1, 2, 3"):
        QueryFolds(tuple(parts), 3).load("4")
    with pytest.raises(ValueError, match="to the number of queries, 40; got 50"):
        QueryFolds(tuple(parts), 50).load("4")
    with pytest.raises(ValueError, match="at least 3 parts"):
        rotation(parts[:2])
