"""Run every benchmark, one after the other, and gather their RESULT lines into benchmarks/results.md.

    python benchmarks/run_all.py [--resume] [--only bench_a.py bench_b.py ...]

`results.md` is one complete run of one version of the code: it is replaced when the last script has ended, and left
alone by anything less. What each script printed is kept in `benchmarks/.unfinished` meanwhile; `--resume` goes on
there, if neither the code, the machine nor the other libraries have changed. `--only` prints a table, to try things.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from _report import Row, bars_line, commit_of, hardware_line, rows_of, table_of, versions_line

from podium._runtime.files import write_whole

HERE = Path(__file__).parent
PAGES_OF_THEIR_OWN = ("bench_defaults.py", "bench_net_gpu.py")  # which they write themselves, with --out
PACKAGES = ["lightgbm", "xgboost-cpu", "catboost", "scikit-learn", "torch"]
PACKAGES += ["pytrec-eval-terrier", "ranx", "bm25s", "tantivy"]


@dataclass(frozen=True)
class About:
    """What is measured, on what and since when."""

    started: str  # UTC
    commit: str
    code: str  # digest of the package and the benchmarks
    hardware: str
    versions: str
    data: bool  # whether there are real collections

    @staticmethod
    def now(root: Path) -> About:
        started = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        data = bool(os.environ.get("PODIUM_DATA"))
        return About(started, commit_of(root), code_of(root), hardware_line(), versions_line(*PACKAGES), data)

    def changed(self, other: About) -> list[str]:
        """Names of what differs; the commit may, when the code is the same."""
        names = ("code", "hardware", "versions", "data")
        return [name for name in names if getattr(self, name) != getattr(other, name)]


@dataclass(frozen=True)
class Outcome:
    """What one script measured and how it ended."""

    script: str
    rows: list[Row]
    status: int  # that of the process; 1 also for lines that are no rows
    seconds: float


def code_of(root: Path) -> str:
    """A digest of what is measured and of what measures it."""
    digest = hashlib.sha256()
    paths = [*(root / "podium").rglob("*"), *(root / "benchmarks").glob("*.py")]
    for path in sorted(path for path in paths if path.is_file() and "__pycache__" not in path.parts):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def run_script(script: Path) -> Outcome:
    print(f"\n== {script.name}", flush=True)
    started = time.perf_counter()
    done = subprocess.run([sys.executable, str(script)], cwd=script.parent, stdout=subprocess.PIPE, text=True)
    rows, faults = rows_of(done.stdout)
    print(done.stdout, *faults, sep="\n", flush=True)
    return Outcome(script.name, rows, done.returncode or int(bool(faults)), time.perf_counter() - started)


def results_text(about: About, outcomes: Sequence[Outcome]) -> str:
    rows = [row for outcome in outcomes for row in outcome.rows]
    minutes = sum(outcome.seconds for outcome in outcomes) / 60
    failed = [f"{outcome.script} (exit status {outcome.status})" for outcome in outcomes if outcome.status]
    silent = [outcome.script for outcome in outcomes if not outcome.status and not outcome.rows]
    paragraphs = [
        "# Benchmarks",
        f"`make bench` wrote this on {about.hardware}.",
        f"{about.versions}.",
        f"Started {about.started}, commit {about.commit}, {minutes:.0f} minutes.",
        f"{bars_line(rows)}.",
        f"**Did not finish:** {', '.join(failed)}; rows are those from before." if failed else "",
        f"Nothing to measure here: {', '.join(silent)}." if silent else "",
        "" if about.data else "PODIUM_DATA was not set: rows of real collections are missing.",
        table_of(rows),
    ]
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph) + "\n"


class Unfinished:
    """The folder of a run that has not ended: `about.json` and one file per script that has."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def start(self, about: About) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        self._write("about.json", asdict(about))

    def resume(self, now: About) -> About:
        """What the run said about itself when it started."""
        try:
            about = About(**json.loads((self.folder / "about.json").read_text(encoding="utf-8")))
        except FileNotFoundError:
            sys.exit(f"There is no unfinished run in {self.folder}. Start one without --resume.")
        refuse_changes(about, now)
        return about

    def outcome(self, script: str) -> Outcome | None:
        path = self.folder / f"{script}.json"
        if not path.exists():
            return None
        kept = json.loads(path.read_text(encoding="utf-8"))
        return Outcome(**kept | {"rows": [Row(**row) for row in kept["rows"]]})

    def keep(self, outcome: Outcome) -> None:
        self._write(f"{outcome.script}.json", asdict(outcome))

    def _write(self, name: str, content: dict[str, object]) -> None:
        with write_whole(self.folder / name) as stream:
            stream.write(json.dumps(content, indent=1).encode())


def refuse_changes(about: About, now: About) -> None:
    if changed := about.changed(now):
        sys.exit(
            f"Other {' and '.join(changed)} than when this run started ({about.started}, commit {about.commit}): "
            "results.md has one version only and stays as it was. Start again without --resume."
        )


def scripts_of(here: Path) -> list[Path]:
    """The benchmarks that `results.md` is made of."""
    return sorted(script for script in here.glob("bench_*.py") if script.name not in PAGES_OF_THEIR_OWN)


def run_everything(here: Path, resume: bool) -> list[Outcome]:
    """All scripts of a folder; `results.md` is written in the end."""
    unfinished, about = Unfinished(here / ".unfinished"), About.now(here.parent)
    if resume:
        about = unfinished.resume(about)
    else:
        unfinished.start(about)
    outcomes = []
    for script in scripts_of(here):
        outcome = unfinished.outcome(script.name)
        if outcome is None:
            outcome = run_script(script)
            refuse_changes(about, About.now(here.parent))
            unfinished.keep(outcome)
        outcomes.append(outcome)
    text = results_text(about, outcomes)
    with write_whole(here / "results.md") as stream:
        stream.write(text.encode())
    shutil.rmtree(unfinished.folder)
    print(text)
    return outcomes


def main(arguments: Sequence[str] | None = None, here: Path = HERE) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parts = parser.add_mutually_exclusive_group()
    names = [script.name for script in scripts_of(here)]
    parts.add_argument("--resume", action="store_true", help="go on with the run that was interrupted")
    parts.add_argument("--only", nargs="+", metavar="SCRIPT", choices=names, help="run these, leave results.md alone")
    options = parser.parse_args(arguments)
    if options.only:
        outcomes = [run_script(here / name) for name in options.only]
        print(results_text(About.now(here.parent), outcomes))
        print("Some scripts only: results.md stays as it was.")
    else:
        try:
            outcomes = run_everything(here, options.resume)
        except KeyboardInterrupt:
            sys.exit("\nInterrupted: results.md stays as it was. Go on with: python benchmarks/run_all.py --resume")
    if failed := [outcome.script for outcome in outcomes if outcome.status]:
        sys.exit(f"These did not finish: {', '.join(failed)}")


if __name__ == "__main__":
    main()
