"""The tables of docs/coming-from.md cannot rot: names and defaults are asked of the code, ours and theirs."""

import inspect
import json
import re
from pathlib import Path

import numpy as np
import pytest
from promises import NUMBER, assert_alike, promised
from threadpoolctl import threadpool_limits

from podium.models.frame.ranker import Ranker
from podium.models.registry import catalogue, find_model
from podium.models.trees import named as models
from podium.objectives import parse_objective

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "coming-from.md").read_text(encoding="utf-8")
BESIDE = (ROOT / "docs" / "side-by-side.md").read_text(encoding="utf-8")
CODE = re.compile(r"^```(?:py|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CELL = re.compile(r"`(\w+)`(?: (\S+))?")
NAMES = {name for entry in catalogue() for name in entry.parameters}


def table(title):
    """The rows of the first table below a heading, as lists of cells."""
    lines = PAGE.split(f"## {title}\n")[1].split("\n## ")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")][2:]


def column(number):
    """{our name: (their name, their default)} of a column of the parameters."""
    cells = {row[0].strip("`"): CELL.fullmatch(row[number]) for row in table("Parameters")}
    return {name: cell.groups() for name, cell in cells.items() if cell}


def only_here():
    return re.findall(r"`(\w+)`", re.search(r"\*\*Only here:\*\*(.*)", PAGE)[1])


def same(shown, default):
    """Whether a default as the page writes it is the default."""
    try:
        return float(shown) == pytest.approx(float(default), rel=1e-6, abs=1e-12)
    except (TypeError, ValueError):
        return shown == str(default)


def test_every_parameter_of_lambdamart_is_in_the_table_or_only_here():
    rows = [row[0].strip("`") for row in table("Parameters")]
    assert sorted([*rows, *only_here()]) == sorted(find_model("lambdamart").parameters)


def test_every_name_of_ours_in_the_table_is_a_parameter_and_every_default_is_its_own():
    parameters = find_model("lambdamart").parameters
    for row in table("Parameters"):
        assert len(row) == 7, row
        assert row[0].strip("`") in NAMES
        assert same(row[1], parameters[row[0].strip("`")].default), row[0]
    assert set(only_here()) <= NAMES


def test_what_goes_into_fit_does():
    assert {row[0].strip("`") for row in table("Arguments of fit")} == set(inspect.signature(Ranker.fit).parameters) - {
        "self",
        "X",
        "y",
    }


def test_models_objectives_and_settings_of_the_other_table_exist():
    for row in table("Objectives and boosting modes"):
        for code in re.findall(r"`([^`]*)`", row[1]):
            if code.startswith("Boosted(objective=f)"):
                continue
            model = eval(code if "(" in code and code[0].isupper() else f"LambdaMART({code})", vars(models))
            model.check_parameters()
    for name in re.findall(r'objective="(\w+)"', PAGE):
        parse_objective(name)


def tiny():
    """Rows, labels and query ids."""
    rng = np.random.default_rng(0)
    return rng.random((200, 3)), rng.integers(0, 3, 200), np.repeat(np.arange(10), 20)


def test_the_names_and_defaults_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm", minversion="4.5")
    X, y, _ = tiny()
    data = lightgbm.Dataset(X, y, group=[20] * 10, init_score=np.zeros(200))
    quiet = {"objective": "lambdarank", "verbosity": -1, "num_threads": 1}
    text = lightgbm.train(quiet, data, 1).model_to_string()
    theirs = dict(re.findall(r"^\[(\w+): (.*)\]$", text, re.MULTILINE)) | {"num_iterations": "100", "init_score": ""}
    for ours, (name, default) in column(2).items():
        assert name in theirs, name
        assert default is None or same(default, theirs[name]), (ours, name)


def test_the_names_and_defaults_of_xgboost():
    import xgboost

    X, y, qid = tiny()
    config = xgboost.train({"objective": "rank:ndcg", "nthread": 1}, xgboost.DMatrix(X, y, qid=qid), 1).save_config()
    dart = {"booster": "dart", "nthread": 1}
    config += xgboost.train(dart, xgboost.DMatrix(X, y), 1).save_config()
    theirs = {name: json.loads(f'"{text}"') for name, text in re.findall(r'"(\w+)":"([^"]*)"', config)}
    theirs |= {"n_estimators": xgboost.XGBRanker().get_num_boosting_rounds()}
    theirs |= dict.fromkeys(("base_margin", "eval_metric")) | {"gamma": theirs["min_split_loss"]}
    for ours, (name, default) in column(3).items():
        assert name in theirs, name
        assert default is None or same(default, theirs[name]), (ours, name)


def test_the_names_and_defaults_of_scikit_learn():
    from sklearn.ensemble import HistGradientBoostingRegressor

    theirs = inspect.signature(HistGradientBoostingRegressor).parameters
    for ours, (name, default) in column(4).items():
        assert name in theirs, name
        assert same(default, theirs[name].default), (ours, name)


def test_the_names_and_defaults_of_catboost():
    catboost = pytest.importorskip("catboost", minversion="1.2")
    X, y, qid = tiny()
    model = catboost.CatBoostRanker(verbose=0, thread_count=1, allow_writing_files=False).fit(X, y, group_id=qid)
    theirs = model.get_all_params() | {"sampling_unit": "Object"}
    known = {*inspect.signature(catboost.CatBoostRanker).parameters, *inspect.signature(model.fit).parameters}
    for ours, (name, default) in column(5).items():
        assert name in known, name
        assert default is None or same(default, theirs[name]), (ours, name)


X, Y = np.array([[1], [2], [2], [3], [5], [8], [np.nan]]), np.array([0.0, 0, 1, 2, 4, 5, 9])
GAIN = 81 / 4 + 81 / 3  # of the best cut, in docs/trees.md


@pytest.mark.filterwarnings("ignore:no tree could split:UserWarning")
def test_we_and_scikit_learn_count_the_same_gain():
    from sklearn.ensemble import HistGradientBoostingRegressor

    theirs = HistGradientBoostingRegressor(max_iter=1, max_leaf_nodes=2, min_samples_leaf=1).fit(X, Y)
    assert theirs._predictors[0][0].nodes["gain"][0] == pytest.approx(GAIN, rel=1e-5)
    for min_gain, nodes in ((GAIN - 1, 3), (GAIN + 1, 1)):
        ours = models.RegressionTree(max_leaf_nodes=2, min_samples_leaf=1, min_gain=min_gain).fit(X, Y, group=[7])
        assert len(ours.forest_.gain) == nodes
        assert ours.forest_.gain[0] == (pytest.approx(GAIN, rel=1e-6) if nodes == 3 else 0)


def test_lightgbm_counts_the_same_gain():
    lightgbm = pytest.importorskip("lightgbm")
    quiet = {"verbosity": -1, "min_data_in_bin": 1, "feature_pre_filter": False, "num_threads": 1}
    for least, leaves in ((GAIN - 1, 2), (GAIN + 1, 1)):
        small = {"objective": "l2", "num_leaves": 2, "min_data_in_leaf": 1, "min_gain_to_split": least}
        model = lightgbm.train(quiet | small, lightgbm.Dataset(X, Y, params=quiet), 1).dump_model()
        assert model["tree_info"][0]["num_leaves"] == leaves
        if leaves == 2:
            assert model["tree_info"][0]["tree_structure"]["split_gain"] == pytest.approx(GAIN, rel=1e-5)


def test_xgboost_counts_the_same_gain():
    import xgboost

    for gamma, leaf in ((GAIN - 1, False), (GAIN + 1, True)):
        plain = {"max_depth": 1, "min_child_weight": 0, "reg_lambda": 0, "nthread": 1, "gamma": gamma}
        model = xgboost.train(plain, xgboost.DMatrix(X, Y), 1)
        tree = json.loads(model.get_dump(dump_format="json", with_stats=True)[0])
        assert ("leaf" in tree) == leaf
        if not leaf:
            assert tree["gain"] == pytest.approx(GAIN, rel=1e-5)


TABLE = re.compile(r"<table><tr><th>(\w+)</th><th>Podium</th></tr>(.*?)</table>", re.DOTALL)
SIDES = [(library, *CODE.findall(both)) for library, both in TABLE.findall(BESIDE)]


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    from podium.demo.letor import write_demo

    folder = tmp_path_factory.mktemp("sides")
    write_demo(folder / "demo")
    return folder


def test_every_block_of_the_page_of_two_columns_is_one_side_of_a_task():
    assert sum(len(sides) for _, *sides in SIDES) == len(CODE.findall(BESIDE)) == 2 * len(SIDES)
    assert {library for library, *_ in SIDES} == {"LightGBM", "XGBoost", "ranx", "PyTerrier"}
    for library, theirs, ours in SIDES:
        assert f"import {library.lower()}" in theirs
        assert f"import {library.lower()}" not in ours


@pytest.mark.filterwarnings("ignore::Warning")  # of ranx
@pytest.mark.parametrize(("library", "theirs", "ours"), SIDES)
def test_both_columns_do_what_their_comments_say_and_agree(library, theirs, ours, demo_folder, monkeypatch, capsys):
    """Blocks of ours that are marked as Python are run by test_docs.py too; here they are run for what they print."""
    if library == "PyTerrier":  # needs Java and files of Terrier
        compile(theirs, "side-by-side.md", "exec")
        return
    pytest.importorskip(library.lower(), minversion="4.7" if library == "LightGBM" else None)  # has eval_X
    monkeypatch.chdir(demo_folder)
    shown = []
    for code in (theirs, ours):
        with threadpool_limits(1):  # small data: theirs would wait for one another
            exec(compile(code, "side-by-side.md", "exec"), {})
        shown.append(capsys.readouterr().out.strip())
        assert_alike(shown[-1], promised(code), trained=True)
    if "fit(" in ours:
        assert [float(one) for one in NUMBER.findall(shown[0])] == pytest.approx(
            [float(one) for one in NUMBER.findall(shown[1])], rel=0.05
        )
    else:
        assert shown[0] == shown[1]


def test_the_pictures_are_small_and_carry_no_date():
    for picture in (ROOT / "docs" / "pictures").glob("*.svg"):
        text = picture.read_text(encoding="utf-8")
        assert len(text) < 60_000, picture.name
        assert "dc:date" not in text, picture.name
