"""TREC files: columns as the file says, queries together, everything doubtful refused by line."""

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from podium.data.ranking import RankingData
from podium.formats.errors import FormatError
from podium.formats.trec import Qrels, Run, read_qrels, read_run, write_qrels, write_run

QRELS = b"301 0 FR-1#a 2\n301\t0\tFR-2\t0\r\n\n302 Q0 FR-1#a -1\n"
RUN = b"301 Q0 d1 1 12.5 bm25\n301 Q0 d2 2 1e-3 bm25\n302 Q0 d1 9 -4 bm25\n"


def written(folder, content: bytes, name: str = "trec.txt"):
    path = folder / name
    path.write_bytes(content)
    return path


def test_qrels_keep_negative_labels_and_ids_with_a_hash(tmp_path):
    qrels = read_qrels(written(tmp_path, QRELS))
    assert qrels.to_dict() == {"301": {"FR-1#a": 2, "FR-2": 0}, "302": {"FR-1#a": -1}}
    assert qrels.labels.tolist() == [2.0, 0.0, -1.0]
    assert repr(qrels) == "Qrels(3 pairs, 2 queries)"


def test_fractions_of_relevance_are_read(tmp_path):
    assert read_qrels(written(tmp_path, b"1 0 d 0.5\n")).labels.tolist() == [0.5]


def test_a_run_takes_the_score_and_ignores_the_rank(tmp_path):
    run = read_run(written(tmp_path, RUN))
    assert run.to_dict() == {"301": {"d1": 12.5, "d2": 0.001}, "302": {"d1": -4.0}}
    assert run.offsets.tolist() == [0, 2, 3]
    assert run.docids.tolist() == ["d1", "d2", "d1"]


def test_the_tag_of_a_run_may_be_missing_on_any_line(tmp_path):
    run = read_run(written(tmp_path, b"1 Q0 a 1 2\n1 Q0 b 2 1 tag\n1 Q0 c 3 0"))
    assert run.to_dict() == {"1": {"a": 2.0, "b": 1.0, "c": 0.0}}


def test_interleaved_queries_are_put_together_in_order_of_first_appearance(tmp_path):
    run = read_run(written(tmp_path, b"b Q0 x 2 1 t\na Q0 y 1 2 t\nb Q0 z 1 3 t\n"))
    assert list(run.to_dict().items()) == [("b", {"x": 1.0, "z": 3.0}), ("a", {"y": 2.0})]


def test_the_same_document_in_two_queries_is_fine_and_ids_are_never_numbers(tmp_path):
    qrels = read_qrels(written(tmp_path, b"1 0 7 1\n01 0 7 1\n1.0 0 7 1\n18446744073709551616 0 007 1\n"))
    assert qrels.query_ids.tolist() == ["1", "01", "1.0", "18446744073709551616"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"1 Q0 d 1 2 t\n1 Q0 e 1\n",
            r"trec.txt, line 2: expected 5 or 6 columns .* found 4: '1 Q0 e 1'. Is it qrels\?",
        ),
        (b"1 Q0 d x 1 2 t\n", "line 1: expected 5 or 6 columns .* found 7.* Ids must not hold blanks"),
        (b"1 Q0 d 1 abc t\n", "line 1: the score .*column 5.* must be a finite number; found 'abc'"),
        (b"\n\n1 Q0 d 1 nan t\n", "line 3: the score .* found 'nan'"),
        (b"1 Q0 d 1 inf t\n", "found 'inf'"),
        (b"1 Q0 d 1 1e999 t\n", "found '1e999'"),
        (b"1 Q0 d 1 1_0 t\n", "found '1_0'"),
        (b"1 Q0 d 1 2 t\n2 Q0 d 1 2 t\n1 Q0 d 3 1 t\n", "line 3: document 'd' of query '1' is already at line 1"),
        (b"", "has no rows; expected lines of 'qid Q0 docno rank score tag'"),
        (b"\n \n\t\n", "has no rows"),
        (b"1 Q0 d\x00 1 2 t\n", "line 1: not plain text"),
        ("1 Q0 d 1 2 t\n".encode("utf-16"), "is it UTF-16 or binary"),
        (b"1 Q0 d 1 2 t\r2 Q0 d 1 2 t\r", "found 12"),
    ],
)
def test_a_bad_run_is_refused_by_line(tmp_path, content, message):
    with pytest.raises(FormatError, match=message):
        read_run(written(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"1 0 d x\n", "line 1: the relevance .*column 4.* found 'x'"),
        (b"1 0 d nan\n", "found 'nan'"),
        (b"1 0 d\n", "expected 4 columns .* found 3"),
        (b"1 Q0 d 1 2 t\n", r"expected 4 columns .* found 6.* Is it a run\?"),
        (b"1 0 d 1\n1 0 d 1\n", "line 2: document 'd' of query '1' is already at line 1; remove one of them"),
    ],
)
def test_bad_qrels_are_refused_by_line(tmp_path, content, message):
    with pytest.raises(FormatError, match=message):
        read_qrels(written(tmp_path, content))


def test_lines_are_numbered_right_in_later_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("podium.formats.lines._BLOCK_BYTES", 16)
    lines = [b"1 Q0 d%d 1 2 t" % number for number in range(50)]
    lines[40] = b"1 Q0 d40 1 x t"
    with pytest.raises(FormatError, match="line 41: the score"):
        read_run(written(tmp_path, b"\n".join(lines)))


def test_a_written_run_is_ranked_by_score_then_document_id_descending(tmp_path):
    run = Run.from_dict({"q": {"d1": 1.0, "d3": 2.0, "d2": 2.0, "é": 2.0}, "empty": {}, "p": {"d": 0.1}})
    write_run(run, tmp_path / "out.run", tag="mine")
    assert (tmp_path / "out.run").read_text().splitlines() == [
        "q Q0 é 1 2 mine",  # as bytes, é is above every ASCII letter
        "q Q0 d3 2 2 mine",
        "q Q0 d2 3 2 mine",
        "q Q0 d1 4 1 mine",
        "p Q0 d 1 0.1 mine",
    ]


def test_the_best_of_each_query_are_ranked_as_a_written_run_is():
    run = Run.from_dict({"7": {"a": 1.0, "b": 3.0, "c": 1.0}, "8": {}, "9": {"z": -2.0}})
    assert list(run.ranked().to_dict()["7"].items()) == [("b", 3.0), ("c", 1.0), ("a", 1.0)]
    assert run.ranked(2).to_dict() == {"7": {"b": 3.0, "c": 1.0}, "8": {}, "9": {"z": -2.0}}
    assert Run.from_dict({}).ranked(5).to_dict() == {}
    with pytest.raises(ValueError, match="top must be an integer from 1; got 0"):
        run.ranked(0)


def test_written_qrels_have_four_columns(tmp_path):
    write_qrels(Qrels.from_dict({"1": {"b": 2, "a": 0.5}, "2": {"b": -1}}), tmp_path / "q.gz")
    assert read_qrels(tmp_path / "q.gz").to_dict() == {"1": {"b": 2, "a": 0.5}, "2": {"b": -1}}


names = st.text(st.characters(blacklist_categories=["Cs"]), min_size=1).filter(
    lambda name: not set(name) & set(" \t\n\r\x0b\x0c\0") and not name.startswith(("\ufeff", "#"))
)
numbers = st.floats(allow_nan=False, allow_infinity=False)
tables = st.dictionaries(names, st.dictionaries(names, numbers, min_size=1, max_size=5), min_size=1, max_size=5)


@given(table=tables)
def test_what_is_written_reads_back_exactly(tmp_path_factory, table):
    folder = tmp_path_factory.mktemp("trec")
    write_qrels(Qrels.from_dict(table), folder / "qrels")
    write_run(Run.from_dict(table), folder / "run")
    assert read_qrels(folder / "qrels") == Qrels.from_dict(table)
    assert read_run(folder / "run").to_dict() == table
    assert list(read_run(folder / "run").to_dict()) == list(table)


words = st.sampled_from([b"1", b"Q0", b"d", b"d#1", b"2.5", b"x", b"nan", b"\xff\xfe", b"\xc3", b"\xef\xbb\xbf"])
separators = st.sampled_from([b" ", b"\t", b"\n", b"\r\n", b"\r", b"  ", b"\x0b", b"\x1c", b"\0"])
soups = st.lists(st.tuples(words, separators), max_size=24).map(lambda parts: b"".join(map(b"".join, parts)))


def slow_run(content: bytes) -> dict | None:
    """What a run says, line by line; None when it must be refused."""
    if b"\0" in content or content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return None
    table: dict = {}
    for line in content.removeprefix(b"\xef\xbb\xbf").split(b"\n"):
        columns = line.split()
        if not columns:
            continue
        if len(columns) not in (5, 6) or not set(columns[4]) <= set(b"0123456789+-.eE"):
            return None
        query, document = (column.decode("utf-8", "surrogateescape") for column in (columns[0], columns[2]))
        try:
            score = float(columns[4])
        except ValueError:
            return None
        if document in table.setdefault(query, {}) or not np.isfinite(score):
            return None
        table[query][document] = score
    return table or None


@given(content=st.one_of(st.binary(max_size=200), soups))
@example(b"1 Q0 d 1 2.5 x\n1 Q0 d#1 1 2.5")
@example(b"\xef\xbb\xbf1 Q0 d 1 2.5\r\n")
def test_any_bytes_give_the_right_columns_or_a_format_error(tmp_path_factory, content):
    path = written(tmp_path_factory.mktemp("soup"), content)
    expected = slow_run(content)
    if expected is None:
        with pytest.raises(FormatError, match=r"trec\.txt"):
            read_run(path)
    else:
        assert read_run(path).to_dict() == expected
    with suppress(FormatError):
        read_qrels(path)


def small_data(**more) -> RankingData:
    return RankingData.from_arrays(np.zeros((3, 1)), [2, 0, 1], qid=[7, 3, 7], **more)


def test_ranking_data_gives_qrels_and_runs_in_its_order():
    data = small_data(docids=["a", "b", "c"])
    assert Qrels.from_data(data).to_dict() == {"7": {"a": 2, "c": 1}, "3": {"b": 0}}
    assert Run.from_scores(data, [0.5, 1.5, 2.5]).to_dict() == {"7": {"a": 0.5, "c": 2.5}, "3": {"b": 1.5}}


def test_ranking_data_without_document_ids_gives_no_run():
    with pytest.raises(ValueError, match="no document ids, and a run needs them"):
        Run.from_scores(small_data(), [1, 2, 3])


def test_scores_must_fit_the_data_and_be_finite():
    data = small_data(docids=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"expected one number per document \(3\); got shape \(2,\)"):
        Run.from_scores(data, [1, 2])
    with pytest.raises(ValueError, match="query '7', document 'c': nan is no finite number"):
        Run.from_scores(data, [1, 2, np.nan])


def test_a_document_twice_in_a_query_is_refused():
    with pytest.raises(ValueError, match="query '7' has document 'a' more than once"):
        Qrels.from_data(small_data(docids=["a", "b", "a"]))
    with pytest.raises(ValueError, match="query '1' is there more than once"):
        Qrels.from_dict({1: {"a": 1}, "1": {"b": 1}})


@pytest.mark.parametrize("name", ["a b", "", "a\nb", "a\x00", "\ufeffa"])
def test_names_that_a_trec_file_cannot_hold_are_not_written(tmp_path, name):
    with pytest.raises(ValueError, match="query id"):
        write_qrels(Qrels.from_dict({name: {"d": 1}}), tmp_path / "q")
    if not name.startswith("\ufeff"):
        with pytest.raises(ValueError, match="document id"):
            write_run(Run.from_dict({"q": {name: 1}}), tmp_path / "r")
    with pytest.raises(ValueError, match="tag must be one word"):
        write_run(Run.from_dict({"q": {"d": 1}}), tmp_path / "r", tag="a b")
    assert not list(tmp_path.iterdir())


def test_the_columns_cannot_be_changed():
    run = Run.from_dict({"q": {"d": 1.0}})
    with pytest.raises(ValueError, match="read-only"):
        run.scores[0] = 2
    with pytest.raises(AttributeError):
        run.values = np.zeros(1)


def test_real_qrels_are_read(real_data):
    qrels = read_qrels(real_data / "cran" / "QRelsCorrectedforTRECeval")
    assert (len(qrels), qrels.n_queries) == (1837, 225)
    labels, counts = np.unique(qrels.labels, return_counts=True)
    assert dict(zip(labels, counts)) == {1: 363, 2: 734, 3: 387, 4: 128, 5: 225}
    assert qrels.to_dict()["1"]["184"] == 3
