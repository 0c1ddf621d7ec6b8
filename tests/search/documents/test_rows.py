"""Rows: the records that Python's csv module writes and reads; one stray quotation mark loses one line."""

import csv
import io
import random

import pytest

from podium.search.documents.rows import table_rows


def rows(text, separator=","):
    return list(table_rows(enumerate(text.split("\n"), 1), separator))


@pytest.mark.parametrize("separator", [",", "\t"])
def test_rows_that_csv_writes_come_back(separator):
    rng = random.Random(0)
    for _ in range(500):
        table = [
            ["".join(rng.choices(["a", '"', separator, "\n", " "], k=rng.randint(0, 6))) for _ in range(3)]
            for _ in range(4)
        ]
        stream = io.StringIO(newline="")
        csv.writer(stream, delimiter=separator, lineterminator="\n").writerows(table)
        assert [cells for _, cells in rows(stream.getvalue(), separator)] == table


def test_lines_without_line_ends_in_cells_are_read_as_csv_reads_them():
    rng = random.Random(1)
    for _ in range(2000):
        line = "".join(rng.choices(["a", '"', ",", " "], k=rng.randint(1, 10)))
        try:
            expected = next(csv.reader([line], strict=False))
        except csv.Error:
            continue
        [(_, cells)] = rows(line)
        assert cells is None or cells == expected


def test_records_are_numbered_by_their_first_lines():
    assert rows('a,b\n\n1,"x\ny"\n2,z') == [(1, ["a", "b"]), (3, ["1", "x\ny"]), (5, ["2", "z"])]


@pytest.mark.parametrize("end", ["", '\n4,"y" x', '\n4,a "y"'])
def test_a_quotation_mark_that_is_not_closed_loses_one_line(end):
    found = rows(f'1,a\n2,"b\n3,c{end}')
    assert found[:3] == [(1, ["1", "a"]), (2, None), (3, ["3", "c"])]
    assert found[3:] == ([(4, ["4", "y x" if "a" not in end else 'a "y"'])] if end else [])
