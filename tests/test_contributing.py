"""The checklist of CONTRIBUTING.md: every metric, objective and model is in the files of its column."""

import re
from pathlib import Path

import pytest

from podium.metrics import METRICS
from podium.models.registry import _OWN
from podium.objectives import OBJECTIVES

ROOT = Path(__file__).parent.parent
SECTION = (
    (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## A metric, an objective, a model\n")[1].split("\n## ")[0]
)
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in SECTION.splitlines() if line[:2] == "| "][
    2:
]
MEMBERS = {
    "metric": [(name, kind.__name__) for name, kind in METRICS.items()],
    "objective": [(name,) for name in OBJECTIVES],
    "model": [
        (name, name.lower())
        for (_, kind), models in _OWN.items()
        if kind != "imported"  # made by `podium.import_model`, not by users
        for name, _, _ in models
    ],
}
ANY_MEMBER = {"tests/families.py"}  # settings for all models, by the names of parameters


@pytest.mark.parametrize(("column", "family"), list(enumerate(MEMBERS, 1)))
def test_every_member_is_in_the_files_of_its_column(column, family):
    files = [name for row in ROWS for name in re.findall(r"`([^`]+)`", row[column])]
    assert len(files) >= 4
    for name in files:
        assert (ROOT / name).exists(), name
        if name.endswith("/") or name in ANY_MEMBER:
            continue
        text = (ROOT / name).read_text("utf-8")
        for words in MEMBERS[family]:
            assert any(re.search(rf"(?<!\w){re.escape(word)}(?!\w)", text) for word in words), (name, words)
