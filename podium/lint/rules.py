"""The rules of the linter: level and sentence of each finding, and the report."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from podium._runtime.words import counted

Level = Literal["error", "warning", "note"]

# All findings: the default level and the sentence. `where` counts the items concerned and lists a few.
RULES: dict[str, tuple[Level, str]] = {
    "no-rows": ("error", "There are no rows. Check the path and how the file was created."),
    "no-features": ("error", "Rows have no features, so all documents are equal. Check how the file was created."),
    "no-labels": (
        "note",
        "There are no labels: the documents can be ranked, but not trained on or evaluated. Label checks were skipped.",
    ),
    "nothing-to-learn": (
        "error",
        "No two documents of a query have different labels (queries: {of:,}): all rankings are equally good, "
        "and a model trained on this is constant. Check the labels and the query ids.",
    ),
    "interleaved-queries": (
        "warning",
        "Rows are not contiguous in {where}: query {query} ends at row {left} and continues at row {again}. "
        "Podium groups them, but many programs treat each run of rows as a separate query. Sort the file by query.",
    ),
    "one-document-queries": (
        "note",
        "A single document in {where}: there is nothing to rank, and all models get the same value. Add candidates, "
        "or exclude these queries from the mean.",
    ),
    "queries-without-relevant": (
        "note",
        "No relevant document (all labels 0) in {where}: they contribute no pairs to training, and metrics are 0, 1 or "
        "undefined there, depending on the policy. Report the policy with the numbers.",
    ),
    "one-label-queries": (
        "note",
        "The same label above 0 on all documents in {where}: they contribute no pairs to training, and every ranking "
        "is perfect. Judge more candidates, or exclude these queries from the mean.",
    ),
    "repeated-docids": (
        "warning",
        "Duplicate document ids within a query: {where}, {with_other_label:,} with a different label. Each copy "
        "takes a rank and counts in the metrics, and trec_eval refuses such runs. Keep one row per document.",
    ),
    "conflicting-documents": (
        "warning",
        "The same features as another document of the query but a different label: {where}. No model can order them "
        "correctly. Look for duplicates and inconsistent judgements, or add features that distinguish them.",
    ),
    "identical-documents": (
        "note",
        "The same features and label as another document of the query: {where}. They tie in every model. Look for "
        "duplicates.",
    ),
    "fractional-labels": (
        "warning",
        "Labels that are not integers: {count:,} ({some}). Qrels files, trec_eval and label_gain do not support them. "
        "Round them if you need those.",
    ),
    "label-ceiling": (
        "error",
        "Labels above 31: {count:,}, the largest {largest:g}. The exponential gain 2^label - 1 does not support them. "
        "Map the labels to a few grades, or use a linear gain.",
    ),
    "label-gaps": (
        "warning",
        "Labels jump from {lower:g} to {upper:g}: under the exponential gain the higher one dominates the metric. "
        "If the labels are codes of grades, number the grades without gaps.",
    ),
    "label-distribution": (
        "note",
        "One label, {most_common:g}, on {share:.1%} of the documents: the others ({some}) are rare, so metrics on "
        "few queries have a high variance. Compare models with confidence intervals.",
    ),
    "long-lists": (
        "warning",
        "More than 10,000 documents in {where}, at most {longest:,}: LightGBM refuses such lists, and the number of "
        "pairs grows quadratically. Keep the top candidates of a first stage.",
    ),
    "uneven-lists": (
        "note",
        "Unusually long lists in {where}: up to {longest:,} documents, while 90% of the queries have {usual:,} "
        "or fewer. They contribute most of the pairs. Check whether queries share an id, or truncate the lists.",
    ),
    "all-missing-features": (
        "warning",
        "Missing in every row: {where}. Drop them, or fix the program that computes them.",
    ),
    "constant-features": ("note", "The same value in every row: {where}. They carry no information; drop them."),
    "constant-in-one-file": (
        "note",
        "Constant in this file but not in the others: {where}. Check that all files were created in the same way.",
    ),
    "query-level-features": (
        "note",
        "The same value for all documents of each query: {where}. They cannot rank documents by themselves, and linear "
        "models ignore them; trees and neural networks can use them in interactions. Drop them if not intended.",
    ),
    "duplicate-features": (
        "note",
        "The same as an earlier feature in every row: {where}; feature {copy} equals feature {original}. Copies cost "
        "time, split the importance of the original and make linear weights ambiguous. Drop them.",
    ),
    "missing-values": (
        "note",
        "Missing values in {where}: {share:.1%} of all values; by feature {worst}. Trees learn a default direction; "
        "nets take the mean and an indicator; linear models need imputation.",
    ),
    "feature-scales": (
        "note",
        "Very different scales: feature {narrow} spans {narrow_span:.3g}, feature {wide} {wide_span:.3g}. Trees do not "
        "depend on scale, and linear models and nets of Podium standardise; for other tools, standardise the features.",
    ),
    "merged-numbers": (
        "warning",
        "Numbers with more digits than float32 holds, so that different ones become equal: {where}; {one} and {other} "
        "in the first. Subtract an offset from timestamps, and number ids consecutively.",
    ),
    "leaking-features": (
        "warning",
        "A feature orders at least {accuracy:.1%} of {pairs:,} sampled pairs correctly by itself: {where}. This "
        "suggests label leakage. Check whether it was computed from the labels, and drop it if so.",
    ),
    "different-features": (
        "error",
        "Different numbers of features: {sizes}. A model trained on one file cannot score the others. Create all files "
        "with the same features, or read them with the same number of columns.",
    ),
    "different-names": (
        "error",
        "The names or the order of the features differ between the files, first at column {column}: {names}. Scores "
        "would be computed from the wrong columns. Use the same column names in the same order.",
    ),
    "shared-documents": (
        "error",
        "The same documents with the same features in both files: {where} of {counted_in}. Metrics on one "
        "file after training on the other are too optimistic. Split by query, each query in one file.",
    ),
    "shared-queries": (
        "warning",
        "The same query ids in both files, with other documents: {where} of {counted_in}. If they are the same "
        "queries, the files were split by rows: split by query instead. If each file numbers its queries "
        "separately, use different ids.",
    ),
}


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
