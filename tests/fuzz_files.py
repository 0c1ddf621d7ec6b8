"""A structure-aware fuzzer for our files: edits to keys, values, dtypes, shapes and elements, with fitting checksums.

Run as a process of its own, so that a crash of the interpreter is seen: `fuzz_files.py KIND FOLDER SEED EDITS`, with
one of SUBJECTS below. It prints how many edited files were refused and how many were taken; anything but an error of
ours, or data that obey the laws below, ends it with a traceback.
"""

import copy
import faulthandler
import json
import math
import os
import resource
import shutil
import signal
import sys
import warnings
from collections import Counter
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
from families import NETS, TREE_MODELS

import podium
from podium.formats import container
from podium.formats.cache import read_cache, write_cache
from podium.formats.kinds import CASCADE, CHECKPOINT, DATA, INDEX, MODEL, SEGMENT, TABLE
from podium.models.registry import MODELS
from podium.models.trees.named import LambdaMART, LambdaSMART, MatrixNet, RandomForest

SECONDS = 20  # for one file: more is an endless loop
ROOM = 2 << 30  # bytes of memory beyond what the first files needed
SMALL = {"max_leaf_nodes": 5, "min_samples_leaf": 2, "max_bins": 8}
DEEP: list = []
for _ in range(300):
    DEEP = [DEEP]
HOSTILE = [
    *(None, True, False, 0, -1, 1, 7, 2**31, 2**62, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, -1e308, 5e-324),
    *("", "nan", "inf", "x", "\ud800", "0", "x" * 5000, [], {}, [[]], [None], [0], {"a": 1}, {"": []}, DEEP),
]
KINDS = [*MODELS, "", "Ranker", "object", 3, None, "x" * 500]


def rows(rng: np.random.Generator, n: int) -> np.ndarray:
    X = rng.normal(size=(n, 4)).astype(np.float32)
    X[:, 2] = rng.integers(0, 5, n)
    X[rng.random(X.shape) < 0.1] = np.nan
    return X


def training_data(rng: np.random.Generator) -> podium.RankingData:
    X = rows(rng, 60)
    y = np.nan_to_num(X[:, 0]).clip(0, 2).round() + (np.nan_to_num(X[:, 2]) == 3)
    return podium.RankingData.from_arrays(X, y, np.arange(60) // 6, feature_names=["a", "b", "colour", "d"])


def random_number(array: np.ndarray, rng: np.random.Generator):
    if array.dtype.kind == "f":
        return rng.choice([0, -1, np.nan, np.inf, -np.inf, 1e308, -1e308, 1e-300, 0.5, rng.normal()])
    if array.dtype.kind == "b":
        return bool(rng.integers(2))
    info = np.iinfo(array.dtype)
    return int(rng.choice([0, 1, info.max, info.min, info.max - 1, rng.integers(0, 20), rng.integers(0, info.max)]))


def edit_element(array, rng):
    array = array.copy()
    if array.size:
        place = np.unravel_index(int(rng.integers(array.size)), array.shape)
        array[place] = random_number(array, rng)
    return array


def edit_neighbour(array, rng):
    """One more or one less, or the value of another element: the edits that come closest to being right."""
    array = array.copy()
    if array.size:
        flat, place = array.reshape(-1), int(rng.integers(array.size))
        other = flat[int(rng.integers(array.size))]
        with np.errstate(all="ignore"):
            flat[place] = other if rng.random() < 0.5 or array.dtype.kind == "b" else flat[place] + rng.choice([1, -1])
    return array


def edit_dtype(array, rng):
    with np.errstate(all="ignore"):
        return array.astype(rng.choice([np.dtype(name) for name in container._DTYPES]))


def edit_bytes(array, rng):
    return array if array.dtype == bool or not array.size else array.view(rng.choice(same_size(array)))


def same_size(array):
    return [np.dtype(name) for name in container._DTYPES if np.dtype(name).itemsize == array.itemsize and name != "<b1"]


def edit_length(array, rng):
    flat = array.reshape(-1)
    if rng.random() < 0.5:
        return flat[: int(rng.integers(len(flat) + 1))]
    return np.concatenate([flat, flat[:1], flat[-1:]])


def edit_shape(array, rng):
    flat = array.reshape(-1)
    shapes = [(len(flat), 1), (1, len(flat)), (0, 2**40), (2**40, 0), (0,)]
    shape = shapes[int(rng.integers(len(shapes)))]
    return flat.reshape(shape) if math.prod(shape) == len(flat) else np.empty(shape, array.dtype)


def edit_order(array, rng):
    return rng.permutation(array.reshape(-1)).reshape(array.shape)


ARRAY_EDITS = (
    [edit_element] * 6 + [edit_neighbour] * 6 + [edit_dtype] * 3 + [edit_bytes, edit_length, edit_shape, edit_order]
)


def edit_arrays(arrays: dict, rng: np.random.Generator) -> None:
    name, choice = list(arrays)[int(rng.integers(len(arrays)))], rng.random()
    if choice < 0.03:
        del arrays[name]
    elif choice < 0.06:
        arrays[str(rng.choice(["other", f"init/{name}", f"{name}x", "eval_9/scores"]))] = arrays[name]
    elif choice < 0.1:
        arrays[name] = arrays[list(arrays)[int(rng.integers(len(arrays)))]]
    else:
        arrays[name] = ARRAY_EDITS[int(rng.integers(len(ARRAY_EDITS)))](arrays[name], rng)


def places_in(value, path=()):
    """Every place in nested lists and mappings."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from places_in(inner, (*path, key))


def at(value, path):
    for key in path:
        value = value[key]
    return value


def edit_meta(meta: dict, rng: np.random.Generator) -> None:
    places = list(places_in(meta))
    if not places:
        meta["other"] = 1
        return
    *path, last = places[int(rng.integers(len(places)))]
    target, choice = at(meta, path), rng.random()
    if choice < 0.1:
        del target[last]
    elif choice < 0.2 and isinstance(target, dict):
        target[str(rng.choice(["other", "n_jobs", "init", f"{last}x"]))] = target[last]
    elif choice < 0.35:
        target[last] = copy.deepcopy(at(meta, places[int(rng.integers(len(places)))]))
    elif choice < 0.5 and isinstance(target[last], (int, float)) and target[last] is not None:
        target[last] = target[last] + [1, -1, 0.5, 1e300][int(rng.integers(4))]
    else:
        target[last] = copy.deepcopy(HOSTILE[int(rng.integers(len(HOSTILE)))])


def read_parts(path: Path, kind):
    with container.open_container(path, kind) as opened:
        return opened.meta, opened.read_all()


def write_parts(path: Path, kind, meta, arrays) -> str:
    """A file with fitting checksums, whatever it says; returns its digest."""
    stored = {name: np.ascontiguousarray(array).reshape(array.shape) for name, array in arrays.items()}
    header = container._header(kind, meta, stored)
    body = b"".join(bytes(block) for array in stored.values() for block in container._blocks(array))
    preamble = container._preamble(kind, header, 64 + len(header) + len(body))
    path.write_bytes(preamble + header + body)
    return container._digest_in(preamble)


def edited(kind, meta, arrays, rng):
    meta, arrays = copy.deepcopy(meta), dict(arrays)
    for _ in range(int(rng.choice([1, 1, 1, 2, 3]))):
        if kind is MODEL and rng.random() < 0.02:
            meta["kind"] = KINDS[int(rng.integers(len(KINDS)))]
        elif rng.random() < 0.45 or not arrays:
            edit_meta(meta, rng)
        else:
            edit_arrays(arrays, rng)
    return meta, arrays


def slow_scores(meta, arrays, X) -> np.ndarray:
    """The scores that a model file says, node by node."""
    start, values = float(meta["start"]), arrays["value"].tolist()
    if meta.get("exact_sums"):
        start, values = on_one_grid(start, values, arrays["roots"].tolist())
    scores = np.array([slow_score(meta["n_features"], start, {**arrays, "value": values}, row) for row in X])
    if "children" in meta:
        inner = {name.removeprefix("init/"): array for name, array in arrays.items() if name.startswith("init/")}
        scores = scores + slow_scores(meta["children"]["init"]["meta"], inner, X)
    return scores


def on_one_grid(start, values, roots):
    """Rounded towards 0 to multiples of 2**(e - 53); 2**e is above |start| and the largest |value| of each tree."""
    largest = sum((max(abs(Fraction(x)) for x in values[a:b]) for a, b in pairwise(roots)), abs(Fraction(start)))
    unit = Fraction(2) ** max(math.frexp(float(largest))[1] - 53, -1074)
    start, *values = (float(int(Fraction(x) / unit) * unit) for x in (start, *values))
    return start, values


def slow_score(n_features, start, arrays, row) -> float:
    score, left = start, arrays["left"].tolist()
    for root in arrays["roots"][:-1].tolist():
        node = root
        while left[node] != node:
            feature = int(arrays["feature"][node])
            x = float(row[feature]) if feature < n_features else side(arrays, feature - n_features, row)
            right = arrays["missing_right"][node] == 1 if math.isnan(x) else x > float(arrays["threshold"][node])
            node = left[node] + int(right)
        score += float(arrays["value"][node])
    return score


def side(arrays, number, row) -> float:
    x, start, end = row[arrays["set_feature"][number]], *arrays["set_start"][number : number + 2].tolist()
    sides = dict(zip(arrays["set_values"][start:end].tolist(), arrays["set_sides"][start:end].tolist()))
    return float(sides.get(float(x), math.nan))


def refused(path: Path, work):
    """What `work` returns, or None after an error of ours that names the file."""
    try:
        return work()
    except (ValueError, OSError) as error:
        assert str(path) in str(error), error  # noqa: PT017
        return None


def loaded_twice(path: Path):
    """The model, which can be shown and saved, and the same saved and loaded again; or None after a refusal."""
    model = refused(path, lambda: podium.load(path))
    if model is None:
        return None, None
    json.dumps(model.inspect().as_dict(), allow_nan=False)
    str(model.inspect()).encode()
    model.save(path.with_name("again.podium"))
    return model, podium.load(path.with_name("again.podium"))


def finite_or_refused(ask):
    """Finite scores, or None after an error that says whose are not."""
    try:
        scores = ask()
    except ValueError as error:
        assert "finite scores" in str(error) or "too large for float32" in str(error), error  # noqa: PT017
        return None
    assert np.isfinite(scores).all()
    return scores


class Models:
    kind = MODEL

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(5)
        data, options = training_data(rng), SMALL | {"n_estimators": 3}
        plain = LambdaMART(**options, categorical=["colour"]).fit(data, eval_set=data)
        named = podium.MART(**options, categorical=["colour"]).fit(frame(rng), data.y, data.qid)
        others = [LambdaSMART(**options, init=plain), MatrixNet(n_estimators=2, max_depth=2, bundle_features=True)]
        fitted = [plain, named, *(model.fit(data) for model in [*others, RandomForest(**options)])]
        self.X, self.bases = rows(rng, 12), []
        for number, model in enumerate(fitted):
            model.save(folder / f"base{number}.podium")
            self.bases.append(read_parts(folder / f"base{number}.podium", MODEL))

    def obeys(self, path: Path, meta, arrays) -> bool:
        """The scores are those of the file, finite; the model can be shown and saved, and is the same again."""
        model, again = loaded_twice(path)
        if model is None:
            return False
        if model.n_features_in_ == self.X.shape[1]:
            scores = model.predict(self.X)
            assert np.isfinite(scores).all()
            np.testing.assert_array_equal(scores, slow_scores(meta["meta"], arrays, self.X))
            np.testing.assert_array_equal(scores, again.predict(self.X))
        return True


class OtherModels:
    """Every model that is not a forest: linear models, support vectors, weak rankers, nets, ensembles."""

    kind = MODEL

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(8)
        full = training_data(rng)
        data = podium.RankingData.from_arrays(np.nan_to_num(full.X), full.y, full.qid)
        self.X, self.bases = np.nan_to_num(rows(rng, 12)), []
        for number, model in enumerate(self.models()):
            model.fit(data).save(folder / f"other{number}.podium")
            self.bases.append(read_parts(folder / f"other{number}.podium", MODEL))

    def models(self):
        trees, linear = podium.MART(n_estimators=2, **SMALL), podium.Linear(max_iter=2)
        settings = {
            "KernelRankSVM": {"max_iter": 2},
            "AdaRank": {"n_rounds": 2},
            "CoordinateAscent": {"n_restarts": 1, "n_rounds": 1},
            "RankBoost": {"n_estimators": 4},
            "Bagged": {"model": trees, "n_members": 2},
            "Blend": {"members": [linear, trees]},
            "Stack": {"members": [linear, trees], "final": linear, "folds": 2},
            "AutoRanker": {"budget": 1e-6, "folds": 2},
        } | {name: {"max_epochs": 1} for name in NETS}
        for name in MODELS:
            if name not in TREE_MODELS:
                yield MODELS[name](**settings.get(name, {}))
        yield podium.Linear(basis="gaussian", transform=("raw", "zscore", "rank"))
        yield podium.Linear(basis="polynomial", interactions=True, degree=2, max_iter=3)
        yield podium.Linear(basis="sigmoid", centres=np.eye(3, self.X.shape[1]), sigma=2.0, max_iter=3)
        yield podium.Linear(transform=("signed_log", "quantile", "minmax"), max_iter=3)
        yield podium.Net(hidden_layer_sizes=(3,), layer_norm=True, residual=True, n_nets=2, max_epochs=1)
        yield podium.KernelRankSVM(kernel="polynomial", max_iter=2, n_landmarks=20)
        yield podium.Pointwise("svr")

    def obeys(self, path: Path, meta, arrays) -> bool:
        """The model can be shown and saved; its scores are finite, or an error, and the same again."""
        model, again = loaded_twice(path)
        if model is None:
            return False
        if model.n_features_in_ == self.X.shape[1]:
            qid = np.arange(len(self.X)) // 4
            scores = finite_or_refused(lambda: model.predict(self.X, qid))
            again_scores = finite_or_refused(lambda: again.predict(self.X, qid))
            assert (scores is None) == (again_scores is None)
            if scores is not None:
                assert scores.shape == (len(self.X),)
                np.testing.assert_array_equal(scores, again_scores)
            finite_or_refused(lambda: model.scorer()(np.ascontiguousarray(self.X[:4])))
        return True


def frame(rng: np.random.Generator):
    import pandas as pd

    colours = pd.Categorical.from_codes(rng.integers(0, 3, 60), ["red", "green", "blue"])
    numbers = rng.normal(size=(60, 3))
    return pd.DataFrame({"a": numbers[:, 0], "colour": colours, "b": numbers[:, 1], "c": numbers[:, 2]})


class Killed(Exception):
    """Stands for the end of the process."""


class Checkpoints:
    kind = CHECKPOINT

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(6)
        self.data, self.path, self.bases, self.models = training_data(rng), folder / "run.checkpoint", [], []
        for options in ({}, {"drop_rate": 0.5, "skip_drop": 0.0}):
            model = LambdaMART(**SMALL, n_estimators=5, n_jobs=1, **options)
            try:
                self.fit(model, [kill_after(4)])
            except Killed:
                self.bases.append(read_parts(self.path, CHECKPOINT))
                self.models.append(model)
            else:
                raise AssertionError("the training ended before it was killed, so it left no checkpoint to edit")
            self.path.unlink()
        self.by_meta = {json.dumps(meta["run"]): model for (meta, _), model in zip(self.bases, self.models)}

    def fit(self, model, callbacks):
        return model.fit(
            self.data, eval_set=self.data, early_stopping_rounds=3, checkpoint=self.path, every=2, callbacks=callbacks
        )

    def obeys(self, path: Path, meta, arrays) -> bool:
        """The training goes on from the file to a model with finite scores."""
        model = self.by_meta.get(json.dumps(meta.get("run")), self.models[0])
        path.rename(self.path)
        done = refused(self.path, lambda: self.fit(model, ()))
        if done is not None:
            assert not self.path.exists()
            assert np.isfinite(done.predict(self.data)).all()
            done.save(path.with_name("again.podium"))
        return done is not None


def kill_after(step: int):
    def callback(progress) -> None:
        if progress.iteration == step:
            raise Killed

    return callback


class Caches:
    kind = DATA

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(7)
        numbered = training_data(rng)
        named = podium.RankingData.from_arrays(
            rows(rng, 20),
            rng.integers(0, 3, 20),
            qid=[f"q{number}" for number in rng.integers(0, 5, 20)],
            docids=[f"d{number}" * (number % 3) for number in range(20)],
            sample_weight=rng.random(20),
            query_weight=None,
        )
        self.bases = []
        for number, data in enumerate([numbered, named]):
            write_cache(data, folder / f"base{number}.podium-data")
            self.bases.append(read_parts(folder / f"base{number}.podium-data", DATA))

    def obeys(self, path: Path, meta, arrays) -> bool:
        """All that the data have is of one length, and they are the same after they were written again."""

        def read():
            data = read_cache(path)
            return data, data.X  # which is checked when it is first used

        found = refused(path, read)
        if found is None:
            return False
        data, X = found
        assert X.shape == (data.n_rows, data.n_features)
        assert len(data.qid) == len(data.rows) == data.n_rows == int(data.group.sum())
        assert (data.group >= 0).all()
        assert sorted(data.rows.tolist()) == list(range(data.n_rows))
        assert data.qid[data.rows].tolist() == np.repeat(data.query_ids, data.group).tolist()
        assert data.y is None or np.isfinite(data.y).all()
        assert not np.isinf(X).any()
        assert data.docids is None or [type(docid) for docid in data.docids] == [str] * data.n_rows
        write_cache(data, path.with_name("again.podium-data"))
        again = read_cache(path.with_name("again.podium-data"))
        assert np.array_equal(again.X, X, equal_nan=True)
        assert again.qid.tolist() == data.qid.tolist()
        return True


PAGES = [
    {
        "id": f"d{number:02}",
        "title": "laser light" * (number % 2),
        "body": "beam " * number + "light of day",
        "n": number,
    }
    for number in range(12)
]
for _number, _page in enumerate(PAGES[::2]):
    _page |= {"url": f"http://x.org/{_number}", "links": [[f"d{_number:02}", "blue light"]], "anchors": ["given ray"]}
FEATURES = podium.search.Features.letor().add("n", "stored", key="n").add("phrases", "bigrams", "body")


class Parts:
    """Segments, a list of deleted documents and links; the manifest has the digest of the edited part."""

    kind = SEGMENT

    def __init__(self, folder: Path) -> None:
        self.folder, self.base = folder, folder / "base"
        podium.search.build_index(PAGES[:7], self.base)
        with podium.search.IndexWriter(self.base) as writer:
            writer.add_all(PAGES[5:])
            writer.delete("d01")
        self.manifest, _ = read_parts(self.base / "index.podium", INDEX)
        self.names = sorted(path.name for path in self.base.glob("*.podium-part"))
        self.bases = [read_parts(self.base / name, SEGMENT) for name in self.names]

    def obeys(self, path: Path, meta, arrays) -> bool:
        name = self.names[int("".join(filter(str.isdigit, path.name))) % len(self.names)]
        work, manifest = self.folder / f"{path.name}.index", copy.deepcopy(self.manifest)
        shutil.copytree(self.base, work, copy_function=os.link)
        (work / name).unlink()
        manifest["digests"][name] = write_parts(work / name, SEGMENT, meta, arrays)
        for part in manifest["parts"]:  # so that the next check is reached
            if part["file"] == name and type(meta.get("documents")) is int and 2 < meta["documents"] < 2**50:
                part["documents"] = meta["documents"]
        (work / "index.podium").unlink()
        write_parts(work / "index.podium", INDEX, manifest, {})
        try:
            return use_index(work)
        finally:
            shutil.rmtree(work)


class Manifests(Parts):
    kind = INDEX

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.bases = [(self.manifest, {})]

    def obeys(self, path: Path, meta, arrays) -> bool:
        work = self.folder / f"{path.name}.index"
        shutil.copytree(self.base, work, copy_function=os.link)
        (work / "index.podium").unlink()
        write_parts(work / "index.podium", INDEX, meta, arrays)
        try:
            return use_index(work)
        finally:
            shutil.rmtree(work)


def use_index(folder: Path) -> bool:
    """Everything that an index can be asked gives finite numbers and text, or an error that names a file of it."""
    read, written = refused(folder, lambda: read_index(folder)), refused(folder, lambda: write_index(folder))
    return read is not None and written is not None


def read_index(folder: Path) -> bool:
    index = podium.search.open_index(folder)
    extractor = podium.search.Extractor(index, FEATURES)
    for query in ("light beam", '"blue light" +light -zebra', "title:laser url:org ray"):
        for weighting in ("bm25", "bm25l", "tfidf", "lmir-dir", "lmir-jm", "lmir-abs", "bm25f"):
            hits = index.search(query, 5, weighting=weighting)
            assert np.isfinite(hits.scores).all()
            assert all(type(id) is str for id in hits.ids)
        assert np.isfinite(extractor.values(query, np.arange(index.n_slots))).all()
        [str(hit.snippet()).encode("utf-8", "surrogatepass") for hit in hits]
    for field in ("anchor", "title", "url"):
        assert np.isfinite(index.search("light ray org", 5, fields=field).scores).all()
    for number in range(index.n_slots):
        assert index.number(index.id(number)) in (number, None) or index.deleted
        assert type(index.stored(number)) is dict
    return True


def write_index(folder: Path) -> bool:
    with podium.search.IndexWriter(folder) as writer:
        writer.add(("new", "light"))
        writer.delete("d03")
        writer.merge()
    index = podium.search.open_index(folder)
    assert index.number("new") is not None
    assert index.number("d03") is None
    return True


class Cascades:
    kind = CASCADE

    def __init__(self, folder: Path) -> None:
        self.folder, self.base = folder, folder / "base"
        podium.search.build_index(PAGES, folder / "pages")
        cascade = podium.Cascade(podium.search.open_index(folder / "pages"), podium.Stage(n=5))
        data = cascade.training_data({"q": "light beam"}, {"q": {"d03": 1, "d05": 2}})
        model = podium.MART(n_estimators=2, **SMALL).fit(data)
        cascade.with_model(model).save(self.base)
        self.bases = [read_parts(self.base / "cascade.podium", CASCADE)]

    def obeys(self, path: Path, meta, arrays) -> bool:
        work = self.folder / f"{path.name}.cascade"
        shutil.copytree(self.base, work, copy_function=os.link)
        (work / "cascade.podium").unlink()
        write_parts(work / "cascade.podium", CASCADE, meta, arrays)
        try:
            hits = refused(work, lambda: podium.load(work).search("light beam", 4))
            assert hits is None or np.isfinite(hits.scores).all()
        finally:
            shutil.rmtree(work)
        return hits is not None


class Tables:
    """Tables in the folder of a cascade: by pairs, queries and documents."""

    kind = TABLE

    def __init__(self, folder: Path) -> None:
        self.folder, self.base = folder, folder / "base"
        podium.search.build_index(PAGES, folder / "pages")
        rows = [("light beam", "d03", 3, 0.5), ("light beam", "d05", 1, 2), ("laser", "d03", 2, 1), ("ray", "x", 7, 4)]
        features = podium.search.Features(podium.search.Features.letor().features[:3])
        for by in ("query_document", "query", "document"):
            kept = {tuple(row[kind == "document"] for kind in by.split("_")): row for row in rows}
            lines = ["query,document,clicks,dwell", *(",".join(map(str, row)) for row in kept.values())]
            (folder / f"{by}.csv").write_text("\n".join(lines))
            for column in ("clicks", "dwell"):
                settings = {"file": str(folder / f"{by}.csv"), "by": by, "column": column, "missing": 0.5}
                features = features.add(f"{column} {by}", "table", **settings)
        cascade = podium.Cascade(podium.search.open_index(folder / "pages"), podium.Stage(features=features, n=5))
        data = cascade.training_data({"q": "light beam"}, {"q": {"d03": 1, "d05": 2}})
        cascade.with_model(podium.MART(n_estimators=2, **SMALL).fit(data)).save(self.base)
        self.names = sorted(path.name for path in self.base.glob("*.podium-table"))
        self.bases = [read_parts(self.base / name, TABLE) for name in self.names]

    def obeys(self, path: Path, meta, arrays) -> bool:
        name = self.names[int("".join(filter(str.isdigit, path.name))) % len(self.names)]
        work = self.folder / f"{path.name}.cascade"
        shutil.copytree(self.base, work, copy_function=os.link)
        (work / name).unlink()
        write_parts(work / name, TABLE, meta, arrays)
        try:
            return refused(work, lambda: self.use(work)) is not None
        finally:
            shutil.rmtree(work)

    def use(self, folder: Path) -> bool:
        """Finite values for queries and documents, whether the table has them or not."""
        cascade = podium.load(folder)
        extractor = podium.search.Extractor(cascade.index, cascade.stages[0].features)
        for query in ("light beam", "LASER", "nothing"):
            assert np.isfinite(extractor.values(query, np.arange(cascade.index.n_slots))).all()
            assert np.isfinite(cascade.search(query, 4).scores).all()
        return True


SUBJECTS = {
    "model": Models,
    "other": OtherModels,
    "checkpoint": Checkpoints,
    "cache": Caches,
    "part": Parts,
    "manifest": Manifests,
    "cascade": Cascades,
    "table": Tables,
}


def main(what: str, folder: Path, seed: int, edits: int) -> None:
    faulthandler.enable()
    warnings.simplefilter("ignore")
    os.fsync = lambda handle: None  # nothing here has to survive the machine
    subject = SUBJECTS[what](folder)
    for number, (meta, arrays) in enumerate(subject.bases):
        path = folder / f"same{number}"
        write_parts(path, subject.kind, meta, arrays)
        assert subject.obeys(path, meta, arrays), "a file that was not edited must be taken"
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ROOM, used + ROOM))
    rng, found = np.random.default_rng(seed), Counter()
    for number in range(edits):
        base_meta, base_arrays = subject.bases[number % len(subject.bases)]
        try:
            meta, arrays = edited(subject.kind, base_meta, base_arrays, rng)
            path = folder / f"edited{number}"
            write_parts(path, subject.kind, meta, arrays)
        except (ValueError, OverflowError):
            continue  # no JSON, or no array of these
        signal.alarm(SECONDS)
        try:
            found["taken" if subject.obeys(path, meta, arrays) else "refused"] += 1
        except BaseException:
            print(f"edit {number} of seed {seed}: {path}", file=sys.stderr)
            raise
        path.unlink(missing_ok=True)
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
