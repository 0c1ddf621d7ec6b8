"""Run every benchmark, one after the other, and gather their RESULT lines into benchmarks/results.md."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from _report import hardware_line, versions_line

HERE = Path(__file__).parent
PACKAGES = ["lightgbm", "xgboost-cpu", "catboost", "scikit-learn", "torch"]
PACKAGES += ["pytrec-eval-terrier", "ranx", "bm25s", "tantivy"]


def main() -> None:
    rows, failed = [], []
    for script in sorted(HERE.glob("bench_*.py")):
        print(f"\n== {script.name}", flush=True)
        done = subprocess.run([sys.executable, str(script)], cwd=HERE, stdout=subprocess.PIPE, text=True)
        print(done.stdout, flush=True)
        if done.returncode:
            failed.append(script.name)
        rows += [
            line.removeprefix("RESULT |").strip() for line in done.stdout.splitlines() if line.startswith("RESULT")
        ]
    table = ["| what | against | measured | bar |", "| --- | --- | --- | --- |", *(f"| {row} |" for row in rows)]
    text = (
        f"# Benchmarks\n\n`make bench` wrote this on {hardware_line()}.\n\n{versions_line(*PACKAGES)}.\n\n"
        + "\n".join(table)
    )
    (HERE / "results.md").write_text(text + "\n", encoding="utf-8")
    print(text)
    if failed:
        sys.exit(f"These did not finish: {', '.join(failed)}")


if __name__ == "__main__":
    main()
