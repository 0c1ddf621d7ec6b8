"""Settings: a file or options, and a sentence for each that is wrong."""

from pathlib import Path

import pytest

from podium.formats.errors import FormatError
from podium.server import settings
from podium.server.settings import Entry, Limits, Settings


def read(tmp_path, text):
    path = tmp_path / "serve.toml"
    path.write_text(text)
    return Settings.read(path)


def test_the_example_of_the_module_is_read_with_paths_relative_to_the_file(tmp_path):
    example = settings.__doc__.partition("\n\n")[2]
    assert read(tmp_path, example) == Settings(
        {
            "products": Entry(
                tmp_path / "products.podium", tmp_path / "new.podium", 0.05, shadow=(tmp_path / "other.podium",)
            )
        },
        log=tmp_path / "feedback.jsonl",
        folder=tmp_path / "versions",
        limits=Limits(waiting=128),
    )


SERVED = '[serve.m]\nlive = "m.podium"\n'
FAULTS = [
    ("prot = 1\n" + SERVED, "prot is not a setting. Did you mean 'port'?"),
    ("port = 70000\n" + SERVED, "port must be an integer from 0 to 65,535; got 70000"),
    ("port = true\n" + SERVED, "port must be an integer"),
    ("", "Nothing to serve"),
    ("[serve]\nm = 3\n", "serve.m must be a table; got 3"),
    ("[serve.m]\ncanary = 'x'\n", "serve.m needs live"),
    ("[serve.m]\nlive = 'x'\nshare = 1\n", "serve.m.share is not a setting"),
    ("[serve.m]\nlive = 'x'\ncanary_share = 1.5\n", "canary_share must be a number between 0 and 1; got 1.5"),
    ("[serve.m]\nlive = 'x'\ncanary_share = 'much'\n", "canary_share must be a number between 0 and 1"),
    ("[serve.m]\nlive = 'x'\nshadow = 'y'\n", "serve.m.shadow must be a list; got 'y'"),
    ("[serve.'a b']\nlive = 'x'\n", "a name must have"),
    (SERVED + "[limits]\nrows = 0\n", "limits.rows must be an integer from 1; got 0"),
    (SERVED + "[limits]\nrows = 1.5\n", "limits.rows must be an integer from 1; got 1.5"),
    (SERVED + "[limits]\ndeadline_seconds = inf\n", "limits.deadline_seconds must be a number above 0; got inf"),
    (SERVED + "[limits]\nrow = 1\n", "limits.row is not a setting. Did you mean 'rows'?"),
    ("host = '0.0.0.0'\n" + SERVED, "there is no token"),
    ("host = 5\n" + SERVED, "host must be text; got 5"),
    ("hosts = 'a'\n" + SERVED, "hosts must be a list; got 'a'"),
    ("threads = 0\n" + SERVED, "threads must be an integer from 1; got 0"),
    ("log = 5\n" + SERVED, "log must be text; got 5"),
    ("port = \n", "is no TOML file"),
]


@pytest.mark.parametrize(("text", "words"), FAULTS)
def test_a_setting_that_is_wrong_is_named_with_its_file(tmp_path, text, words):
    with pytest.raises(FormatError) as error:
        read(tmp_path, text)
    assert words in str(error.value)
    assert "serve.toml" in str(error.value)


def test_tokens(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef\n")
    text = "host = '0.0.0.0'\ntoken_file = 'secret'\n" + SERVED
    assert read(tmp_path, text).token == "0123456789abcdef"
    assert "0123456789abcdef" not in repr(read(tmp_path, text))
    secret.write_text("short")
    with pytest.raises(FormatError, match="the token has 5 characters; give at least 16"):
        read(tmp_path, text)
    secret.write_text("two\nlines of a secret")
    with pytest.raises(FormatError, match="holds no token"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("host", "is_local"), [("127.0.0.1", 1), ("::1", 1), ("localhost", 1), ("0.0.0.0", 0), ("a", 0)]
)
def test_which_hosts_only_this_machine_can_reach(host, is_local):
    entries = {"m": Entry(Path("m.podium"))}
    assert Settings(entries, host=host, token="0123456789abcdef").is_local == bool(is_local)
