"""Models of other programs on the command line: exported, imported and compared with the program itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium._runtime.files import is_stream, refuse_own_input
from podium.data.sparse import as_dense
from podium.exchange.claims import Report
from podium.exchange.exporting import export, report_path
from podium.exchange.importing import read
from podium.exchange.registry import ModelFormat, find_format
from podium.exchange.verifying import Verification, verify
from podium.workflows.outputs import refuse_bytes, refuse_other_kind
from podium.workflows.reading import Locate, itself, open_model, read_with_model, refuse_bad_out


@dataclass(frozen=True)
class Target:
    """The program that a file is for."""

    format: str | None  # None: that of the report beside the file
    engine: str | None = None  # its version, where it matters
    complete: bool = False  # whether its rows have no missing values


def export_file(
    model: Path,
    out: Path,
    target: Target,
    *,
    golden: Path | None = None,
    data: Path | None = None,
    force: bool = False,
    locate: Locate = itself,
) -> Report:
    """Write the model of a file in a format of another program; what is there already is refused as everywhere.

    golden: a file for rows and their expected scores; data: rows for it.
    """
    format = find_format(str(target.format), writes=True)
    inputs = [model, *([] if data is None else [data])]
    if data is not None and golden is None:
        raise ValueError("--data has the rows of --golden FILE. Add it, or leave --data out.")
    _refuse_other_export(out, format, inputs, force)
    if golden is not None:
        refuse_own_input("--golden", [golden], [*inputs, out, report_path(out)])
        refuse_other_kind("--golden", golden, "golden", force, inputs)
    ranker, X = _with_rows(model, data, locate)
    options: dict[str, Any] = {"engine": target.engine, "complete": target.complete}
    return export(ranker, out, format.name, **options, golden=golden, X=X)


def _refuse_other_export(out: Path, format: ModelFormat, inputs: list[Path], force: bool) -> None:
    """Refuse a file that is not of this format, an input, and a report that is none."""
    refuse_bad_out(out, inputs)
    refuse_bytes("--out", out, f"a model in {format.about}", format.load().looks_like, force)
    if not is_stream(out):
        refuse_own_input("the report beside --out", [report_path(out)], inputs)
        refuse_other_kind("the report beside --out", report_path(out), "export report", force)


def _with_rows(model: Path, data: Path | None, locate: Locate) -> tuple[Any, Any]:
    """The model, and the rows of the data as other programs get them."""
    if data is None:
        return open_model(model, locate), None
    ranker, rows = read_with_model(model, data, locate)
    return ranker, as_dense(rows.X)


@dataclass(frozen=True)
class ImportedFile:
    """What was imported, and how equal its scores are."""

    source: Path
    written: Path
    model: str
    format: str
    n_features: int
    claim: str
    notes: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        facts = {"source": str(self.source), "written": str(self.written), "model": self.model, "format": self.format}
        return facts | {"n_features": self.n_features, "claim": self.claim, "notes": list(self.notes)}

    def sentences(self) -> list[str]:
        first = f"{self.written}: {self.model} of {self.format}, {self.n_features:,} features"
        return [first, f"scores: {self.claim}", *self.notes]


def import_file(
    source: Path, out: Path, *, format: str | None = None, force: bool = False, locate: Locate = itself
) -> ImportedFile:
    """Write the model of another program's file as a model of ours."""
    refuse_bad_out(out, [source], model=True)
    refuse_other_kind("--out", out, "model", force, [source])
    imported = read(locate(source), format)
    model = imported.model
    model.save(out)
    name, claim = type(model).__name__, imported.claim.sentence()
    return ImportedFile(source, out, name, imported.format, int(model.n_features_in_), claim, imported.notes)


def verify_file(
    model: Path,
    file: Path,
    target: Target,
    *,
    golden: Path | None = None,
    data: Path | None = None,
    locate: Locate = itself,
) -> Verification:
    """Compare the scores of an exported file with those expected of the model; see `podium.exchange.verify`."""
    if data is not None and golden is not None:
        raise ValueError("--golden has rows of its own. Leave --data out.")
    ranker, X = _with_rows(model, data, locate)
    options: dict[str, Any] = {"to": target.format, "engine": target.engine, "complete": target.complete}
    return verify(ranker, file, X, **options, golden=golden)
