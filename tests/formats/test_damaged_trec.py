"""Damaged qrels and runs: each is refused with the file, the line and what was expected there."""

import gzip

import pytest

from podium.formats.errors import FormatError
from podium.formats.trec import read_qrels, read_run

RUN_LINE, QRELS_LINE = b"7 Q0 d%d %d %d.5 tag\n", b"7 0 d%d 1\n"
RUN = b"".join(RUN_LINE % (k, k + 1, 9 - k) for k in range(4))
QRELS = b"".join(QRELS_LINE % k for k in range(4))
SCORE, LABEL = "the score .column 5 .* must be a finite number; found ", "the relevance .column 4 .* found "

NO_NUMBERS = [
    b"x",
    b"nan",
    b"NaN",
    b"-nan",
    b"inf",
    b"-inf",
    b"1e999",
    b"-1e400",
    b"1_0",
    b"0x10",
    b"1,5",
    b"--1",
    b"1e",
    b".",
]
NO_NUMBERS += [b"1.2.3", b"+-1", b"1\xc2\xa02", b"\xe2\x88\x921", b"\xd9\xa1", b"True", b"null", b"5%"]
COLUMNS_RUN = [
    b"7",
    b"7 Q0",
    b"7 Q0 d",
    b"7 Q0 d 5",
    b"7 Q0 d e 5 1 tag",
    b"7 Q0 d 5 1 tag more",
    b"7,Q0,d,5,1,tag",
    b"{}",
]
COLUMNS_RUN += [b"<html>", b"7\xc2\xa0Q0\xc2\xa0d\xc2\xa05\xc2\xa01\xc2\xa0tag", b"7 Q0 a b c 5 1 tag"]
COLUMNS_QRELS = [
    b"7",
    b"7 0",
    b"7 0 d",
    b"7 0 d 1 2",
    b"7 0 a b 1",
    b"7,0,d,1",
    b"7 d",
    b"label qid",
    b'{"7": {"d": 1}}',
]

CASES = [
    *((read_run, RUN, b"7 Q0 d 5 " + word + b" tag\n", SCORE) for word in NO_NUMBERS),
    *((read_qrels, QRELS, b"7 0 d " + word + b"\n", LABEL) for word in NO_NUMBERS),
    *(
        (read_run, RUN, text + b"\n", "expected 5 or 6 columns .qid Q0 docno rank score tag., found")
        for text in COLUMNS_RUN
    ),
    *(
        (read_qrels, QRELS, text + b"\n", "expected 4 columns .qid iteration docno relevance., found")
        for text in COLUMNS_QRELS
    ),
    (read_run, RUN, b"7 Q0 d2 5 1 tag\n", "document 'd2' of query '7' is already at line 3; remove one of them"),
    (read_qrels, QRELS, b"7 0 d0 0\n", "document 'd0' of query '7' is already at line 1; remove one of them"),
    (read_qrels, QRELS, QRELS_LINE % 3, "document 'd3' of query '7' is already at line 4"),
    (read_run, RUN, b"7 Q0 d\0 5 1 tag\n", "not plain text .NUL byte"),
    (read_qrels, QRELS, b"7 0 d\0 1\n", "not plain text .NUL byte"),
    (read_run, RUN, QRELS_LINE % 9, "found 4: .* Is it qrels"),
    (read_qrels, QRELS, RUN_LINE % (9, 9, 9), "found 6: .* Is it a run"),
]


def test_there_are_sixty_kinds_of_damage():
    assert len(CASES) >= 60


def name_of(value):
    return getattr(value, "__name__", repr(value)[:40])


@pytest.mark.parametrize(("read", "before", "damage", "message"), CASES, ids=name_of)
@pytest.mark.parametrize("place", ["first", "last", "after comments"])
def test_damage_is_reported_by_file_and_line(tmp_path, read, before, damage, message, place):
    if "already at line" in message:
        place = "last"
    text = {"first": damage + before, "last": before + damage, "after comments": b"# a comment\n\n" + before + damage}
    path = tmp_path / "damaged.txt"
    path.write_bytes(text[place])
    line = {"first": 1, "last": 5, "after comments": 7}[place]
    with pytest.raises(FormatError, match=rf"damaged\.txt, line {line}: .*{message}"):
        read(path)


@pytest.mark.parametrize("read", [read_run, read_qrels], ids=["run", "qrels"])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "has no rows; expected lines of 'qid"),
        (b"# only a comment\n", "has no rows"),
        (RUN.decode().encode("utf-16"), "is it UTF-16 or binary"),
        (RUN.decode().encode("utf-16-be"), "not plain text"),
        (RUN.decode().encode("utf-32"), "not plain text|UTF-16"),
        (b"\x89PNG\r\n\x1a\n\0\0\0", "line 1: expected . .*columns|line 1: expected 5 or 6 columns"),
    ],
)
def test_files_of_other_kinds_are_refused(tmp_path, read, content, message):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(FormatError, match=f"other.*({message})"):
        read(path)


def test_a_compressed_run_that_is_cut_short_is_refused(tmp_path):
    path = tmp_path / "cut.run.gz"
    path.write_bytes(gzip.compress(RUN * 100)[:-20])
    with pytest.raises(FormatError, match="cut short"):
        read_run(path)


def test_comments_and_the_tag_are_read_as_trec_eval_reads_them(tmp_path):
    path = tmp_path / "a.run"
    path.write_bytes(b"# made by hand\n1 Q0 d#1 1 2.5 first\n   # indented\n1 Q0 d2 2 1.5 last\n")
    run = read_run(path)
    assert run.to_dict() == {"1": {"d#1": 2.5, "d2": 1.5}}
    assert run.tag == "last"


def test_ranks_that_jump_are_fine_and_ranks_that_contradict_scores_are_reported(tmp_path):
    path = tmp_path / "a.run"
    path.write_bytes(b"1 Q0 a 1 9 t\n1 Q0 b 7 8 t\n1 Q0 c 90 7 t\n")
    assert len(read_run(path)) == 3
    path.write_bytes(b"1 Q0 a 1 9 t\n1 Q0 b 2 8 t\n1 Q0 c 3 8.5 t\n2 Q0 c 2 1 t\n")
    with pytest.warns(UserWarning, match=r"a\.run, line 3: scores contradict ranks \(1 query, 1 document"):
        read_run(path)


def test_numbers_are_those_that_python_reads(tmp_path, rng):
    words = [repr(float(number)) for number in rng.normal(size=200)] + [
        "1e-320",
        "123456789012345678901234567890",
        "+5",
        "1.",
        ".5",
        "-0",
    ]
    path = tmp_path / "a.run"
    path.write_text("".join(f"1 Q0 d{k} 0 {word} t\n" for k, word in enumerate(words)))
    assert read_run(path).scores.tolist() == [float(word) for word in words]
