"""Downloads: resumed after a break, refused with a wrong checksum, unpacked whole; against a server on this machine."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from podium.lab.experiments.datasets import Archive, Dataset
from podium.lab.experiments.downloading import download, download_dataset, fetch


def packed() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz", compresslevel=0) as archive:
        for number, name in enumerate(("train", "vali", "test")):
            text = "".join(f"1 qid:{number} 1:0.{row}\n" for row in range(20_000)).encode()
            info = tarfile.TarInfo(f"tiny/{name}.txt")
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text))
    return file.getvalue()


CONTENT = packed()


class Server:
    """A file at one address; `breaks_after` ends the connection after so many bytes, once."""

    def __init__(self) -> None:
        self.ranges: list[str | None] = []
        self.breaks_after: int | None = None
        self.knows_ranges, self.status = True, 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/tiny.tar.gz"

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        asked = request.headers.get("Range")
        self.ranges.append(asked)
        if self.status != 200:
            request.send_error(self.status)
            return
        start = int(asked[6:-1]) if asked and self.knows_ranges else 0
        body = CONTENT[start:]
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(CONTENT) - 1}/{len(CONTENT)}")
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        cut, self.breaks_after = self.breaks_after, None
        request.wfile.write(body if cut is None else body[:cut])

    def archive(self, sha256: str | None = None) -> Archive:
        return Archive(self.url, "tiny.tar.gz", sha256 or hashlib.sha256(CONTENT).hexdigest(), len(CONTENT))


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.server.shutdown()
    made.server.server_close()


def test_a_download_is_whole_and_not_repeated(server: Server, tmp_path: Path) -> None:
    target, seen = tmp_path / "tiny.tar.gz", []
    download(server.archive(), target, lambda done, total: seen.append((done, total)))
    assert target.read_bytes() == CONTENT
    assert seen[-1] == (len(CONTENT), len(CONTENT))
    download(server.archive(), target)
    assert server.ranges == [None]
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.tar.gz"]


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_a_broken_download_resumes_where_it_stopped(server: Server, tmp_path: Path, knows_ranges: bool) -> None:
    target, server.breaks_after, server.knows_ranges = tmp_path / "tiny.tar.gz", 100_000, knows_ranges
    with pytest.raises(OSError, match=r"broke.* Run it again to resume"):
        download(server.archive(), target)
    assert not target.exists()
    assert (tmp_path / "tiny.tar.gz.partial").read_bytes() == CONTENT[:100_000]
    download(server.archive(), target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == [None, "bytes=100000-"]


def test_a_wrong_checksum_leaves_nothing(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "tiny.tar.gz"
    with pytest.raises(ValueError, match=r"expected the SHA-256 0000.* Nothing was written"):
        download(server.archive("0" * 64), target)
    assert list(tmp_path.iterdir()) == []
    assert server.ranges == [None]


def test_the_rest_of_an_older_file_is_thrown_away(server: Server, tmp_path: Path) -> None:
    target = tmp_path / "tiny.tar.gz"
    (tmp_path / "tiny.tar.gz.partial").write_bytes(b"x" * 1000)
    download(server.archive(), target)
    assert target.read_bytes() == CONTENT
    assert server.ranges == ["bytes=1000-", None]
    (tmp_path / "again.partial").write_bytes(CONTENT + b"more")
    download(server.archive(), tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == CONTENT


def test_an_error_of_the_server_is_reported(server: Server, tmp_path: Path) -> None:
    server.status = 404
    with pytest.raises(OSError, match="the server answered 404"):
        download(server.archive(), tmp_path / "tiny.tar.gz")


def test_a_data_set_is_fetched_unpacked_and_found(server: Server, tmp_path: Path) -> None:
    dataset = Dataset("tiny", "made here", "https://example.org", "free", features=1, archive=server.archive())
    with pytest.raises(ValueError, match="terms have to be accepted"):
        fetch(dataset, tmp_path, accepted=False)
    assert server.ranges == []
    found = fetch(dataset, tmp_path, accepted=True)
    assert found.folder == tmp_path / "tiny" / "tiny"
    assert found.folds.load("1").train.n_rows == 20_000
    assert [path.name for path in tmp_path.iterdir()] == ["tiny"]
    fetch(dataset, tmp_path, accepted=True)
    assert len(server.ranges) == 1


def test_what_must_not_be_downloaded_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"allows no direct download. Download it by hand from https://www\.microsoft"):
        download_dataset("mslr-web10k", tmp_path, accepted=True)
