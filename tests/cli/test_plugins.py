"""`--plugin MODULE`: imported before the command runs, from the current folder too, in every process."""

import subprocess
import sys

import pytest

PLUGIN = "import os, pathlib\npathlib.Path(__file__).with_name(f'imported-{os.getpid()}').touch()\n"
EXPERIMENT = 'name = "x"\nmetrics = ["map"]\nfolds = {k = 3}\n[data]\nfiles = ["data.txt"]\n[models.Linear]\n'


@pytest.fixture
def run(tmp_path):
    (tmp_path / "toy_plugin.py").write_text(PLUGIN)
    (tmp_path / "broken_plugin.py").write_text("1 / 0\n")

    def run(*words):
        command = [sys.executable, "-c", "from podium.cli import main; main()", *words]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


@pytest.mark.parametrize(
    "words", ["--plugin toy_plugin models", "models --plugin toy_plugin", "lab show mq2008 --plugin=toy_plugin"]
)
def test_a_plugin_of_the_current_folder_is_imported_before_or_behind_the_command(run, tmp_path, words):
    done = run(*words.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert len(list(tmp_path.glob("imported-*"))) == 1


@pytest.mark.parametrize(
    ("name", "reason"), [("nowhere", "No module named 'nowhere'"), ("broken_plugin", "ZeroDivisionError: division")]
)
def test_a_plugin_that_cannot_be_imported_is_an_error_in_one_sentence(run, name, reason):
    done = run("models", "--plugin", name)
    assert done.returncode == 2
    assert done.stderr.startswith(f"podium: --plugin {name}: cannot be imported (")
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_stands_behind_two_dashes_is_no_plugin(run, tmp_path):
    assert run("models", "--", "--plugin", "toy_plugin").returncode == 2
    assert not list(tmp_path.glob("imported-*"))


def test_processes_of_an_experiment_import_the_plugins_too(run, tmp_path):
    lines = [f"{(q + d) % 2} qid:{q} 1:{d * 0.1} 2:{(q + d) % 2}" for q in range(6) for d in range(4)]
    (tmp_path / "data.txt").write_text("\n".join(lines))
    (tmp_path / "exp.toml").write_text(EXPERIMENT)
    done = run("lab", "run", "exp.toml", "--jobs", "1", "--no-report", "--plugin", "toy_plugin")
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob("imported-*"))) == 2
