"""Downloads: resumed where they stopped, checked against their checksum, and written whole or not at all.

Bytes go to `NAME.partial` next to the target. A broken connection leaves that file, and the next call asks the server
for the rest; a file whose checksum is wrong is removed. The archive is unpacked beside its folder, which then takes
its name.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import urllib.error
import urllib.request
from collections.abc import Callable
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path

from podium._runtime.words import check_choice
from podium.lab.experiments.datasets import DATASETS, VARIABLE, Archive, Dataset, Located, locate

Report = Callable[[float, float], None]
_CHUNK = 1 << 18
_TIMEOUT = 60.0


def download_dataset(
    name: str, root: str | os.PathLike[str] | None = None, *, accepted: bool = False, report: Report | None = None
) -> Located:
    """Download a data set to the folder of its name under $PODIUM_DATA or `root`, and unpack it.

    accepted: the caller has read and accepted the publisher's terms.
    """
    check_choice("data set", name.lower(), DATASETS)
    return fetch(DATASETS[name.lower()], root, accepted=accepted, report=report)


def fetch(
    dataset: Dataset, root: str | os.PathLike[str] | None = None, *, accepted: bool, report: Report | None = None
) -> Located:
    parent = os.environ.get(VARIABLE) if root is None else root
    if dataset.archive is None:
        raise ValueError(f"data set {dataset.name}: its publisher allows no direct download. {dataset.advice()}")
    if not parent:
        raise ValueError(f"{VARIABLE} is not set. Set it to the folder for data sets, or name one with --to.")
    if not accepted:
        raise ValueError(f"data set {dataset.name}: its terms have to be accepted first. {dataset.advice()}")
    folder = Path(parent) / dataset.name
    if locate(dataset, parent) is None and folder.exists():
        raise ValueError(f"{folder}: is there, but holds no folds. Move it away and download again.")
    if locate(dataset, parent) is None:
        folder.parent.mkdir(parents=True, exist_ok=True)
        target = folder.parent / dataset.archive.file
        download(dataset.archive, target, report)
        unpack(target, folder)
        target.unlink()
    located = locate(dataset, parent)
    if located is None:
        raise ValueError(f"{folder}: the archive holds no folds as {dataset.name} has them. See {dataset.page}.")
    return located


def download(archive: Archive, target: Path, report: Report | None = None) -> None:
    """Write the file to `target`, or resume a download that stopped; with a wrong checksum nothing is written."""
    partial = target.with_name(f"{target.name}.partial")
    if target.is_file() and _checksum(target) == archive.sha256:
        return
    for _ in range(2):
        done = partial.stat().st_size if partial.is_file() else 0
        if done > archive.size:
            partial.unlink()
            done = 0
        if done < archive.size:
            _receive(archive, partial, done, report)
        checksum = _checksum(partial)
        if checksum == archive.sha256:
            os.replace(partial, target)
            return
        partial.unlink()
        if done == 0:  # otherwise the part before the break may have been of an older file: once more, from the start
            break
    raise ValueError(
        f"{archive.url}: expected the SHA-256 {archive.sha256} but found {checksum}. "
        "Nothing was written; the publisher may have changed the file."
    )


def _receive(archive: Archive, partial: Path, done: int, report: Report | None) -> None:
    request = urllib.request.Request(archive.url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT) as answer:
            start = str(answer.headers.get("Content-Range", ""))
            resumed = answer.status == HTTPStatus.PARTIAL_CONTENT and start.startswith(f"bytes {done}-")
            with open(partial, "ab" if resumed else "wb") as file:
                received = done if resumed else 0
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    received += len(chunk)
                    if report is not None:
                        report(received, archive.size)
                file.flush()
                os.fsync(file.fileno())
    except urllib.error.HTTPError as error:
        raise OSError(f"{archive.url}: the server answered {error.code} ({error.reason}). Try again later.") from error
    except (urllib.error.URLError, HTTPException, TimeoutError, ConnectionError) as error:
        raise OSError(f"{archive.url}: the connection broke ({error}). Run it again to resume.") from error
    if received < archive.size:
        raise OSError(
            f"{archive.url}: expected {archive.size:,} bytes but found {received:,}, because the connection broke. "
            "Run it again to resume."
        )


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive to a new folder, which is there when all of it is."""
    beside = folder.with_name(f".{folder.name}.unpacking")
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir(parents=True)
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(beside, filter="data")
        os.replace(beside, folder)
    except tarfile.TarError as error:
        raise ValueError(f"{archive}: expected a tar archive but found {error}. Delete it and run again.") from error
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _checksum(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
