"""Weighting files: what is written is read back exactly, and what is no such file is refused."""

import pytest

from podium.formats.errors import FormatError
from podium.search import WEIGHTINGS, parse_weighting, read_weighting, write_weighting


@pytest.mark.parametrize("name", sorted(WEIGHTINGS))
def test_every_weighting_reads_back(tmp_path, name):
    write_weighting(tmp_path / "w.toml", name, note="a note\nof two lines")
    assert read_weighting(tmp_path / "w.toml") == (parse_weighting(name), {"whole": 1.0})


def test_numbers_and_fields_read_back_exactly(tmp_path):
    weighting, fields = parse_weighting(f"bm25(k1={1 / 3!r}, b={2 / 3!r})"), {"title": 1e-5, "body": 0.1 + 0.2}
    write_weighting(tmp_path / "w.toml", weighting, fields)
    assert read_weighting(tmp_path / "w.toml") == (weighting, fields)
    (tmp_path / "short.toml").write_text('weighting = "bm25"\nparameters.k1 = 2\n')
    assert read_weighting(tmp_path / "short.toml") == (parse_weighting("bm25(k1=2)"), {"whole": 1.0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'expected weighting = "bm25" or another name'),
        ("weighting = 5", 'expected weighting = "bm25" or another name'),
        ('weighting = "bm26"', "weighting must be one of .*bm25"),
        ('weighting = "bm25"\nk1 = 2', "key must be one of weighting, parameters, fields; got 'k1'"),
        ('weighting = "bm25"\nparameters.k2 = 2', "parameter of bm25 must be one of"),
        ('weighting = "bm25"\nparameters.k1 = -2', "k1 must be a number from 0 to inf; got -2"),
        ('weighting = "bm25"\nparameters.k1 = "2"', "parameters: k1 must be a number; got '2'"),
        ('weighting = "bm25"\nparameters.b = true', "parameters: b must be a number; got True"),
        ('weighting = "bm25"\nparameters = 2', "parameters must be a table of numbers"),
        ('weighting = "bm25"\nfields.body = 0', "the weight of field body must be above 0"),
        ('weighting = "bm25"\nfields.head = 1', "field must be one of"),
        ('weighting = "bm25"\nfields.body = nan', "the weight of field body must be above 0"),
        ("weighting = bm25", "Invalid value"),
        ("x = " + "[" * 5000, "."),
        ("#" * 70_000, "larger than 64 KiB"),
    ],
)
def test_what_is_no_weighting_file_is_refused(tmp_path, text, message):
    (tmp_path / "w.toml").write_text(text)
    with pytest.raises(FormatError, match=message) as refused:
        read_weighting(tmp_path / "w.toml")
    assert str(tmp_path / "w.toml") in str(refused.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    (tmp_path / "w.toml").write_bytes(b"weighting = \xff")
    with pytest.raises(FormatError, match="utf-8"):
        read_weighting(tmp_path / "w.toml")
