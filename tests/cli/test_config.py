"""`podium train --config`: the file is the command line in TOML; what the command line says wins."""

import json
import sys

import pytest

from podium import cli, load

DATA = "".join(f"{n % 3} qid:{n // 6} 1:{n * 7 % 11} 2:{n * 5 % 13}\n" for n in range(60))


@pytest.fixture
def podium(monkeypatch, capsys, tmp_path):
    (tmp_path / "conf").mkdir()
    for number in (1, 2, 3):
        (tmp_path / "conf" / f"S{number}.txt").write_text(
            DATA.replace("qid:", f"qid:{number}0").replace("1:1 ", f"1:1.{number} ")
        )
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["podium", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


CONFIG = """\
model = "lambdamart"
train = ["S1.txt", "S2.txt"]
valid = "S3.txt"
out = "m.podium"
early-stopping = 3
seed = 7
one-based = true

[parameters]
n_estimators = 6
metric = "map"
min_samples_leaf = 3
goss = [0.5, 0.3]
extra_trees = false
max_leaf_nodes = "auto"
"""


def configured(folder, text=CONFIG):
    (folder / "conf" / "train.toml").write_text(text.replace("one-based = true", "zero-based = false"))
    return "conf/train.toml"


def test_a_file_trains_what_the_same_command_line_trains(podium, tmp_path):
    code, out, err = podium("train", "--config", configured(tmp_path))
    assert code == 0, err
    assert "120 documents of 20 queries" in out
    settings = ["n_estimators=6", "metric=map", "min_samples_leaf=3", "goss=[0.5,0.3]"]
    settings += ["extra_trees=False", "max_leaf_nodes=auto"]
    words = ["train", "lambdamart", "conf/S1.txt", "conf/S2.txt", "--valid", "conf/S3.txt", "--out", "by-hand.podium"]
    words += ["--early-stopping", "3", "--seed", "7", *(word for setting in settings for word in ("--set", setting))]
    assert podium(*words)[0] == 0
    assert (tmp_path / "conf" / "m.podium").read_bytes() == (tmp_path / "by-hand.podium").read_bytes()


@pytest.mark.parametrize("first", [True, False])
def test_the_command_line_wins(podium, tmp_path, first):
    config = ["--config", configured(tmp_path)]
    words = [
        "boosted",
        "conf/S2.txt",
        "--out",
        "other.podium",
        "--set",
        "n_estimators=2",
        "--set",
        "goss=None",
        "--json",
    ]
    code, out, err = podium("train", *(config + words if first else words + config))
    assert code == 0, err
    said = json.loads(out)
    assert (said["model"], said["out"]) == ("boosted", "other.podium")
    chosen = {name: said["parameters"][name] for name in ("n_estimators", "goss", "min_samples_leaf", "random_state")}
    assert chosen == {"n_estimators": 2, "goss": None, "min_samples_leaf": 3, "random_state": 7}
    assert load("other.podium").n_queries_ == 10
    assert not (tmp_path / "conf" / "m.podium").exists()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "early-stopping = 3",
            "early-stoping = 3",
            "early-stoping: there is no such option. Did you mean 'early-stopping'?",
        ),
        ("early-stopping = 3", 'early-stopping = "3"', "early-stopping: expected an integer, but found '3'."),
        ("early-stopping = 3", "early-stopping = 0", "early-stopping: expected 1 or more, but found 0."),
        ("seed = 7", "seed = true", "seed: expected an integer, but found True."),
        (
            '["S1.txt", "S2.txt"]',
            '["S1.txt", 2]',
            "train[1]: expected the name of a file or a list of it, but found 2.",
        ),
        ('valid = "S3.txt"', "valid = 3", "valid: expected the name of a file or a list of it, but found 3."),
        (
            "n_estimators = 6",
            "n_estimator = 6",
            "parameters.n_estimator: LambdaMART has no such parameter. Did you mean",
        ),
        (
            "n_estimators = 6",
            "n_estimators = 0",
            "parameters.n_estimators: LambdaMART: n_estimators must be an integer from",
        ),
        (
            "n_estimators = 6",
            'n_estimators = "many"',
            "parameters.n_estimators: LambdaMART: n_estimators must be an integer",
        ),
        ("[parameters]", "[params]", "params: there is no such option. Did you mean 'parameters'?"),
        ("[parameters]", "[parameters", "expected TOML but found"),
        ("seed = 7", "set = ['a=1']", "set: there is no such option"),
    ],
)
def test_every_mistake_is_named_with_its_path(podium, tmp_path, old, new, message):
    config = configured(tmp_path, CONFIG.replace(old, new))
    code, _, err = podium("train", "--config", config)
    assert code == 2
    assert f"podium: conf/train.toml: {message}" in err
    assert not (tmp_path / "conf" / "m.podium").exists()


def test_all_mistakes_are_named_at_once(podium, tmp_path):
    text = CONFIG.replace("seed = 7", "seed = 0.5\nsed = 3")
    lines = podium("train", "--config", configured(tmp_path, text))[2].splitlines()
    assert [line.split(": ")[-2] for line in lines] == ["seed", "sed"]
    text = CONFIG.replace("n_estimators = 6", "n_estimators = -6\nmin_gain = -1")
    lines = podium("train", "--config", configured(tmp_path, text))[2].splitlines()
    assert [line.split(": ")[-3] for line in lines] == ["parameters.n_estimators", "parameters.min_gain"] or len(
        lines
    ) == 2


def test_an_init_model_may_be_a_file_beside_the_configuration(podium, tmp_path):
    assert podium("train", "mart", "conf/S1.txt", "--out", "conf/base.podium", "--set", "n_estimators=2")[0] == 0
    text = CONFIG.replace("goss = [0.5, 0.3]", 'init = "base.podium"')
    assert podium("train", "--config", configured(tmp_path, text))[0] == 0
    assert type(load("conf/m.podium").init_).__name__ == "MART"


def test_a_file_that_is_not_there_is_named(podium):
    code, _, err = podium("train", "--config", "none.toml")
    assert (code, err) == (2, "podium: none.toml: No such file or directory\n")
