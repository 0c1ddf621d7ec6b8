"""Files of runs: fused, with weights that are given, equal, or chosen on judged queries; pooled; compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from podium._runtime.files import refuse_bad_target, write_whole
from podium._runtime.words import counted
from podium.formats.trec import Run, read_qrels, read_run, write_qrels, write_run
from podium.runs.fusing import fuse
from podium.runs.methods import parse_method
from podium.runs.overlapping import MEASURES, Overlap, overlap
from podium.runs.pooling import Pool, pool
from podium.runs.tuning import TunedFusion, shown_weights, tune_fusion
from podium.workflows.reading import Locate, itself

OVERLAP_COLUMNS = ("run", "and", *MEASURES)


@dataclass(frozen=True, eq=False)
class FusedFile:
    """A run that was fused and written, and how."""

    out: Path
    run: Run
    method: str
    weights: dict[str, float] | None
    tuned: TunedFusion | None

    def as_dict(self) -> dict[str, Any]:
        counts = {"method": self.method, "queries": self.run.n_queries, "documents": len(self.run)}
        tuned = {} if self.tuned is None else {"tuned": self.tuned.as_dict()}
        return counts | {"weights": self.weights} | tuned | {"written": str(self.out)}

    def sentence(self) -> str:
        sizes = f"{counted(self.run.n_queries, 'query', 'queries')}, {counted(len(self.run), 'document')}"
        weights = "" if self.weights is None else f", weights {shown_weights(self.weights)}"
        return f"{self.out}: {sizes}, {self.method}{weights}"


def read_runs(paths: Sequence[Path], locate: Locate = itself) -> dict[str, Run]:
    """Runs by the names of their files; files that share a name are called by their whole path."""
    times = Counter(path.name for path in paths)
    names = {path: path.name if times[path.name] == 1 else str(path) for path in paths}
    if len(names) < len(paths):
        twice = next(path for path, number in Counter(paths).items() if number > 1)
        raise ValueError(f"{twice} is given more than once; give each run once.")
    return {name: read_run(locate(path)) for path, name in names.items()}


def fuse_files(
    paths: Sequence[Path],
    out: Path,
    *,
    tag: str = "podium",
    qrels: Path | None = None,
    tuning: dict[str, Any] | None = None,
    locate: Locate = itself,
    **options: Any,
) -> FusedFile:
    """Fuse files of runs and write a run; with `qrels`, weights are chosen first. `options` are those of `fuse`."""
    refuse_bad_target(out)
    runs, tuned = read_runs(paths, locate), None
    weights = options.pop("weights", None)
    if qrels is not None:
        rules = {"method": options["method"], "normalization": options.get("normalization"), **(tuning or {})}
        tuned = tune_fusion(runs, read_qrels(locate(qrels)), **rules)
        weights = list(tuned.weights.values())
    fused = fuse(runs, weights=weights, **options)
    write_run(fused, out, tag)
    named = None if weights is None else dict(zip(runs, map(float, weights)))
    return FusedFile(out, fused, str(parse_method(options["method"])), named, tuned)


def pool_files(
    paths: Sequence[Path], out: Path, depth: int, *, qrels: Path | None = None, locate: Locate = itself
) -> Pool:
    """Pool files of runs and write what is to be judged: a table if OUT ends in .tsv, else as TREC judgements."""
    refuse_bad_target(out)
    judged = None if qrels is None else read_qrels(locate(qrels))
    pooled = pool(read_runs(paths, locate), depth, qrels=judged)
    if is_pool_table(out):
        with write_whole(out) as stream:
            stream.writelines(line.encode("utf-8", "surrogateescape") for line in pooled.lines())
    else:
        write_qrels(pooled.qrels, out)
    return pooled


def is_pool_table(out: Path) -> bool:
    return out.suffix.lower() == ".tsv"


def compare_runs(
    paths: Sequence[Path], *, p: float = 0.9, depth: int | None = None, locate: Locate = itself
) -> Overlap:
    """How alike files of runs are."""
    return overlap(read_runs(paths, locate), p=p, depth=depth)
