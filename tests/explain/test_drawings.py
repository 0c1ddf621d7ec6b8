"""Pictures: every text can be read, in hard cases and on narrow pages; axes can be given; files keep their bytes."""

import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from xml.etree import ElementTree

import numpy as np
import pytest

import podium
from podium import LambdaMART, RankingData, RegressionTree, explain
from podium.explain import drawings
from podium.explain.drawings.style import SERIES
from podium.explain.queries import explain_top
from podium.metrics import line_search
from podium.search import build_index, open_index, tune_weighting

pytest.importorskip("matplotlib", reason="matplotlib is not installed")

from legibility import problems
from matplotlib import pyplot, rcParams
from matplotlib.figure import Figure

LONG = [
    "clicks_on_the_title_of_the_document_divided_by_impressions_last_30_days",
    "bm25 of $title$ and $body$",
    60 * "W",
    "constant",
    "mostly missing",
    "a name\nwith \x1b[31mcontrol characters, commas, and (brackets) that goes on and on and on and on",
]


def make_data(n_features=6, seed=5):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((400, n_features)).astype(np.float32)
    y = np.digitize(X[:, 0] - (X[:, 1] if n_features > 1 else 0) + 0.3 * rng.standard_normal(400), [-0.5, 0.5, 1.5])
    if n_features > 4:
        X[:, 3] = 7.0
        X[rng.random(400) < 0.9, 4] = np.nan
        X[rng.random(400) < 0.2, 0] = np.nan
    docids = [f"clueweb12-0000tw-{number:02d}-{number:05d}" for number in range(400)]
    return RankingData.from_arrays(X, y, np.arange(400) // 20, docids=docids, feature_names=LONG[:n_features])


@pytest.fixture(scope="module", params=[6, 1], ids=["six features", "one feature"])
def data(request):
    return make_data(request.param)


only_six_features = pytest.mark.parametrize("data", [6], indirect=True)


@pytest.fixture(scope="module")
def model(data):
    model = LambdaMART(n_estimators=12, max_leaf_nodes=31, min_samples_leaf=2, extra_trees=False)
    sets = {
        "valid": make_data(data.X.shape[1], 6),
        "the judgements of the second assessor, part b": make_data(data.X.shape[1], 7),
    }
    model.set_params(eval_metric=["ndcg@10", "map"])
    return model.fit(data, eval_set=sets)


@pytest.fixture(scope="module")
def comparison(data, model):
    worse = {"a system with a long name, trained by somebody else": np.arange(400) % 7, "mart": model.predict(data)}
    return podium.compare(worse, data, permutations=1000)


@cache
def tuned_bm25():
    """The means of the grid of k1 and b, on a collection of two documents."""
    with TemporaryDirectory() as folder:
        index = open_index(build_index([("a", "one two"), ("b", "two two three")], Path(folder) / "index"))
        return tune_weighting(index, {"1": "two", "2": "three"}, {"1": {"a": 1}, "2": {"b": 1}}, folds=2)


def every_picture(model, data, comparison):
    """Each drawing with what it takes: (name, function of ax)."""
    first = data.subset([0])
    several = podium.compare(
        {name: np.roll(model.predict(data), shift) for shift, name in enumerate(LONG[:3])},
        data,
        metrics=["ndcg@10", "inversions"],
        permutations=1000,
    )
    yield "curves", lambda ax: drawings.draw_curves(model, ax=ax)
    yield "importance", explain.importance(model).plot
    yield "why", explain.why(model, data, 0, 1, documents=data.docids[:2]).plot
    yield "why not", explain.why(model, data, 0, 0).plot
    yield "query", explain_top(model, data, "3", 5).plot
    yield "dependence", explain.partial_dependence(model, data, 0, grid=5).plot
    yield "summary", explain.shap_summary(model, data).plot
    yield "drops", explain.permutation_importance(model, data, repeats=2).plot
    yield "differences", lambda ax: drawings.draw_differences(comparison, ax=ax)
    yield "differences of several", lambda ax: drawings.draw_differences(several, ax=ax)
    yield "cutoffs", explain.cutoff_curves({LONG[0]: np.arange(400) % 7, "mart": model, LONG[5]: -data.y}, data).plot
    yield "lambdas", explain.lambdas(model.predict(first), first.y, documents=first.docids).plot
    yield "lambdas of two", explain.lambdas([-3.25, 1e6], [0, 4], "ranknet").plot
    found = line_search(np.zeros(400), model.predict(data), data, metric="ndcg@10")
    yield "tuning", lambda ax: drawings.draw_tuning(tuned_bm25(), ax=ax)
    yield "line search", lambda ax: drawings.draw_line_search(found, ax=ax)


@pytest.mark.parametrize(("depth", "node"), [(None, 0), (1, 0), (0, 0), (99, 0), (2, 1)])
@only_six_features
def test_trees_of_31_leaves_can_be_read_and_fit_axes_that_are_given(model, depth, node):
    figure = drawings.draw_tree(model, 1, depth=depth, node=node).figure
    assert not problems(figure)
    narrow = Figure(figsize=(0.8 * figure.get_size_inches()[0], figure.get_size_inches()[1]))
    drawings.draw_tree(model, 1, depth=depth, node=node, ax=narrow.add_axes((0, 0, 1, 1)))
    assert not problems(narrow)
    pyplot.close(figure)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # matplotlib's own
def test_every_text_can_be_read_at_full_width_and_at_four_fifths(model, data, comparison):
    found = {}
    for name, draw in every_picture(model, data, comparison):
        figure = draw(None).figure
        for scale in (1.0, 0.8):
            if wrong := problems(figure, scale):
                found[name, scale] = wrong
        pyplot.close(figure)
    assert not found


@only_six_features
def test_pictures_go_into_axes_that_are_given_or_into_files_but_not_both(model, data, comparison, tmp_path):
    figure = Figure()
    axes = figure.add_subplot()
    assert drawings.draw_curves(model, ax=axes) is axes
    assert {text.get_text() for text in axes.get_legend().get_texts()} >= {"valid: ndcg@10", "valid: map"}
    assert explain.importance(model).plot(figure.add_subplot(2, 1, 2)).figure is figure
    with pytest.raises(ValueError, match="give a path to save a picture, or ax="):
        drawings.draw_curves(model, tmp_path / "curves.svg", ax=axes)
    for name in ("one.svg", "two.svg"):
        drawings.draw_differences(comparison, tmp_path / name)
        explain.importance(model).picture(tmp_path / f"importance-{name}")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    texts = [one.text for one in ElementTree.parse(tmp_path / "importance-one.svg").iter() if one.text]
    assert any(text.startswith("a name with [31m") for text in texts)
    assert not pyplot.get_fignums()


@only_six_features
def test_threads_that_draw_leave_the_settings_of_matplotlib_as_they_are(model, data, tmp_path):
    before = dict(rcParams)
    why = explain.why(model, data, 0, 1)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: why.picture(tmp_path / f"{number}.svg"), range(8)))
    assert dict(rcParams) == before
    assert len({(tmp_path / f"{number}.svg").read_bytes() for number in range(8)}) == 1


@only_six_features
def test_folded_leaves_are_drawn_from_their_node(model, tmp_path):
    forest = model.forest_.split()[0]
    drawings.draw_tree(model, 1, tmp_path / "tree.svg", depth=1)
    text = (tmp_path / "tree.svg").read_text()
    leaves = int((forest.left == np.arange(len(forest.left))).sum())
    folded = [int(number) for number in re.findall(r"… (\d+) more lea", text)]
    assert sum(folded) == leaves - text.count(" rows<") + len(folded) + 1  # the root has rows too
    node = int(re.search(r"node (\d+), ", text)[1])
    drawings.draw_tree(model, 1, tmp_path / "part.svg", depth=99, node=node)
    assert (tmp_path / "part.svg").read_text().count(" rows<") == 2 * folded[0] - 1
    with pytest.raises(ValueError, match=r"node must be from 0 to \d+, the nodes of tree 1; got -1"):
        drawings.draw_tree(model, 1, tmp_path / "part.svg", node=-1)
    with pytest.raises(ValueError, match="depth must be a number of levels, from 0; got -1"):
        drawings.draw_tree(model, 1, tmp_path / "part.svg", depth=-1)


def test_missing_values_have_their_mark_and_colours_their_bar(tmp_path):
    data = make_data()
    model = RegressionTree(min_samples_leaf=5).fit(data)
    explain.shap_summary(model, data).picture(tmp_path / "summary.svg")
    text = (tmp_path / "summary.svg").read_text()
    assert all(f">{word}<" in text for word in ("low", "high", "value of the feature (x: missing)"))


@only_six_features
def test_curves_over_cutoffs_are_the_values_of_evaluate(model, data, tmp_path):
    curves = explain.cutoff_curves({"mart": model, "labels": data.y}, data, metric="ndcg", cutoffs=[1, 5, 10])
    expected = podium.evaluate(model.predict(data), data, metrics=["ndcg@1", "ndcg@5", "ndcg@10"])
    assert curves.values[0].tolist() == list(expected.means.values())
    assert curves.to_frame()["labels"].iloc[2] == curves.as_dict()["rankings"]["labels"][2] == 1.0
    assert str(curves).splitlines()[0] == "ndcg@k (policy standard)"
    for arguments, message in (
        ({"metric": "ndgc"}, "Did you mean 'ndcg'"),
        ({"cutoffs": []}, "cutoffs must be a list of ranks"),
        ({"rankings": {}}, "rankings must name each ranking"),
    ):
        with pytest.raises(ValueError, match=message):
            explain.cutoff_curves(**({"rankings": {"mart": model}, "data": data} | arguments))


def test_the_report_has_the_same_colours():
    style = Path(podium.__file__).parent / "lab" / "report" / "style.css"
    light = re.search(r"--s0: (.*?)--faint", style.read_text())[0]
    assert tuple(re.findall(r"#[0-9a-f]{6}", light)) == SERIES
