"""Data sets: found in every layout that publishers use, checked against what was published, explained where missing."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
from pathlib import Path

import pytest

import podium
from podium.lab.experiments.datasets import (
    DATASETS,
    Content,
    Dataset,
    content_of,
    find_dataset,
    layout_of,
    locate,
    overview,
)
from podium.lab.experiments.experiment import Experiment

ROW = "1 qid:{} 1:0.5\n"
MQ2008 = Path(os.environ.get("PODIUM_DATA", "")) / "MQ2008"


def write(path: Path, text: str = "1 qid:1 1:0.5\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    opener = {".xz": lzma.open, ".gz": gzip.open}.get(path.suffix, open)
    with opener(path, "wb") as file:  # type: ignore[operator]
        file.write(text.encode())


LAYOUTS = {
    "parts": ("mq2008", [f"MQ2008/S{i}.txt.xz" for i in range(1, 6)], 5),
    "folds": ("mslr-web10k", [f"mslr_web10k/Fold{i}/{p}.txt" for i in (1, 2) for p in ("train", "vali", "test")], 2),
    "nested": ("mq2007", [f"LETOR4.0/MQ2007/Fold{i}/{p}.txt.gz" for i in (1, 3) for p in ("train", "vali", "test")], 2),
    "yahoo": ("yahoo-set2", [f"Yahoo/set{i}.{p}.txt" for i in (1, 2) for p in ("train", "valid", "test")], 1),
    "prefixed": ("mq2008", [f"mq2008/Fold1/mq2008.{p}" for p in ("train", "vali", "test")], 1),
    "no validation": ("istella", ["istella-letor/full/train.txt", "istella-letor/full/test.txt"], 1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_data_sets_are_found_as_they_are_published(layout: str, tmp_path: Path) -> None:
    name, files, n_folds = LAYOUTS[layout]
    for file in files:
        write(tmp_path / file)
    write(tmp_path / "other" / "README.txt")
    found = find_dataset(name, tmp_path)
    assert len(found.folds.names) == n_folds
    used = {str(path.relative_to(tmp_path)) for path in found.files}
    assert used == {file for file in files if layout != "yahoo" or "set2" in file}
    if layout == "no validation":
        assert found.folds.folds[0].valid == ()
    elif layout == "yahoo":
        assert [path.name for path in found.folds.folds[0].valid] == ["set2.valid.txt"]


def test_a_data_set_that_is_missing_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        ValueError, match=r"mq2007: not found in the folder .* Download it by hand from https://.*MQ2007|mq2007"
    ):
        find_dataset("MQ2007", tmp_path)
    with pytest.raises(ValueError, match="Did you mean 'mslr-web10k'"):
        find_dataset("mslr-10k", tmp_path)
    monkeypatch.delenv("PODIUM_DATA", raising=False)
    with pytest.raises(ValueError, match="PODIUM_DATA, which is not set"):
        find_dataset("istella-s")
    (tmp_path / "MQ2007").mkdir()
    assert locate(DATASETS["mq2007"], tmp_path) is None
    assert layout_of(tmp_path) is None


def test_contents_are_compared_with_what_was_published(tmp_path: Path) -> None:
    texts = {f"S{i}": ROW.format(i) for i in range(1, 6)}
    contents = {name: Content(hashlib.sha256(text.encode()).hexdigest(), len(text)) for name, text in texts.items()}
    dataset = Dataset("tiny", "made here", "https://example.org", "free", features=1, contents=contents)
    for name, text in texts.items():
        write(tmp_path / "tiny" / f"{name}.txt.gz", text)
    found = locate(dataset, tmp_path)
    assert found is not None
    assert found.problems() == []
    assert content_of(found.files[0]) == contents["S1"]
    write(tmp_path / "tiny" / "S2.txt.gz", ROW.format(9))
    write(tmp_path / "tiny" / "S4.txt.gz", ROW.format(44))
    size, checksum = sorted(found.problems(), key=lambda text: "SHA-256" in text)
    assert "S4.txt.gz: expected 14 bytes of content but found 15" in size
    assert "S2.txt.gz: expected the SHA-256" in checksum


def test_the_overview_lists_what_is_known_and_what_was_found(tmp_path: Path) -> None:
    for i in range(1, 6):
        write(tmp_path / "MQ2008" / f"S{i}.txt")
    lines = {line["name"]: line for line in overview(tmp_path, check=True)}
    assert set(lines) == set(DATASETS)
    assert lines["mq2008"]["folds"] == ["1", "2", "3", "4", "5"]
    assert len(lines["mq2008"]["problems"]) == 5
    assert lines["mslr-web30k"]["folder"] is None
    assert "by hand" in lines["mslr-web30k"]["advice"]
    assert "--accept-licence" in lines["istella-s"]["advice"]


@pytest.mark.skipif(not MQ2008.is_dir(), reason="needs PODIUM_DATA with MQ2008")
def test_mq2008_is_as_published() -> None:
    found = find_dataset("mq2008")
    assert found.problems() == []
    fold = found.folds.load("4")
    assert fold.test is not None
    assert (fold.train.n_rows, fold.valid.n_rows, fold.test.n_rows) == (8514, 3635, 3062)
    assert fold.train.n_features == found.dataset.features
    queries = fold.train.n_queries + fold.valid.n_queries + fold.test.n_queries
    assert queries == found.dataset.queries
    assert fold.train.n_rows + fold.valid.n_rows + fold.test.n_rows == found.dataset.rows


# --- Internet Mathematics 2009: labels are fractions, the query id is a comment, no test part has labels --------------


def write_imat(root: Path, n_queries: int = 15) -> Path:
    """A file as its publisher writes it, converted as the advice says, and the folder of the data sets."""
    rows = [(q, d) for q in range(n_queries) for d in range(4)]
    lines = [f"{(q + 3 * d) % 5 / 2 + 0.07:.2f} {1 + d}:{q / 7:.6f} 245:0.5 # {q}\n" for q, d in rows]
    learning = root / "imat2009_learning.txt"
    write(learning, "".join(lines))
    (root / "sets" / "imat2009").mkdir(parents=True)
    data = podium.read_data(learning, format="letor-comments")
    podium.write_data(data, root / "sets" / "imat2009" / "train.txt")
    return root / "sets"


def test_a_data_set_without_labels_of_its_test_part_is_found_by_its_training_file(tmp_path: Path) -> None:
    root = write_imat(tmp_path)
    found = find_dataset("imat2009", root)
    assert [path.name for path in found.files] == ["train.txt"]
    lines = {line["name"]: line for line in overview(root)}
    assert lines["imat2009"]["advice"] is None
    assert "labels were not published" in lines["imat2009"]["note"]
    assert "Not known: checksums" in lines["imat2009"]["note"]
    missing = {line["name"]: line for line in overview(tmp_path / "nothing")}["imat2009"]
    assert "podium convert imat2009_learning.txt $PODIUM_DATA/imat2009/train.txt" in missing["advice"]
    assert (missing["features"], missing["queries"], missing["rows"]) == (245, 9_124, 97_290)
    assert missing["note"] == lines["imat2009"]["note"]
    assert lines["mq2007"]["note"] is None


@pytest.mark.parametrize("on", ["test", "valid"])
@pytest.mark.parametrize("by_folder", [False, True])
def test_its_experiments_divide_the_queries_of_the_training_file(
    on: str, by_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_imat(tmp_path)
    write(root / "imat2009" / "test.txt", "0 qid:999 245:1\n")  # without labels: a 0 stands for what is not known
    monkeypatch.setenv("PODIUM_DATA", str(root))
    data = {"name": "imat2009"} | ({"folder": str(root / "imat2009")} if by_folder else {})
    made = {"name": "x", "data": data, "models": {"Linear": {}}, "metrics": ["ndcg@10"], "on": on}
    folds = Experiment(**made, folds={"k": 3}).folds_in()
    assert folds.names == ("1", "2", "3")
    for name in folds.names:
        fold = folds.load(name)
        assert fold.test is not None
        parts = [set(part.query_ids.tolist()) for part in (fold.train, fold.valid, fold.test)]
        assert sorted(query for part in parts for query in part) == list(range(15))
        assert fold.train.n_features == 245
    with pytest.raises(ValueError, match="expected 'k-fold', because the test part of imat2009 has no labels"):
        Experiment(**made, folds={"kind": "given"}).folds_in()


def test_an_experiment_on_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PODIUM_DATA", str(write_imat(tmp_path)))
    text = 'name = "imat"\nmetrics = ["ndcg@10"]\ndata = { name = "imat2009" }\nfolds = { k = 3 }\n'
    write(tmp_path / "imat.toml", f"{text}[models.Linear]\nmax_iter = 3\n")
    outcome = podium.lab.run(tmp_path / "imat.toml", tmp_path / "results", n_jobs=1)
    assert len(outcome.results.runs) == 3
    assert not outcome.failures
