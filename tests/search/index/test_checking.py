"""Parts of an index that were made to do harm, checksums and digests and all: an error that names the file."""

import shutil
import subprocess
import sys

import fuzz_files
import numpy as np
import pytest

from podium.formats.errors import FormatError
from podium.formats.kinds import INDEX, SEGMENT
from podium.search import IndexWriter, build_index, open_index, search_run
from podium.search.index.checking import is_ascending
from podium.search.index.manifest import NAME

PAGES = [
    {"id": f"d{i}", "title": "laser light", "body": "beam " * (i + 1) + "light", "url": f"http://x.org/{i}"}
    | {"links": [[f"d{i // 2}", "blue light"]], "anchors": ["ray"]}
    for i in range(6)
]


def edit_part(folder, kind, change):
    """Edit the arrays of the first part of a kind, with fitting checksums, and the manifest accordingly."""
    path = sorted(folder.glob(f"{kind}-*.podium-part"))[0]
    meta, arrays = fuzz_files.read_parts(path, SEGMENT)
    meta, arrays = change(dict(meta), dict(arrays))
    manifest, _ = fuzz_files.read_parts(folder / NAME, INDEX)
    manifest["digests"][path.name] = fuzz_files.write_parts(path, SEGMENT, meta, arrays)
    fuzz_files.write_parts(folder / NAME, INDEX, manifest, {})
    return path


def use(folder):
    index = open_index(folder)
    for query in ('light beam "laser light"', "title:laser url:org anchor:blue anchor:ray"):
        for hit in index.search(query, weighting="lmir-abs"):
            hit.snippet()
    for name in ("pagerank", "inlinks"):
        index.fact(name)
    with IndexWriter(folder) as writer:
        writer.add(("new", "light"))
        writer.merge()


@pytest.fixture
def folder(tmp_path):
    build_index(PAGES[:4], tmp_path / "index")
    with IndexWriter(tmp_path / "index") as writer:
        writer.add_all(PAGES[4:])
        writer.delete("d1")
    return tmp_path / "index"


def elements(place, value):
    def edit(array):
        array = array.copy()
        array[place] = value
        return array

    return edit


ARRAYS = [
    ("segment", "body.docs", elements(0, 10**6), "documents of body must ascend per term"),
    ("segment", "body.docs", lambda docs: docs[::-1], "documents of body must ascend per term"),
    ("segment", "whole.starts", elements(1, 2**40), "whole.starts must rise to"),
    ("segment", "whole.starts", elements([1, 2], [2**63 - 1, -(2**63) + 2]), "whole.starts must rise to"),
    ("segment", "whole.tfs", elements(0, 0), "have a frequency"),
    ("segment", "whole.tfs", lambda tfs: tfs[:-1], "frequencies"),
    (
        "segment",
        "whole.lengths",
        elements(0, 0),
        "documents of whole must ascend .* lengths and numbers of distinct terms",
    ),
    (
        "segment",
        "whole.uniques",
        elements(0, 9),
        "documents of whole must ascend .* lengths and numbers of distinct terms",
    ),
    ("segment", "body.places", elements(1, 2**40), "positions of body"),
    ("segment", "body.positions", elements(2, 0), "positions of body"),
    ("segment", "body.positions", lambda positions: positions[:-1], "positions of body"),
    ("segment", "body.docs", lambda docs: docs.astype(np.int64), "body.docs has dtype <i8"),
    ("segment", "whole.starts", lambda starts: starts[:-1], "whole.starts has dtype <i8 and shape"),
    ("segment", "ids.offsets", elements(1, 2**40), "ids.offsets must rise to"),
    ("segment", "ids.data", lambda data: data[::-1], "ids must be different from one another, ascending"),
    ("segment", "ids.data", elements(1, 0), "without NUL"),
    ("segment", "terms.offsets", elements(-1, 7), "terms.offsets must rise to"),
    ("segment", "store.rows", elements(0, 2**31), "stored documents are outside of their blocks"),
    ("segment", "store.blocks", elements(-1, 2**40), "store.blocks must rise to"),
    ("segment", "store.firsts", elements(-1, 7), "has not the documents it must have"),
    ("segment", "store.data", elements(slice(4, 9), 255), "stored documents|stored document"),
    ("segment", "links.ends", elements(-1, 2**40), "links.ends must rise to"),
    ("segment", "anchors.ends", elements(0, -1), "anchors.ends must rise to"),
    ("segment", "urls.offsets", None, "arrays are missing or not known: urls.offsets"),
    ("links", "pagerank", elements(0, np.nan), "pagerank is out of range"),
    ("links", "inlinks", elements(0, -1), "inlinks is out of range"),
    ("links", "0.docs", elements(0, 10**6), "documents of anchor texts of segment 0 must ascend"),
    ("links", "children", lambda children: children[:-1], "children has dtype"),
    ("deleted", "deleted", elements(0, True), "it must list 1 deleted documents, and lists 2"),
    ("deleted", "deleted", lambda deleted: deleted[:-1], "deleted has dtype"),
]


@pytest.mark.parametrize(("kind", "name", "edit", "words"), ARRAYS, ids=lambda value: value if value is str else None)
def test_crafted_arrays_are_refused_with_what_is_wrong(folder, kind, name, edit, words):
    def change(meta, arrays):
        changed = {name: None if edit is None else edit(arrays[name])}
        return meta, {name: array for name, array in (arrays | changed).items() if array is not None}

    path = edit_part(folder, kind, change)
    with pytest.raises(FormatError, match=words) as caught:
        use(folder)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("documents", 5), ("documents", 2**60), ("documents", -1), ("documents", "4"), ("part", "links")),
        *(("fields", ["anchor"]), ("fields", None), ("fields", ["body", "body"]), ("fields", [[]]), ("other", 1)),
    ],
)
def test_crafted_facts_of_a_part_are_refused(folder, key, value):
    path = edit_part(folder, "segment", lambda meta, arrays: (meta | {key: value}, arrays))
    with pytest.raises(FormatError, match=path.name):
        use(folder)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        *(("generation", 10**400), ("generation", 0.5), ("next", 1), ("keeps_texts", 1), ("links", 3), ("links", "")),
        *(("parts", {}), ("parts", [1]), ("parts", [{}]), ("analyser", []), ("analyser", {"language": []})),
        *(("digests", {}), ("digests", []), ("digests", {"x": "y"}), ("other", 1)),
    ],
)
def test_crafted_facts_of_a_manifest_are_refused(folder, key, value):
    meta, _ = fuzz_files.read_parts(folder / NAME, INDEX)
    fuzz_files.write_parts(folder / NAME, INDEX, meta | {key: value}, {})
    for call in (open_index, IndexWriter):
        with pytest.raises(FormatError, match="its facts are not understood"):
            call(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"documents": 9}, "has 4 documents, not 9"),
        ({"n_deleted": 4}, "a part has 4 documents and 4 deleted ones"),
        ({"n_deleted": 2}, "it must list 2 deleted documents, and lists 1"),
        ({"file": "../../etc/passwd.podium-part"}, "is no name of a part"),
        ({"deleted": "segment-000001.podium-part"}, "is no name of a part"),
    ],
)
def test_numbers_and_names_of_a_manifest_are_compared_with_the_files(folder, change, words):
    meta, _ = fuzz_files.read_parts(folder / NAME, INDEX)
    part = next(part for part in meta["parts"] if part["deleted"])
    part |= change
    fuzz_files.write_parts(folder / NAME, INDEX, meta, {})
    with pytest.raises(FormatError, match=words):
        open_index(folder)


def test_parts_of_another_index_or_commit_are_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "other")
    with IndexWriter(tmp_path / "other") as writer:
        writer.add(PAGES[0] | {"body": "another text"})
        writer.merge()
    (segment,) = (tmp_path / "other").glob("segment-*")
    for path in sorted(folder.glob("*.podium-part")):
        content = path.read_bytes()
        path.write_bytes(segment.read_bytes())
        with pytest.raises(FormatError, match=rf"{path.name}.*it is not the file that belongs here"):
            open_index(folder)
        path.write_bytes(content)
    assert len(open_index(folder)) == 5


def test_parts_that_are_missing_cut_or_of_an_older_format_are_named(folder):
    for path in sorted(folder.glob("*.podium*")):
        content = path.read_bytes()
        for changed in (content[:-1], content[:50], b"", content[:16] + b"\1" + content[17:]):
            path.write_bytes(changed)
            with pytest.raises(FormatError, match=path.name):
                use(folder)
        path.unlink()
        with pytest.raises(FileNotFoundError):
            open_index(folder)
        path.write_bytes(content)
    use(folder)


@pytest.mark.parametrize(
    "text", [b"[]", b"{", b'"x"', b'{"body":3}', b'{"other":""}', b'{"fields":[]}', b"\xff", b"[" * 100_000]
)
def test_stored_texts_that_are_no_documents_are_refused(folder, text):
    from podium.search.index.storing import StoreWriter

    def change(meta, arrays):
        writer = StoreWriter()
        for _ in range(meta["documents"]):
            writer.add(text)
        return meta, arrays | writer.arrays()

    path = edit_part(folder, "segment", change)
    with pytest.raises(FormatError, match=rf"{path.name}.*stored document 0 is no"):
        open_index(folder).stored(0)


def test_a_block_that_grows_without_bound_is_refused_in_bounded_memory(folder):
    """A gibibyte of zeros is 30 kilobytes when compressed."""
    from podium._runtime.files import zstd_module

    bomb = np.frombuffer(zstd_module().compress(bytes(1 << 30), 1), np.uint8)

    def change(meta, arrays):
        return meta, arrays | {"store.data": bomb, "store.blocks": np.array([0, len(bomb)])}

    edit_part(folder, "segment", change)
    code = (
        "import resource, sys, podium.search\n"
        "index = podium.search.open_index(sys.argv[1])\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (used + (400 << 20),) * 2)\n"
        "try: index.stored(0)\n"
        "except ValueError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(folder)], capture_output=True, text=True, timeout=120)
    assert "block 0 of stored documents has not the documents it must have" in done.stdout, done.stderr


def test_ascending_strings_are_recognised(rng):
    for _ in range(200):
        strings = ["".join(rng.choice(list("ab"), rng.integers(0, 4))) for _ in range(rng.integers(0, 5))]
        data = np.frombuffer("".join(strings).encode(), np.uint8)
        offsets = np.cumsum([0, *map(len, strings)], dtype=np.int64)
        assert is_ascending(data, offsets) == (strings == sorted(set(strings)))


def test_many_queries_of_a_crafted_index_are_refused_too(folder):
    edit_part(
        folder, "segment", lambda meta, arrays: (meta, arrays | {"whole.docs": elements(0, 99)(arrays["whole.docs"])})
    )
    with pytest.raises(FormatError, match="documents of whole must ascend"):
        search_run(open_index(folder), {"1": "light", "2": "beam"}, 10)
