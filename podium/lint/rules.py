"""The rules of the linter, which `rules.toml` lists, a finding and the report."""

from __future__ import annotations

import tomllib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from podium._runtime.words import counted

Level = Literal["error", "warning", "note"]


@cache
def rules() -> dict[str, tuple[Level, str]]:
    """The default level and the sentence of each finding, by its code."""
    table = tomllib.loads((Path(__file__).parent / "rules.toml").read_text(encoding="utf-8"))
    return {code: (rule["level"], rule["sentence"]) for code, rule in table.items()}


@dataclass(frozen=True)
class Finding:
    """One thing found. `file` names the data set, or several joined by ", " when it concerns them together."""

    code: str
    level: Level
    file: str
    sentence: str
    details: dict[str, Any]


@dataclass(frozen=True)
class Report:
    """All findings, the worst first, and the size and labels of each data set."""

    findings: tuple[Finding, ...]
    parts: dict[str, dict[str, Any]]

    @property
    def exit_code(self) -> int:
        """0 when there is nothing worse than notes, 1 when there are warnings or errors."""
        return int(any(finding.level != "note" for finding in self.findings))

    def sentences(self) -> list[str]:
        """One line per finding; a single line if there are none."""
        if self.findings:
            return [f"{one.file}: {one.level}: {one.sentence} [{one.code}]" for one in self.findings]
        documents, queries = (sum(part[unit] for part in self.parts.values()) for unit in ("documents", "queries"))
        size = f"{counted(documents, 'document')} of {counted(queries, 'query', 'queries')}"
        return [f"{', '.join(self.parts)}: {size}, and nothing to complain about."]

    def as_dict(self) -> dict[str, Any]:
        findings = [asdict(finding) for finding in self.findings]
        return {"exit_code": self.exit_code, "parts": self.parts, "findings": findings}
