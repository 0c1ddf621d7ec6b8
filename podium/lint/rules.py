"""What the linter can say: each finding's level and sentence, and the report they make together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from podium._runtime.words import counted

Level = Literal["error", "warning", "note"]

# Every finding there is: its usual level and its sentence. `where` counts the culprits and names a few.
RULES: dict[str, tuple[Level, str]] = {
    "no-rows": ("error", "No rows at all, so nothing to rank. Check the path and how the file was made."),
    "no-features": ("error", "Rows without features: all documents look the same. Check how the file was made."),
    "nothing-to-learn": (
        "error",
        "No two documents of a query have different labels (queries: {of:,}): every order is as good as any other, "
        "and a model trained on this stays constant. Check the labels and the query ids.",
    ),
    "interleaved-queries": (
        "warning",
        "Rows that do not lie together in {where}: query {query} breaks off at row {left} and goes on at row {again}. "
        "Podium groups them, but many programs take each run of rows for a query of its own. Sort the file by query.",
    ),
    "one-document-queries": (
        "note",
        "One document only in {where}: nothing to order, and every model gets the same value there. Add candidates, "
        "or leave these queries out of the average.",
    ),
    "queries-without-relevant": (
        "note",
        "No relevant document (all labels 0) in {where}: nothing to learn there, and metrics give 0, 1 or no value "
        "according to the policy. Name the policy with the numbers you report.",
    ),
    "one-label-queries": (
        "note",
        "The same label above 0 on all documents in {where}: no pair to learn from, and every order is perfect. Judge "
        "more candidates, or leave these queries out of the average.",
    ),
    "repeated-docids": (
        "warning",
        "The same document twice in a query: {where}, {with_other_label:,} with another label than before. Each copy "
        "takes a rank and counts in the metrics, and trec_eval refuses such runs. Keep one row a document.",
    ),
    "conflicting-documents": (
        "warning",
        "The same features as another document of the query but another label: {where}. No model can put them in the "
        "right order. Look for copied documents and doubtful judgements, or add features that tell them apart.",
    ),
    "identical-documents": (
        "note",
        "The same features and label as another document of the query: {where}. They tie in every model. Look for "
        "copied documents.",
    ),
    "fractional-labels": (
        "warning",
        "Labels that are no whole numbers: {count:,} ({some}). Qrels files, trec_eval and gains given as one number a "
        "grade refuse them. Round them to grades if you need those.",
    ),
    "label-ceiling": (
        "error",
        "Labels above 31: {count:,}, the largest {largest:g}. The exponential gain 2^label - 1 refuses them. Map the "
        "labels to a few grades, or use a linear gain.",
    ),
    "label-gaps": (
        "warning",
        "Labels jump from {lower:g} to {upper:g}: under the exponential gain the higher one outweighs all others, and "
        "the metric sees little else. If the labels are names of grades, number these without gaps.",
    ),
    "label-distribution": (
        "note",
        "One label, {most_common:g}, on {share:.1%} of the documents: the others ({some}) are rare, so values measured "
        "on few queries are unsteady. Compare models by intervals.",
    ),
    "long-lists": (
        "warning",
        "More than 10,000 documents in {where}, at most {longest:,}: LightGBM refuses such lists, and pairs grow with "
        "the square of the length. Keep the best candidates of a first stage.",
    ),
    "uneven-lists": (
        "note",
        "Far longer lists than usual in {where}: up to {longest:,} documents, while nine queries in ten have {usual:,} "
        "or fewer. They bring most of the pairs. Check whether queries were merged under one id, or cut the lists.",
    ),
    "all-missing-features": (
        "warning",
        "No value in any row: {where}. Drop them, or mend the program that should fill them.",
    ),
    "constant-features": ("note", "The same value in every row: {where}. They carry no information. Drop them."),
    "constant-in-one-file": (
        "note",
        "Constant in this file but not in the others: {where}. Check that all files were made the same way.",
    ),
    "query-level-features": (
        "note",
        "The same value for all documents of each query: {where}. By themselves they order nothing and linear models "
        "ignore them; trees and nets can use them to tell kinds of queries apart. Drop them unless that is meant.",
    ),
    "duplicate-features": (
        "note",
        "The same as an earlier feature in every row: {where}; feature {copy} equals feature {original}. Copies cost "
        "time, take away from the importance of the original and leave linear weights undetermined. Drop them.",
    ),
    "missing-values": (
        "note",
        "Missing values in {where}: {share:.1%} of all values; by feature {worst}. Trees learn where to send them; "
        "linear models and nets need them filled.",
    ),
    "feature-scales": (
        "note",
        "Very different scales: feature {narrow} spans {narrow_span:.3g}, feature {wide} {wide_span:.3g}. Trees do not "
        "care; scale the features for linear models and nets.",
    ),
    "merged-numbers": (
        "warning",
        "Numbers with more digits than float32 keeps, so that different ones become one: {where}; {one} and {other} in "
        "the first. Subtract a start from time stamps, and number ids without gaps.",
    ),
    "leaking-features": (
        "warning",
        "A feature that orders at least {accuracy:.1%} of {pairs:,} sampled pairs by itself: {where}. Honest features "
        "are not that good. Check that it was not made from the labels, and drop it if it was.",
    ),
    "different-features": (
        "error",
        "Different numbers of features: {sizes}. A model trained on one file cannot score the others. Make all files "
        "with the same features, or read them with the same number of columns.",
    ),
    "different-names": (
        "error",
        "The names or the order of the features differ between the files, first at column {column}: {names}. Scores "
        "would be computed from the wrong columns. Bring the columns into the same order under the same names.",
    ),
    "shared-documents": (
        "error",
        "The same documents with the same features in both files: {where} of {counted_in}. What is measured on one "
        "file after training on the other is too good to be true. Split by query, each query in one file.",
    ),
    "shared-queries": (
        "warning",
        "The same query ids in both files, with other documents: {where} of {counted_in}. If they are the same "
        "queries, the files were split by rows and test nothing new: split by query. If each file counts its queries "
        "anew, give them different ids.",
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
        """One line a finding; one line in all when there is nothing to say."""
        if self.findings:
            return [f"{found.file}: {found.level}: {found.sentence} [{found.code}]" for found in self.findings]
        documents, queries = (sum(part[unit] for part in self.parts.values()) for unit in ("documents", "queries"))
        size = f"{counted(documents, 'document')} of {counted(queries, 'query', 'queries')}"
        return [f"{', '.join(self.parts)}: {size}, and nothing to complain about."]

    def to_json(self) -> dict[str, Any]:
        findings = [asdict(finding) for finding in self.findings]
        return {"exit_code": self.exit_code, "parts": self.parts, "findings": findings}
