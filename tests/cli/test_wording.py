"""Wording: messages of the library in the words of the command line."""

import pytest
import typer

from podium import cli
from podium.cli.wording import for_command_line, options_of


@pytest.mark.parametrize(
    ("words", "message", "shown"),
    [
        (["eval"], "missing must be 'zero'", "missing must be 'zero'"),
        (["eval"], 'missing="zero" counts them', "--missing zero counts them"),
        (["features"], "unjudged='skip' and add_judged need qrels.", "--unjudged skip and --add-judged need qrels."),
        (["train", "bagged"], 'use sample="queries".', "use --set sample=queries."),
        (["train", "linear"], "or set interactions=False", "or --set interactions=False"),
        (["train", "linear"], 'found <svg xmlns="x">', 'found <svg xmlns="x">'),  # data, not a parameter
        (["rank"], "set interactions=False", "set interactions=False"),  # there is no --set
        (["train", "mart"], "Give random_state=None", "Give --seed None"),
        (["train", "mart"], "early_stopping_rounds needs an eval_set", "--early-stopping needs an --valid"),
        (
            ["train", "mart"],
            "my_eval_set/early_stopping_rounds.txt: gone",
            "my_eval_set/early_stopping_rounds.txt: gone",
        ),
        (["index"], "was built with keep_texts=False", "was built with --no-texts"),
        (["lab", "run"], "on='valid'", "--on valid"),
    ],
)
def test_arguments_of_python_become_options(words, message, shown):
    assert for_command_line(message, lambda: options_of(typer.main.get_command(cli.app), words)) == shown
