"""Collections and queries: documents from every format; bad records are named by file and line, and counted."""

import gzip
import json

import pytest

from podium.search import Faults, build_index, open_index, read_documents, read_queries, search_run

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
        ("d.csv", "id,body\n1,x,y\n", 2, "expected 2 columns, found 3"),
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
    ],
)
def test_bad_queries_are_named(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        read_queries(write(tmp_path / "q", text))


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
