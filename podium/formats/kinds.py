"""Kinds: what a file of ours is for, so that one given for another is named.

All begin with the same eight bytes; the next eight are the mark of the kind, filled up with zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from podium.formats.errors import FormatError
from podium.formats.lines import FilePath

MAGIC = b"\x93PODIUM\n"


@dataclass(frozen=True)
class FileKind:
    """What a file is for. Its mark is in the file, so that one kind passed for another is reported by name."""

    mark: bytes  # up to 8 bytes
    name: str
    holds: str
    use: str  # sentences that say what to do: with a good file of this kind,
    make: str  # to get one,
    mend: str  # when it is damaged,
    largest: int
    sealed: bool  # one digest over all arrays: found at opening, at the price of reading everything
    upgrade: str = ""  # when its format is not known, if that is something else
    format: int = 1

    def damaged(self, path: FilePath, detail: str) -> FormatError:
        return FormatError(path, f"the file is damaged ({detail}). {self.mend}")


DATA = FileKind(
    mark=b"data",
    name="Podium data cache",
    holds="ranking data",
    use="podium convert and podium.read_data read it.",
    make="Make one with podium convert.",
    mend="Write it again with podium convert.",
    largest=1 << 48,
    sealed=False,
)
MODEL = FileKind(
    mark=b"model",
    name="Podium model",
    holds="a model",
    use="podium rank uses it, podium.load loads it.",
    make="Make one with podium train or model.save.",
    mend="Copy it again from where it came, or save the model again.",
    upgrade="Load it with a newer Podium, or save the model again with this one.",
    largest=8 << 30,
    sealed=True,
)
CHECKPOINT = FileKind(
    mark=b"check",
    name="Podium checkpoint",
    holds="a training under way",
    use="Give it to fit or podium train as the checkpoint, with the same data and parameters.",
    make="Give another path for the checkpoint.",
    mend="Delete it to begin the training anew, or give another path.",
    largest=64 << 30,
    sealed=True,
)
INDEX = FileKind(
    mark=b"index",
    name="Podium index",
    holds="the list of the parts of a search index",
    use="Open its folder with podium.search.open_index or podium search.",
    make="Make one with podium index.",
    mend="Build the index again with podium index.",
    largest=64 << 20,
    sealed=True,
    format=2,
)
SEGMENT = replace(
    INDEX,
    mark=b"segment",
    name="part of a Podium index",
    holds="a part of a search index",
    largest=1 << 48,
    sealed=False,
)
CASCADE = FileKind(
    mark=b"cascade",
    name="Podium cascade",
    holds="the stages of a cascade",
    use="Load its folder with podium.load or search it with podium search.",
    make="Make one with Cascade.save or podium cascade.",
    mend="Copy the folder again from where it came, or save the cascade again.",
    upgrade="Load it with a newer Podium, or save the cascade again with this one.",
    largest=1 << 20,
    sealed=True,
)
TABLE = FileKind(
    mark=b"table",
    name="Podium table",
    holds="a table of values of queries and documents",
    use="Declare its columns as features of kind table.",
    make="Tables are part of a cascade: make one with Cascade.save or podium cascade.",
    mend="Copy the folder of the cascade again from where it came, or save the cascade again.",
    upgrade="Load the cascade with a newer Podium, or save it again with this one.",
    largest=16 << 30,
    sealed=False,
)
SPILL = replace(
    DATA,
    mark=b"spill",
    name="Podium spill file",
    holds="rows of a training on several machines",
    use="It is removed when that training ends.",
    make="Run the training again.",
    mend="Remove its folder and run the training again.",
    largest=1 << 48,
)
CASCADE_FILE = "cascade.podium"  # in the folder of a cascade
KINDS = (DATA, MODEL, CHECKPOINT, INDEX, SEGMENT, CASCADE, TABLE, SPILL)


def check_kind(path: FilePath, kind: FileKind, start: bytes) -> None:
    """Refuse foreign files by what they begin with, and other files of ours by what they hold."""
    if not start or start[:8] != MAGIC[: len(start)]:
        what = f"begins with {start[:8]!r}" if start else "is empty"
        raise FormatError(path, f"is no {kind.name}; it {what}. {kind.make}")
    if len(start) < 16:
        raise kind.damaged(path, f"it has only {len(start)} bytes")
    mark = start[8:16].rstrip(b"\0")
    other = next((other for other in KINDS if other.mark == mark), None)
    if other is None:
        raise FormatError(path, f"is no {kind.name}; it is marked as {mark!r}, a kind this version does not know.")
    if other is not kind:
        raise FormatError(path, f"holds {other.holds}, not {kind.holds}. {other.use}")
