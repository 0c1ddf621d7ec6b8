"""Opening: the parts that a manifest lists, as readers and writers open them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from podium.formats.container import open_container
from podium.formats.kinds import INDEX, SEGMENT
from podium.search.index.checking import Column, check_layout
from podium.search.index.manifest import NAME, Part
from podium.search.index.segments import Segment


def open_segment(folder: Path, part: Part, digests: Mapping[str, str]) -> Segment:
    segment = Segment(folder / part.file, digests[part.file])
    if segment.n_documents != part.n_documents:
        detail = f"{part.file} has {segment.n_documents} documents, not {part.n_documents}"
        raise INDEX.damaged(folder / NAME, detail)
    return segment


def read_deleted(folder: Path, part: Part, digests: Mapping[str, str]) -> np.ndarray:
    """Per document of a segment whether it is deleted."""
    if part.deleted is None:
        return np.zeros(part.n_documents, bool)
    path = folder / part.deleted
    with open_container(path, SEGMENT, digests[part.deleted]) as file:
        check_layout(path, file.entries, {"deleted": Column(("<b1",), part.n_documents)})
        deleted = file.read("deleted")
    if file.meta != {"part": "deleted"} or int(deleted.sum()) != part.n_deleted:
        raise SEGMENT.damaged(path, f"it must list {part.n_deleted} deleted documents, and lists {int(deleted.sum())}")
    return deleted
