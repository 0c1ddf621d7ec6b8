"""Collections and queries: documents from every format; bad records are named by file and line, and counted."""

import csv
import gzip
import io
import json
import os
from contextlib import suppress
from datetime import datetime

import pytest

from podium._runtime.files import write_whole
from podium.search import (
    Document,
    Faults,
    IndexWriter,
    build_index,
    open_index,
    read_documents,
    read_queries,
    search_run,
)
from tests.scaling import assert_doubling_is_cheap

JSONL = """{"id": "1", "title": "Wings", "body": "lift and drag", "url": "http://a.org/1", "links": [["2", "tails"]],\
 "clicks": 4}

{"id": 2, "text": "tail surfaces"}
"""
TREC = """<DOC>
<DOCNO> AP-1 </DOCNO>
<HEADLINE>Wings &amp; things</HEADLINE>
<TEXT>
lift and <b>drag</b>
</TEXT>
</DOC>
<DOC><DOCNO>AP-2</DOCNO><DOCHDR>
http://a.org/2
HTTP/1.0 200
</DOCHDR>
tail surfaces</DOC>
"""
SMART = """.I 1
.T
Wings
.A
lilienthal,o.
.W
lift and
drag
.X
2	5	1
1	5	1
3	4	1
.I 2
.W
tail
.W
surfaces
"""


def write(path, text):
    path.write_text(text, encoding="utf-8")
    return path


def read(path, **options):
    return list(read_documents(path, **options))


def test_json_lines(tmp_path):
    first, second = read(write(tmp_path / "d.jsonl", JSONL))
    assert (first.id, first.title, first.body, first.url) == ("1", "Wings", "lift and drag", "http://a.org/1")
    assert (first.links, first.fields) == ([("2", "tails")], {"clicks": 4})
    assert (second.id, second.body) == ("2", "tail surfaces")
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as stream:
        stream.write(JSONL)
    assert read(tmp_path / "d.jsonl.gz") == [first, second]


def test_trec_sgml(tmp_path):
    for name in ("d.sgml", "collection"):  # by name, by what it begins with
        first, second = read(write(tmp_path / name, TREC))
        assert (first.id, first.title, first.body.split()) == ("AP-1", "Wings & things", ["lift", "and", "drag"])
        assert (second.id, second.url, second.body) == ("AP-2", "http://a.org/2", "tail surfaces")


def test_smart(tmp_path):
    first, second = read(write(tmp_path / "cran.all", SMART))
    assert (first.id, first.title, first.body) == ("1", "Wings", "lift and\ndrag")
    assert (first.fields, first.links) == ({"author": "lilienthal,o."}, [("2", "")])
    assert second.body == "tail\nsurfaces"


@pytest.mark.parametrize(("suffix", "separator"), [(".csv", ","), (".tsv", "\t")])
def test_tables(tmp_path, suffix, separator):
    rows = [["id", "title", "body", "year"], ["1", "Wings", '"lift\nand ""drag"""', "1901"], ["2", "", "tail", ""]]
    first, second = read(write(tmp_path / f"d{suffix}", "\n".join(separator.join(row) for row in rows) + "\n"))
    assert (first.body, first.fields) == ('lift\nand "drag"', {"year": "1901"})
    assert (second.title, second.body, second.fields) == ("", "tail", {})


def test_parquet(tmp_path):
    import pyarrow
    import pyarrow.parquet

    table = pyarrow.table({"id": ["1", "2"], "body": ["lift", None], "clicks": [3, 4]})
    pyarrow.parquet.write_table(table, tmp_path / "d.parquet")
    first, second = read(tmp_path / "d.parquet")
    assert (first.body, first.fields, second.body) == ("lift", {"clicks": 3}, "")
    with pytest.raises(ValueError, match=r"d2.parquet: not a Parquet file"):
        read(write(tmp_path / "d2.parquet", "no table"))


def test_folders_of_pages(tmp_path):
    (tmp_path / "sub").mkdir()
    write(tmp_path / "a.md", "# Wings #\nlift [the tail](sub/b.html#x) and [out](http://a.org)\n")
    write(
        tmp_path / "sub" / "b.html",
        "<html><head><title>Tail &amp;\n fin</title><style>p {}</style></head><body><p>tail<br>surfaces</p>"
        "<script>x()</script><a href='../c.txt'>plain <i>text</i></a></body></html>",
    )
    write(tmp_path / "c.txt", "plain words")
    write(tmp_path / "d.png", "no text")
    (tmp_path / "e.txt").write_bytes(b"\xff\xfe")
    faults = Faults()
    documents = {document.id: document for document in read(tmp_path, faults=faults)}
    assert list(documents) == ["a.md", "c.txt", "sub/b.html"]
    assert (documents["a.md"].title, documents["a.md"].body) == ("Wings", "lift the tail and out")
    assert documents["a.md"].links == [("sub/b.html", "the tail"), ("http://a.org", "out")]
    page = documents["sub/b.html"]
    assert (page.title, page.body) == ("Tail & fin", "tail\nsurfaces\nplain text")
    assert page.links == [("c.txt", "plain text")]
    assert faults.count == 1
    assert "e.txt: expected UTF-8 text; found other bytes at byte 0" in faults.messages[0]


@pytest.mark.parametrize(
    ("name", "text", "line", "message"),
    [
        ("d.jsonl", '{"id": "1"}\n{"id": \n', 2, "expected a JSON object, found '{\"id\": '"),
        ("d.jsonl", "[1]\n", 1, "got list"),
        ("d.jsonl", '\n{"title": "x"}\n', 2, "expected a key id .*; found 'title'"),
        ("d.jsonl", '{"id": "1", "body": 3}\n', 1, "body must be text; found int"),
        ("d.trec", "<DOC>\n<TEXT>x</TEXT>\n</DOC>\n", 1, "expected <DOCNO>"),
        ("d.trec", "<DOC>\n<DOCNO>1</DOCNO>\n<DOC>\n<DOCNO>2</DOCNO>\n</DOC>\n", 1, "without </DOC> before the next"),
        ("d.trec", "\n<DOC>\n<DOCNO>1</DOCNO>\n", 2, "is the file cut short"),
        ("d.smart", ".I\n.W\nx\n", 1, "must be text that is not empty"),
        ("d.smart", ".I 1\nx\n", 2, "expected a mark such as .I 1 or .W, found 'x'"),
        ("d.trec", "<DOC><DOCNO>1</DOCNO><DOCNO>2</DOCNO></DOC>\n", 1, "expected <DOCNO>.* once .*; found '1', '2'"),
        ("d.trec", "\nhello\nthere\n", 2, "expected <DOC>, found 'hello'"),
        ("d.trec", "</DOC>\n", 1, "</DOC> without <DOC>"),
        ("d.csv", "id,body\n1,x,y\n", 2, "expected 2 columns, found 3"),
        ("d.csv", 'id,body\n1,"x\n', 2, "a quotation mark is not closed"),
        ("d.csv", "7,some text\n", 1, "expected a header with a column id, found '7,some text'"),
        ("d.csv", "id,links\n1,http://a.org\n", 2, "links must be a list in JSON; found 'http://a.org'"),
        ("d.csv", "id,links\n1,3\n", 2, "links must be a list; found int"),
        ("d.csv", f"id,body\n1,{'x' * 131_073}\n", 2, "expected cells of at most 128 KiB; 'body' is longer"),
        ("d.jsonl", '{"id": null}\n', 1, "the id must be text or an integer; found None"),
        ("d.jsonl", '{"id": "1", "x": ' + "[" * 101 + "]" * 101 + "}\n", 1, "'x' must be nested at most 100 deep"),
        ("d.jsonl", '{"id": "1", "x": ' + "1" * 4301 + "}\n", 1, "expected a JSON object, found .*4300 digits"),
        ("d.jsonl", '{"id": "\\ud800"}\n', 1, "the id .*ud800' is not valid Unicode"),
        ("d.csv", "name,body\n1,x\n", 2, "expected a key id"),
    ],
)
def test_bad_records_are_named_and_counted_and_strict_stops(tmp_path, name, text, line, message):
    path, faults = write(tmp_path / name, text), Faults()
    list(read_documents(path, faults=faults))
    assert faults.count == 1
    with pytest.raises(ValueError, match=f"{name}, line {line}: .*{message}") as error:
        read(path, strict=True)
    assert str(error.value) == faults.messages[0]


GOOD = [{"id": "a", "title": "Wings", "body": "lift and drag"}, {"id": "b", "title": "Tails", "body": "fins"}]
TEXT_FORMATS = ("jsonl", "csv", "tsv", "trec", "smart")


def record_text(kind, record):
    """A record as a text of lines, without the header of a table."""
    id, title, body = record["id"], record["title"], record["body"]
    if kind == "jsonl":
        return json.dumps(record, ensure_ascii=False) + "\n"
    if kind == "trec":
        return f"<DOC>\n<DOCNO>{id}</DOCNO>\n<TITLE>{title}</TITLE>\n{body}\n</DOC>\n"
    if kind == "smart":
        return f".I {id}\n.T\n{title}\n.W\n{body}\n"
    stream = io.StringIO()
    csv.writer(stream, delimiter="," if kind == "csv" else "\t", lineterminator="\n").writerow([id, title, body])
    return stream.getvalue()


def collection_bytes(kind, records):
    header = {"csv": "id,title,body\n", "tsv": "id\ttitle\tbody\n"}.get(kind, "")
    return (header + "".join(record_text(kind, record) for record in records)).encode("utf-8", "surrogateescape")


@pytest.mark.parametrize("compression", ["", ".gz", ".xz", ".bz2", ".zst"])
@pytest.mark.parametrize("encoding", ["plain", "mark", "crlf", "no line end"])
@pytest.mark.parametrize("kind", TEXT_FORMATS)
def test_formats_do_not_depend_on_marks_line_ends_and_compression(tmp_path, kind, encoding, compression):
    content = collection_bytes(kind, GOOD)
    if encoding == "mark":
        content = b"\xef\xbb\xbf" + content
    elif encoding == "crlf":
        content = content.replace(b"\n", b"\r\n")
    elif encoding == "no line end":
        content = content.removesuffix(b"\n")
    path = tmp_path / f"d.{kind}{compression}"
    with write_whole(path) as stream:
        stream.write(content)
    found = [(one.id, one.title, one.body) for one in read_documents(path, format=kind, strict=True)]
    assert found == [tuple(record.values()) for record in GOOD]


def test_tables_may_end_lines_by_carriage_returns(tmp_path):
    (tmp_path / "d.csv").write_bytes(b"id,body\r1,x\r2,y\r3\r")
    faults = Faults()
    assert [one.id for one in read_documents(tmp_path / "d.csv", faults=faults)] == ["1", "2"]
    assert "d.csv, line 4: expected 2 columns, found 1" in faults.messages[0]


@pytest.mark.parametrize("kind", TEXT_FORMATS)
def test_an_id_that_is_not_utf8_is_a_bad_record_and_other_texts_are_repaired(tmp_path, kind):
    """Two such ids must not become one; `\\udcff` is the byte 0xff."""
    bad = [{"id": f"caf{byte}", "title": "x", "body": "x"} for byte in ("\udcff", "\udcfe")]
    repaired = {"id": "c", "title": "na\udcefve", "body": "caf\udce9 au lait"}
    path, faults = tmp_path / "d", Faults()
    path.write_bytes(collection_bytes(kind, [GOOD[0], *bad, repaired, GOOD[1]]))
    found = list(read_documents(path, format=kind, faults=faults))
    assert [one.id for one in found] == ["a", "c", "b"]
    assert (found[1].title, found[1].body) == ("na\ufffdve", "caf\ufffd au lait")
    assert faults.count == 2
    first = 1 + len(record_text(kind, GOOD[0]).splitlines()) + (kind in ("csv", "tsv"))
    second = first + len(record_text(kind, bad[0]).splitlines())
    for message, line, byte in zip(faults.messages, (first, second), ("ff", "fe")):
        assert message == f"{path}, line {line}: the id 'caf\\udc{byte}' is not valid Unicode text (UTF-8)."
    with pytest.raises(ValueError, match="not valid Unicode"):
        list(read_documents(path, format=kind, strict=True))


@pytest.mark.parametrize(
    "record",
    [{"id": "caf\udcff", "body": "x"}, ("caf\udcff", "x"), ("caf\udcff", "t", "x"), Document("caf\udcff", "x")],
    ids=lambda record: type(record).__name__,
)
@pytest.mark.parametrize("way", ["build_index", "add", "add_all"])
def test_an_id_that_is_not_unicode_is_refused_from_python_too(tmp_path, record, way):
    ways = {
        "build_index": lambda: build_index([("a", "x"), record], tmp_path / "j"),
        "add": lambda: writer.add(record),
        "add_all": lambda: writer.add_all([("a", "x"), record]),
    }
    with IndexWriter(tmp_path / "i") as writer, pytest.raises(ValueError, match=r"'caf\\udcff' is not valid Unicode"):
        ways[way]()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"date": datetime(2020, 1, 1)}, "document 'x': 'date' must be a value that JSON can hold; .*datetime"),
        ({"data": b"x"}, "document 'x': 'data' must be a value that JSON can hold; .*bytes"),
        ({"tags": [{1}]}, "document 'x': 'tags' must be a value that JSON can hold; .*set"),
        ({"n": 10**5000}, "document 'x': 'n' must be a value that JSON can hold; .*4300 digits"),
        ({3: 4}, "document 'x': the names of further fields must be text; found 3"),
        ({"title": 5}, "document 'x': title must be text; found int"),
        ({"anchors": "y"}, "document 'x': anchors must be a list; found str"),
    ],
)
def test_a_value_that_cannot_be_kept_is_an_error_that_names_the_document(tmp_path, fields, message):
    with IndexWriter(tmp_path / "i") as writer:
        writer.add(("a", "first"))
        with pytest.raises(ValueError, match=message):
            writer.add({"id": "x"} | fields)
        writer.add(("b", "last"))
    assert open_index(tmp_path / "i").search("first last").ids == ["a", "b"]


def test_a_body_of_null_leaves_room_for_a_text(tmp_path):
    [found] = read(
        write(tmp_path / "d.jsonl", '{"id": "1", "body": null, "text": "lift", "contents": null, "x": null}\n')
    )
    assert found == Document("1", "lift", fields={"x": None})


def test_links_of_a_document_object_are_checked_like_those_of_json(tmp_path):
    with pytest.raises(ValueError, match="document 'x': a link must be a URL"):
        build_index([Document("x", links=[5])], tmp_path / "i")
    build_index([Document("x", "one", links=["ab"]), Document("ab", "two")], tmp_path / "j")  # a target of two letters
    index = open_index(tmp_path / "j")
    assert index.fact("inlinks")[index.number("ab")] == 1


def test_several_documents_on_one_line_are_several(tmp_path):
    text = "<DOC><DOCNO>1</DOCNO>one</DOC><doc><DOCNO>2</DOCNO>two</doc> <DOC ID='x'><DOCNO>3</DOCNO>\nthree</DOC>\n"
    found = read(write(tmp_path / "d.trec", text), strict=True)
    assert [(one.id, one.body) for one in found] == [("1", "one"), ("2", "two"), ("3", "three")]


def test_a_document_without_end_on_one_line_with_the_next_is_named(tmp_path):
    faults = Faults()
    text = "<DOC><DOCNO>1</DOCNO>one<DOC><DOCNO>2</DOCNO>two</DOC>\n"
    assert [one.id for one in read(write(tmp_path / "d.trec", text), faults=faults)] == ["2"]
    assert faults.messages == [f"{tmp_path / 'd.trec'}, line 1: <DOC> without </DOC> before the next one."]


def test_a_cell_that_is_too_long_loses_its_record_only(tmp_path):
    rows = [["id", "body"], ["1", "x"], ["2", "long\n" * 30_000], ["3", "y" * 131_072]]
    with open(tmp_path / "d.csv", "w", newline="") as stream:
        csv.writer(stream, lineterminator="\n").writerows(rows)
    faults = Faults()
    assert [one.id for one in read_documents(tmp_path / "d.csv", faults=faults)] == ["1", "3"]
    assert faults.messages[0].startswith(f"{tmp_path / 'd.csv'}, line 3: expected cells of at most 128 KiB")
    assert faults.count == 1


def test_headers_are_stripped_and_must_differ(tmp_path):
    assert read(write(tmp_path / "d.csv", " id , title,\n1,T,x\n")) == [
        Document("1", "", "T", fields={"column 3": "x"})
    ]
    with pytest.raises(ValueError, match=r"d2.csv, line 1: column names must differ; found 'body' twice"):
        read(write(tmp_path / "d2.csv", "id,body,body\n1,x,y\n"))


def write_parquet(path, columns):
    import pyarrow
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def parquet_columns():
    """Columns in which row 2 has a value that no document can have, and what is said of it."""
    import pyarrow

    invalid = pyarrow.Array.from_buffers(pyarrow.string(), 3, pyarrow.array([b"x", b"\xff", b"y"]).buffers())
    times = pyarrow.array([None, 10**18 + 1, None], pyarrow.timestamp("ns"))
    ids = {"id": ["a", "b", "c"]}
    return {
        "timestamp": (ids | {"at": [None, datetime(2020, 1, 1), None]}, "'at' must be a value that JSON can hold"),
        "nanoseconds": (ids | {"at": times}, "'at' "),
        "bytes": (ids | {"raw": [None, b"x", None]}, "'raw' must be a value that JSON can hold"),
        "links": (ids | {"links": [None, "[", None]}, "links must be a list in JSON; found '['"),
        "null id": ({"id": ["a", None, "c"]}, "expected a key id"),
        "invalid id": ({"id": invalid}, "not valid Unicode"),
    }


@pytest.mark.parametrize("case", ["timestamp", "nanoseconds", "bytes", "links", "null id", "invalid id"])
def test_a_bad_row_of_parquet_is_named_by_its_number_and_the_others_are_read(tmp_path, case):
    columns, message = parquet_columns()[case]
    path, faults = write_parquet(tmp_path / "d.parquet", columns), Faults()
    assert len(list(read_documents(path, faults=faults))) == 2
    assert faults.count == 1
    assert faults.messages[0].startswith(f"{path}, row 2: ")
    assert message in faults.messages[0]


def test_missing_numbers_of_parquet_are_empty_cells_and_invalid_texts_are_repaired(tmp_path):
    import pyarrow

    content = pyarrow.array([b"x", b"caf\xe9"])
    texts = pyarrow.Array.from_buffers(pyarrow.string(), 2, content.buffers())
    path = write_parquet(tmp_path / "d.parquet", {"id": ["a", "b"], "body": texts, "clicks": [float("nan"), 2.0]})
    first, second = read_documents(path, strict=True)
    assert (first.fields, second.fields, second.body) == ({}, {"clicks": 2.0}, "caf\ufffd")


def test_damaged_pages_of_parquet_are_a_fault_of_the_file(tmp_path):
    path = write_parquet(tmp_path / "d.parquet", {"id": [str(number) for number in range(5000)]})
    content = bytearray(path.read_bytes())
    content[100:400] = b"\xff" * 300
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"d.parquet: not a Parquet file, or damaged"):
        list(read_documents(path))


@pytest.mark.skipif(os.name == "nt", reason="names of files are Unicode there")
def test_a_file_name_that_is_not_utf8_is_named_and_left_out(tmp_path):
    write(tmp_path / "a.txt", "one")
    with open(os.fsencode(tmp_path) + b"/caf\xe9.txt", "w") as stream:
        stream.write("two")
    write(tmp_path / "z.html", "&#" + "1" * 5000 + ";")
    faults = Faults()
    assert [one.id for one in read_documents(tmp_path, faults=faults)] == ["a.txt", "z.html"]
    assert faults.count == 1
    assert "the id 'caf\\udce9.txt' is not valid Unicode" in faults.messages[0]


def test_a_missing_input_is_an_error_before_the_first_document_is_asked_for(tmp_path):
    for name in ("d.jsonl", "d.csv", "d.parquet", "d.md", "d"):
        with pytest.raises(FileNotFoundError):
            read_documents(tmp_path / name)


def test_excerpts_in_messages_have_at_most_80_characters(tmp_path):
    texts = {
        "a.jsonl": "x" * 1000,
        "b.jsonl": '{"id": 1.5, "x": "' + "x" * 1000 + '"}',
        "c.jsonl": '{"' + "\x7f" * 1000 + '": 1}',
        "d.csv": "x" * 1000 + "\n",
        "e.csv": "id,links\n1," + "x" * 1000 + "\n",
        "f.smart": ".I 1\n" + "\x1b" * 1000 + "\n",
        "g.trec": "x" * 1000,
        "h.jsonl": '{"id": [' + "1," * 1000 + "1]}",
        "i.jsonl": '{"id": "1", "links": [[' + "1," * 1000 + "1]]}",
    }
    for name, text in texts.items():
        faults = Faults()
        read(write(tmp_path / name, text), faults=faults)
        assert faults.count == 1
        assert len(faults.messages[0]) < len(str(tmp_path / name)) + 80 + 130, name  # the sentence around it
        assert faults.messages[0].isprintable()


HOSTILE = {
    "brackets": ("d.md", lambda n: "[" * n, 20_000),
    "links without end": ("d.md", lambda n: "[](x" * n, 1_000),  # once with the third power
    "links with one end": ("d.md", lambda n: "[a](x " * n + ")", 10_000),
    "heading of spaces": ("d.md", lambda n: "# a" + " " * n + "b", 400),  # once with the third power
    "empty headings": ("d.md", lambda n: "# \n" * n, 20_000),
    "titles": ("d.trec", lambda n: "<DOC><DOCNO>1</DOCNO>" + "<TITLE>" * n + "</DOC>", 10_000),
    "numbers": ("d.trec", lambda n: "<DOC>" + "<DOCNO>" * n + "</DOC>", 10_000),
    "headers": ("d.trec", lambda n: "<DOC><DOCNO>1</DOCNO>" + "<DOCHDR>" * n + "</DOC>", 10_000),
    "less-than signs": ("d.trec", lambda n: "<DOC><DOCNO>1</DOCNO>" + "<" * n + "</DOC>", 20_000),
    "start tags of documents": ("d.trec", lambda n: "<DOC" * n + " " + "<DOC " * n, 10_000),
    "tags": ("d.html", lambda n: "<a " * n, 10_000),
    "tags and a quoted end": ("d.html", lambda n: "<a b='x' " * n + "c='>'", 5_000),
    "quotation marks": ("d.html", lambda n: '<a href="' * n, 10_000),
    "comments": ("d.html", lambda n: "<!--" * n + "<b>", 50_000),
    "scripts": ("d.html", lambda n: "<script>" * n, 50_000),
    "stray quotation marks": ("d.csv", lambda n: "id,body\n" + 'a","""\n' * n, 5_000),
    "columns": ("d.csv", lambda n: ",".join(f"c{i}" for i in range(n)) + "\n" + 'a","""\n' * n, 4_000),
    "marks of SMART": ("d.smart", lambda n: ".I 1\n" + ".W\n" * n + ".I  " + " " * n, 10_000),
    "open objects": ("d.jsonl", lambda n: '{"id":' * n, 50_000),
    "a long line": ("d.jsonl", lambda n: '{"id": 1, "body": "' + "x" * n + '"}', 4_000_000),
}
HOSTILE_QUERIES = {
    "start tags": (lambda n: "<top>" * n, 20_000),
    "open tags": (lambda n: "<top " * n, 20_000),
    "topics": (lambda n: "".join(f"<top><num>{i}<title>x</top>\n" for i in range(n)), 10_000),
    "spaces before a number": (lambda n: "<top><num>" + " " * n + "</top>", 100_000),
    "numbers": (lambda n: "<top " + "number " * n + "></top>", 10_000),
    "titles": (lambda n: "<top><num>1" + "<title>" * n + "x</top>", 20_000),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_document_of_twice_the_size_takes_twice_the_time(tmp_path, case):
    name, make, n = HOSTILE[case]
    assert_doubling_is_cheap(lambda text: list(read_documents(write(tmp_path / name, text), faults=Faults())), make, n)


@pytest.mark.parametrize("case", HOSTILE_QUERIES)
def test_a_hostile_file_of_queries_of_twice_the_size_takes_twice_the_time(tmp_path, case):
    def work(text):
        with suppress(ValueError):
            read_queries(write(tmp_path / "q", text))

    assert_doubling_is_cheap(work, *HOSTILE_QUERIES[case])


@pytest.mark.parametrize(
    ("text", "title", "body"),
    [
        ("# C#\nx", "C#", "x"),
        ("## Wings ##  \nx", "Wings", "x"),
        ("#\n\nx\n# T\ny", "T", "#\n\nx\ny"),
        ("#none\nx", "", "#none\nx"),
        ("# See [the tail](b.md)\nx", "See the tail", "x"),
        ("x [a\nb](c 'title') y", "", "x a\nb y"),
    ],
)
def test_headings_of_markdown(tmp_path, text, title, body):
    [page] = read(write(tmp_path / "a.md", text))
    assert (page.title, page.body) == (title, body)


def test_files_of_no_known_format_are_refused(tmp_path):
    with pytest.raises(ValueError, match="no known collection of documents begins with 'hello'"):
        read_documents(write(tmp_path / "d.bin", "hello"))
    with pytest.raises(ValueError, match="format must be one of jsonl, trec"):
        read_documents(tmp_path, format="jason")
    with pytest.raises(IsADirectoryError, match="expected a file of format csv"):
        read_documents(tmp_path, format="csv")


TOPICS = """<top>
<num> Number: 301
<title> Wing
 lift
<desc> Description:
What lifts?
</top>
<top><num>302<title>drag</title></top>
"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("301\twing lift\n\n302\tdrag\t\n", {"301": "wing lift", "302": "drag"}),
        ('{"id": 301, "text": "wing lift"}\n{"_id": "302", "query": "drag"}\n', {"301": "wing lift", "302": "drag"}),
        (TOPICS, {"301": "Wing lift", "302": "drag"}),
        ('<topics><topic number="301"><query>wing lift</query></topic></topics>', {"301": "wing lift"}),
        (".I 301\n.W\nwing\nlift\n.I 302\n.W\ndrag\n", {"301": "wing lift", "302": "drag"}),
    ],
)
def test_queries(tmp_path, text, expected):
    path = write(tmp_path / "q", text)
    assert read_queries(path) == expected
    assert read_queries(path, by_position=True) == {
        str(place): query for place, query in enumerate(expected.values(), 1)
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("301 wing\n", r"q, line 1: expected id<tab>text"),
        ("1\ta\n1\tb\n", r"q, line 2: query '1' is there already"),
        ("1\t \n", r"q, line 1: expected a query with an id and a text"),
        ("\n", "has no queries"),
        ("<top>\n</top>", "expected <num> and <title>"),
        ('{"id": 1}', "expected a JSON object with id and text"),
        ('{"id": null, "text": "x"}', "expected a JSON object with id and text"),
        ('{"id": 1, "text": null}', "expected a JSON object with id and text"),
        ('{"id": "\\ud800", "text": "x"}', "q, line 1: the id .* is not valid Unicode"),
        ("<top><num>1<title>x\n<top><num>2<title>y</top>", "q, line 2: expected <top> and </top> in turn"),
        ("<top><num>1<title>x</top>\n\n<top><num>2<title>y", "q, line 3: <top> without </top>; is the file cut short"),
        ("<top><num>1<title>x</top>\n</top>", "q, line 2: expected <top> and </top> in turn"),
    ],
)
def test_bad_queries_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_queries(write(tmp_path / "q", text))


def test_ids_of_queries_that_are_not_utf8_are_named_and_their_texts_repaired(tmp_path):
    (tmp_path / "q").write_bytes(b"1\tcaf\xe9\n")
    assert read_queries(tmp_path / "q") == {"1": "caf\ufffd"}
    (tmp_path / "q").write_bytes(b"1\tx\n\xff\ty\n")
    with pytest.raises(ValueError, match=r"q, line 2: the id .* is not valid Unicode"):
        read_queries(tmp_path / "q")
    assert read_queries(tmp_path / "q", by_position=True) == {"1": "x", "2": "y"}


def test_a_run_holds_what_search_finds(tmp_path):
    build_index([json.loads(line) for line in JSONL.splitlines() if line], tmp_path / "i")
    index = open_index(tmp_path / "i")
    run = search_run(index, {"a": "tail lift", "b": "nothing", "c": "drag"}, 10)
    hits = index.search("tail lift")
    assert run.to_dict() == {
        "a": dict(zip(hits.ids, hits.scores)),
        "b": {},
        "c": dict(zip(*[(own := index.search("drag")).ids, own.scores])),
    }


@pytest.mark.parametrize("text", ["wings", '"a stray quotation mark', "with\ta tab", "42", "x, y"])
def test_lines_of_id_and_text_need_no_header(tmp_path, text):
    """As MS MARCO's: the first line is a document, and the text is all behind the first tab."""
    content = f"7\t{text}\n\n8\tsecond\n"
    if text.count("\t"):
        content = "6\tfirst\n" + content
    path = write(tmp_path / "c.tsv", content)
    documents = {one.id: one.body for one in read_documents(path, strict=True)}
    assert documents == ({"6": "first"} if "\t" in text else {}) | {"7": text, "8": "second"}


@pytest.mark.parametrize("header", ["id\ttext", "docid\tbody", "id\twords"])
def test_a_header_of_two_columns_is_no_document(tmp_path, header):
    path = write(tmp_path / "c.tsv", f"{header}\n7\twings\n")
    assert [one.id for one in read_documents(path, strict=True)] == ["7"]


def test_a_header_with_an_unknown_id_is_a_fault_and_no_document(tmp_path):
    path = write(tmp_path / "c.tsv", "page\ttext\n7\twings\n")
    with pytest.raises(ValueError, match="expected a key id"):
        list(read_documents(path, strict=True))


def test_a_line_without_a_tab_among_lines_of_id_and_text_is_a_fault(tmp_path):
    faults = Faults()
    path = write(tmp_path / "c.tsv", "7\twings\ntails\n8\tfins\n")
    assert [one.id for one in read_documents(path, faults=faults)] == ["7", "8"]
    assert faults.messages == [f"{path}, line 2: expected id<tab>text, found 'tails'."]


@pytest.mark.parametrize("header", ["", "qid\tquery\n", "id\ttext\n"])
def test_queries_are_read_with_and_without_a_header(tmp_path, header):
    path = write(tmp_path / "queries.tsv", f"{header}q1\twings\nid\ttext\n")
    assert read_queries(path) == {"q1": "wings", "id": "text"}
