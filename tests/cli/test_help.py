"""Help that fits: summaries are whole sentences, lines have at most 80 columns; shells can complete commands."""

import sys

import pytest
import typer

from podium import cli
from podium.cli.terminal import console, print_tuned
from podium.lab.tuning.tuning import Trial, Tuned
from podium.models.trees.named import LambdaMART


def commands(group, words=()):
    for name, command in group.commands.items():
        yield (*words, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*words, name))


COMMANDS = dict(commands(typer.main.get_command(cli.app)))


@pytest.fixture
def podium(monkeypatch, capsys):
    def run(*words):
        monkeypatch.setattr(sys, "argv", ["podium", *words])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        captured = capsys.readouterr()
        return stopped.value.code or 0, captured.out, captured.err

    return run


@pytest.mark.parametrize("words", [(), ("lab",)])
def test_every_command_is_summed_up_by_a_whole_sentence(words, podium, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, _ = podium(*words, "--help")
    assert code == 0
    below = [name for name in COMMANDS if name[:-1] == words]
    lines = {line.split()[0]: line for line in out.split("Commands:\n")[1].splitlines() if line.strip()}
    assert sorted(lines) == sorted(name[-1] for name in below)
    for name in below:
        first = (COMMANDS[name].help or "").split(". ")[0].rstrip(".")
        assert lines[name[-1]].endswith(f"  {first}."), name


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_fits_in_80_columns(words, podium, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    code, out, err = podium(*words, "--help")
    assert (code, err) == (0, "")
    assert max(map(len, out.splitlines())) <= 80


def test_the_trials_of_tune_can_be_read_in_80_columns(monkeypatch, capsys):
    settings = {"learning_rate": 0.0712345, "max_leaf_nodes": 31, "min_samples_leaf": 12, "feature_fraction": 0.612345}
    settings |= {"l2_regularization": 1.23456, "extra_trees": True, "growth": "level"}
    trials = (Trial(settings, 0.75, 40, 1.0), Trial(settings | {"max_leaf_nodes": 7}, 0.5, 30, 1.0))
    model = LambdaMART()
    monkeypatch.setattr("podium.cli.terminal.console", lambda file=None: narrow(file))
    print_tuned(Tuned(trials, settings, model, 2.0, "ndcg@10 (standard)", "random", 0), sys.stdout)
    table = [line for line in capsys.readouterr().out.splitlines() if line[:1] in "│┃"]
    assert max(map(len, table)) <= 80
    shown = " ".join(line.strip("│┃").split("│")[-1].strip() for line in table)
    for name in settings:
        assert f"{name}=" in shown  # no name is broken over lines
    assert "learning_rate=0.07123" in shown


def narrow(file):
    made = console(file)
    made.width = 80
    return made


@pytest.mark.parametrize(
    ("typed", "completed"),
    [("podium tr", ["train"]), ("podium lab r", ["run", "report"]), ("podium rank --for", ["--format", "--force"])],
)
def test_a_shell_completes_commands_and_options(typed, completed, podium, monkeypatch):
    monkeypatch.setenv("_PODIUM_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    code, out, _ = podium()
    assert (code, out.split()) == (0, completed)


def test_completion_can_be_shown_for_a_shell(podium, monkeypatch):
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    code, out, _ = podium("--show-completion", "bash")
    assert code == 0
    assert "_PODIUM_COMPLETE" in out
