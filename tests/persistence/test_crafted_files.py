"""Files that were made to do harm, checksums and all: an error that names the file, or scores that the file says."""

import json
import subprocess
import sys
from pathlib import Path

import fuzz_files
import numpy as np
import pytest

import podium
from podium.formats.cache import read_cache, write_cache
from podium.formats.errors import FormatError
from podium.formats.kinds import CHECKPOINT, DATA, MODEL
from podium.models.trees.exact_sums import trained_forest
from podium.models.trees.named import LambdaMART, LambdaSMART

FUZZER = Path(fuzz_files.__file__)


@pytest.mark.skipif(sys.platform != "linux", reason="the fuzzer bounds its memory as Linux does")
@pytest.mark.parametrize(
    ("what", "edits"),
    [
        *(("model", 1500), ("other", 500), ("checkpoint", 500), ("cache", 1200)),
        *(("part", 800), ("manifest", 400), ("cascade", 200), ("table", 300)),
    ],
)
def test_edited_files_are_refused_or_obey_the_laws_and_never_crash(tmp_path, what, edits):
    command = [sys.executable, str(FUZZER), what, str(tmp_path), "1", str(edits)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout)
    assert found["refused"] > edits / 3
    assert found["taken"] > edits / (100 if what == "manifest" else 50)  # a manifest has few facts that may differ
    assert sum(found.values()) > 0.9 * edits


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """The parts of a model with categories, bundles and an init."""
    path, data = tmp_path_factory.mktemp("crafted") / "m.podium", fuzz_files.training_data(np.random.default_rng(5))
    options = fuzz_files.SMALL | {"n_estimators": 3, "categorical": ["colour"]}
    LambdaSMART(**options, init=LambdaMART(**options).fit(data)).fit(data, eval_set=data).save(path)
    return fuzz_files.read_parts(path, MODEL)


def refusal(path, meta, arrays) -> str:
    fuzz_files.write_parts(path, MODEL, meta, arrays)
    with pytest.raises(FormatError) as caught:
        podium.load(path)
    assert str(path) in str(caught.value)
    return str(caught.value)


def elements(dtype, place, value):
    def edit(array):
        array = array.astype(dtype)
        array[place] = value
        return array

    return edit


@pytest.mark.parametrize("prefix", ["", "init/"])
@pytest.mark.parametrize(
    ("name", "edit", "words"),
    [
        ("feature", elements(np.int32, 0, -5), "feature must have dtype uint32"),
        ("missing_right", elements(np.int8, 0, -100), "missing_right must have dtype uint8"),
        ("roots", elements(np.int64, [1, 2], [2**63 - 1, -(2**63) + 2]), "the trees do not fill their arrays"),
        ("roots", lambda roots: roots.reshape(-1, 1), "and one dimension"),
        ("set_start", elements(np.int64, [1, 2], [2**63 - 1, -(2**63) + 2]), "the sets of categories do not fill"),
        ("left", elements(np.uint32, 0, 0xFFFFFFFF), "a tree points outside of itself"),
        ("value", elements(np.float64, -1, np.nan), "a value or a gain is not finite"),
        ("value", elements(np.float64, slice(None), 1.7e308), "a value or a gain is not finite, or their sum"),
        ("gain", elements(np.float64, 0, np.inf), "a value or a gain is not finite"),
        ("threshold", lambda threshold: threshold.astype(np.float64), "threshold must have dtype float32"),
        ("set_values", elements(np.float32, 0, np.nan), "do not rise"),
    ],
)
def test_crafted_arrays_are_refused_with_what_is_wrong(tmp_path, base, prefix, name, edit, words):
    meta, arrays = base
    edited = arrays | {prefix + name: edit(arrays[prefix + name])}
    assert words in refusal(tmp_path / "m.podium", meta, edited)


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("n_features", [2**62, -1, 4.0, True, None, "4"]),
        ("categories", [[], {"a": {}}, {"a": [[]]}, {"a": ["x", "x"]}, {"none": ["x"]}]),
        ("evals", [[], {"eval_0": []}, {"eval_0": {"ndcg@10": 3}}, {"eval_0": {"ndcg@10": ["nan"]}}]),
        ("start", [10**400, "nan", None, [], True]),
        ("best_iteration", [-1, 2.0, 10**9, "1"]),
        ("bundles", [{}, [1], [[-1]], [[4]], [[0, 0]], [[0, 1], [1, 2]], [["a"]]]),
        ("feature_names", [[], ["a"], "abcd", [1, 2, 3, 4]]),
        ("n_queries", [-1, 0.5, None]),
        ("parameters", [[], {"n_jobs": 10**9}, {"init": "x"}, {"growth": "up"}, {"n_estimators": -1}, {"other": 1}]),
        ("init", [[], {"kind": "MART"}, {"kind": [], "meta": {}}, {"kind": "MART", "meta": []}]),
        ("other", [1]),
    ],
)
def test_crafted_facts_are_refused(tmp_path, base, key, values, inner):
    meta, arrays = base
    for value in values:
        edited = json.loads(json.dumps(meta))
        (edited["meta"]["children"]["init"]["meta"] if inner else edited["meta"])[key] = value
        refusal(tmp_path / "m.podium", edited, arrays)
    if key not in ("other", "init"):
        edited = json.loads(json.dumps(meta))
        del (edited["meta"]["children"]["init"]["meta"] if inner else edited["meta"])[key]
        refusal(tmp_path / "m.podium", edited, arrays)


@pytest.mark.parametrize("depth", [90, 200, 5000])
def test_facts_within_facts_within_facts_are_refused(tmp_path, base, depth):
    meta, arrays = base
    text = json.dumps(meta).replace('"ndcg@10"', "[" * depth + "]" * depth)
    path = tmp_path / "m.podium"
    with pytest.MonkeyPatch.context() as patch:  # json itself refuses to write so deep
        patch.setattr(fuzz_files.container, "_to_json", lambda facts: raw_header(facts, text))
        fuzz_files.write_parts(path, MODEL, {}, arrays)
    with pytest.raises(FormatError, match=r"m\.podium"):
        podium.load(path).inspect()


def raw_header(facts, meta: str) -> bytes:
    return json.dumps(facts).replace('"meta": {}', f'"meta": {meta}').encode()


def test_a_model_of_billions_of_features_is_shown_at_once(tmp_path, base):
    meta, arrays = base
    edited = json.loads(json.dumps(meta["meta"]["children"]["init"]))
    edited["meta"] |= {"n_features": 2**31 - 9, "feature_names": None, "categories": {}, "bundles": []}
    own = {name.removeprefix("init/"): array for name, array in arrays.items() if name.startswith("init/")}
    named = own["feature"] >= 4  # sets of categories are numbered behind the features
    own["feature"] = np.where(named, own["feature"].astype(np.int64) - 4 + 2**31 - 9, own["feature"]).astype(np.uint32)
    fuzz_files.write_parts(tmp_path / "m.podium", MODEL, edited, own)
    model = podium.load(tmp_path / "m.podium")
    assert model.inspect().n_features == 2**31 - 9
    assert model.inspect().top_features[0][0].startswith("feature ")
    with pytest.raises(ValueError, match="features"):
        model.predict(np.zeros((2, 4), np.float32))


def test_what_could_not_be_loaded_is_not_saved(tmp_path, base):
    fuzz_files.write_parts(tmp_path / "m.podium", MODEL, *base)
    model = podium.load(tmp_path / "m.podium")
    before = (tmp_path / "m.podium").read_bytes()
    forest = trained_forest(model)
    object.__setattr__(forest, "value", np.full_like(forest.value, np.nan))
    with pytest.raises(ValueError, match=r"m\.podium: LambdaSMART cannot be saved .*not finite.*Nothing is written"):
        model.save(tmp_path / "m.podium")
    assert (tmp_path / "m.podium").read_bytes() == before


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("offsets", elements(np.int64, [1, 2], [2**63 - 1, -(2**63) + 2])),
        ("docids.ends", elements(np.int64, [1, 2], [2**63 - 1, -(2**63) + 2])),
        ("offsets", lambda offsets: offsets.astype(np.uint64)),
        ("grouping", elements(np.int64, 0, -1)),
        ("y", elements(np.float64, 0, np.nan)),
        ("X", lambda X: np.empty((0, 2**40), np.float32)),
        ("X", lambda X: np.empty((2**40, 0), np.float32)),
        ("docids.text", None),
        ("docids.ends", None),
        ("offsets", None),
        ("y", None),
        ("query_ids.ends", None),
    ],
)
def test_crafted_caches_are_refused(tmp_path, name, edit):
    path = tmp_path / "d.podium-data"
    data = podium.RankingData.from_arrays(np.zeros((4, 2)), [0, 1, 2, 0], qid=["b", "a", "b", "c"], docids=list("wxyz"))
    write_cache(data, path)
    meta, arrays = fuzz_files.read_parts(path, DATA)
    edited = {key: value for key, value in arrays.items() if key != name}
    if edit is not None:
        edited[name] = edit(arrays[name])
    fuzz_files.write_parts(path, DATA, meta, edited)
    with pytest.raises(FormatError, match=r"d\.podium-data"):
        read_cache(path)
    fuzz_files.write_parts(path, DATA, {"other": 1}, arrays)
    with pytest.raises(FormatError, match=r"d\.podium-data.*facts that are not known"):
        read_cache(path)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("scores", elements(np.float64, 0, np.nan)),
        ("scores", lambda scores: scores.astype(np.float32)),
        ("best_value", elements(np.float64, 0, np.inf)),
        ("best_value", lambda value: value[:0]),
        ("eval_0/curve_0", elements(np.float64, 0, np.inf)),
        ("eval_0/curve_0", lambda curve: curve[:-1]),
        ("eval_0/scores", elements(np.float64, 0, np.inf)),
        ("left", elements(np.uint32, 0, 0xFFFFFFFF)),
        ("best", 10**9),
        ("best", -1),
        ("best_trees", 2.0),
        ("best_trees", 10**400),
        ("run", {}),
        ("run", {"the model": 3}),
        ("other", 1),
    ],
)
def test_crafted_checkpoints_are_refused_and_stay(tmp_path, name, edit):
    data, path = fuzz_files.training_data(np.random.default_rng(6)), tmp_path / "run.checkpoint"
    model = LambdaMART(**fuzz_files.SMALL, n_estimators=5)
    with pytest.raises(fuzz_files.Killed):
        model.fit(data, eval_set=data, checkpoint=path, every=2, callbacks=[fuzz_files.kill_after(3)])
    meta, arrays = fuzz_files.read_parts(path, CHECKPOINT)
    if callable(edit):
        arrays = arrays | {name: edit(arrays[name])}
    else:
        meta = meta | {name: edit}
    fuzz_files.write_parts(path, CHECKPOINT, meta, arrays)
    content = path.read_bytes()
    with pytest.raises(ValueError, match=r"run\.checkpoint"):
        model.fit(data, eval_set=data, checkpoint=path, every=2)
    assert path.read_bytes() == content
