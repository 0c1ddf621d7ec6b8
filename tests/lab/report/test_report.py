"""The report: what it says, and that it is one valid file that needs nothing else."""

from __future__ import annotations

import csv
import math
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest
from made_results import make_results

from podium import cli
from podium.lab.experiments.datasets import DATASETS
from podium.lab.experiments.looks import Look
from podium.lab.experiments.results import Results, save_about, save_run, save_search
from podium.lab.report import write_report
from podium.lab.report.statistics import against_baseline, rank_models
from podium.lab.report.tables import decimals_within

NAMES = ["linear svm", "<script>alert('x')</script>", 'a "quoted" & $named$ one', "trees"]
VOID = {"meta", "br", "link", "img", "input", "path", "use", "rect"}


class Page(HTMLParser):
    """The elements of a page; tags must be closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.feed(source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and data.strip():
            self.texts.setdefault(self.open[-1], []).append(data.strip())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.fixture(scope="module")
def results() -> Results:
    return make_results(NAMES)


@pytest.fixture(scope="module")
def source(results: Results, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("report") / "report.html"
    write_report(results, path)
    return path.read_text("utf-8")


@pytest.fixture(scope="module")
def page(source: str) -> Page:
    return Page(source)


def test_the_page_has_every_section(page: Page) -> None:
    assert page.texts["h2"] == [
        "Leaderboard",
        "Published results and ours",
        "Quality at each cutoff",
        "Against the baseline",
        "Hardest queries",
        "Folds and seeds",
        "Learning curves",
        "Features",
        "Cost",
        "Tuning",
        "Provenance",
    ]
    keys = [part["id"] for part in page.of("section")]
    assert [link["href"] for link in page.of("a") if "download" not in link] == [f"#{key}" for key in keys]


def test_numbers_are_those_of_the_results(results: Results, source: str) -> None:
    rows = re.findall(r'<tr><th scope="row">(.*?)</th><td class="n">(\d)</td><td class="n[^>]*>(0\.\d{3})</td>', source)
    for place, (_, rank, value) in enumerate(rows[: len(NAMES)]):
        assert int(rank) == place + 1
        assert value == f"{results.mean(NAMES[::-1][place], 'letor4', 'ndcg@10'):.3f}"  # the last made is the best
    assert rows[0][0] == "trees"
    ours = results.mean("linear svm", "letor4", "ndcg@10")
    assert f'<td class="n quiet">{ours - 0.5:+.4f}</td>' in source  # against the published mean


def test_text_from_data_is_escaped(source: str, page: Page) -> None:
    assert "<script>alert" not in source
    assert len(page.of("script")) == 1
    assert "&lt;script&gt;alert(&#x27;x&#x27;)&lt;/script&gt;" in source
    assert NAMES[2] in page.texts["th"]  # a name is shown as it is
    assert NAMES[2] in page.texts["text"]  # also by matplotlib: no formula
    assert "mathdefault" not in source  # and none on its axes
    assert page.texts["h1"] == ["Models & blends <on made data>"]


def test_the_file_needs_nothing_else(source: str, page: Page) -> None:
    assert not re.search(r"https?:", source)
    assert "@import" not in source
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in page.elements}
    for _, attributes in page.elements:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith(("#", "data:text/"))
    assert not re.search(r"url\((?!#)", source)


def test_ids_are_unique_and_references_lead_somewhere(source: str, page: Page) -> None:
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    hrefs = [attributes["href"] for _, attributes in page.elements if attributes.get("href")]
    targets = {href[1:] for href in hrefs if not href.startswith("data:")}
    targets |= set(re.findall(r"url\(#([^)]*)\)", source))
    assert targets <= set(ids)


def test_every_figure_has_a_caption_and_a_description(page: Page) -> None:
    figures = page.of("figure")
    assert len(figures) == len(page.of("figcaption")) == len(page.of("svg")) > 8
    assert all(picture["role"] == "img" and picture["aria-label"] for picture in page.of("svg"))
    assert all(len(caption) > 40 for caption in page.texts["figcaption"])
    assert len(page.of("table")) == sum(paragraph.get("class") == "caption" for paragraph in page.of("p"))


def test_pictures_follow_light_and_dark(source: str) -> None:
    assert "@media (prefers-color-scheme: dark)" in source
    assert "@media print" in source
    charts = "".join(re.findall(r"<svg.*?</svg>", source, re.DOTALL))
    assert not re.search(r"(?:fill|stroke): (?!none|currentColor|var\()", charts)
    used = set(re.findall(r"var\((--\w+)\)", source))
    light, dark, printed = re.findall(r":root \{(.*?)\}", source, re.DOTALL)
    assert all(f"{name}:" in scheme for name in used for scheme in (light, dark, printed))


def test_colours_can_be_read_on_their_background(source: str) -> None:
    """Contrast as WCAG 2 defines it: 4.5 for text, 3 for the lines of charts."""
    for scheme in re.findall(r":root \{(.*?)\}", source, re.DOTALL):
        colours = dict(re.findall(r"(--\w+): (#\w+);", scheme))
        page = _luminance(colours["--page"])
        for name, colour in colours.items():
            least = 4.5 if name in ("--ink", "--quiet", "--link") else 3.0 if name.startswith("--s") else 0.0
            light, dark = sorted((page, _luminance(colour)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= least, (name, colour)


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    parts = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def test_the_same_results_give_the_same_bytes(results: Results, source: str, tmp_path: Path) -> None:
    save_about(tmp_path, results.about)
    for run in results.runs:
        save_run(tmp_path, run)
    for search in results.searches:
        save_search(tmp_path, search)
    write_report(Results.load(tmp_path), tmp_path / "again.html")
    assert (tmp_path / "again.html").read_text("utf-8") == source


def test_the_command_writes_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    results = make_results(["one"], 1, 1, 5)
    save_about(tmp_path, results.about)
    for run in results.runs:
        save_run(tmp_path, run)
    (tmp_path / "queries.tsv").write_text("100\twhat the query asks\n")
    texts = ["--queries", str(tmp_path / "queries.tsv"), "--tables", str(tmp_path / "tables")]
    for arguments, code in ((["--json", *texts], 0), (["--out", str(tmp_path / "no" / "x.html")], 2)):
        monkeypatch.setattr(sys, "argv", ["podium", "lab", "report", str(tmp_path), *arguments])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        assert stopped.value.code == code
    said = capsys.readouterr()
    assert '"runs": 1' in said.out
    assert "the folder" in said.err
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    assert "Against the baseline" not in page.texts["h2"]  # there is no other model
    assert "what the query asks" in page.texts["td"]
    assert "what the query asks" in (tmp_path / "tables" / "hardest-queries.csv").read_text("utf-8")


def test_without_matplotlib_the_error_says_what_to_install(results: Results, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'podium\[report\]'"):
        write_report(results, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_results_without_runs_are_refused(results: Results, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="at least one finished run"):
        write_report(Results(results.about, ()), tmp_path / "report.html")


def test_a_large_experiment_makes_a_file_of_bounded_size(tmp_path: Path) -> None:
    write_report(make_results([f"model {n}" for n in range(9)], 2, 1, 700, 60), tmp_path / "report.html")
    assert (tmp_path / "report.html").stat().st_size < 1_500_000


def test_what_was_left_out_and_warned_of_is_shown(results: Results, tmp_path: Path) -> None:
    runs = tuple(replace(run, notes=["<b>slow</b> start"]) if run.model == "trees" else run for run in results.runs)
    about = results.about | {"left_out": {"XGBoost": "xgboost is not installed"}}
    write_report(replace(results, about=about, runs=runs), tmp_path / "report.html")
    source = (tmp_path / "report.html").read_text()
    Page(source)
    assert "xgboost is not installed" in source
    assert "&lt;b&gt;slow&lt;/b&gt; start" in source
    assert "<b>slow" not in source


def test_a_development_set_looks_and_turning_parts_are_named(results: Results, tmp_path: Path) -> None:
    reason = DATASETS["mq2008"].development
    looks = tuple(Look(time="2026-01-01T00:00:00+00:00", model="m", fold="1", seed=seed) for seed in range(3))
    about = results.about | {"development": reason, "turns": True}
    write_report(replace(results, about=about, looks=looks), tmp_path / "report.html")
    shown = (tmp_path / "report.html").read_text("utf-8")
    assert f"This data is a development set: {reason}." in shown
    assert "the validation part of a fold is the test part of another one" in shown
    assert "looks at the test parts" in shown
    write_report(results, tmp_path / "other.html")
    assert "What was seen of the test parts" not in (tmp_path / "other.html").read_text("utf-8")


def test_every_table_is_a_csv_with_all_digits_and_a_latex_table(results: Results, page: Page, tmp_path: Path) -> None:
    write_report(results, tmp_path / "report.html", tables=tmp_path / "tables")
    files = {path.name: path.read_text("utf-8") for path in (tmp_path / "tables").iterdir()}
    links = {link["download"]: unquote(link["href"].partition(",")[2]) for link in page.of("a") if "download" in link}
    assert len(links) == 2 * len(page.of("table")) == len(files)
    assert {name: content.removesuffix("\n") for name, content in files.items()} == {
        name: content.removesuffix("\n") for name, content in links.items()
    }
    heading, best, *_ = csv.reader(files["leaderboard-letor4.csv"].splitlines())
    assert heading[:3] == ["model", "rank", "NDCG@10"]
    assert best[:2] == ["trees", "1"]
    assert float(best[2]) == results.mean("trees", "letor4", "ndcg@10")
    assert f"trees & 1 & \\textbf{{{float(best[2]):.3f}}}" in files["leaderboard-letor4.tex"]
    assert files["leaderboard-letor4.tex"].count("\\\\") == 1 + len(NAMES)
    assert r"a \"quoted\" \& \$named\$ one".replace('\\"', '"') in files["leaderboard-letor4.tex"]


def test_a_mean_has_two_digits_of_half_its_interval() -> None:
    assert decimals_within(0.8648 - 0.7540) == 3  # half is 0.055: 0.817, not 0.8167
    assert decimals_within(0.3) == 2  # 0.15
    assert decimals_within(0.008) == 4  # 0.0040
    assert decimals_within(0.0008) == 4  # four are the most
    assert decimals_within(0.0) == decimals_within(math.nan) == 4  # nothing is known


def test_what_one_fold_and_one_seed_cannot_fill_is_left_out(tmp_path: Path) -> None:
    for folds, seeds, there in ((1, 1, False), (2, 1, True), (1, 2, True)):
        write_report(make_results(["one", "two"], folds, seeds, 30), tmp_path / "report.html")
        page = Page((tmp_path / "report.html").read_text("utf-8"))
        assert ("Folds and seeds" in page.texts["h2"]) == there
        assert ("deviation over seeds" in page.texts["th"]) == (seeds > 1)
        assert ("fold" in page.texts["th"]) == (folds > 1)
        assert ("seeds per model" in page.texts["span"]) == (seeds > 1)


def test_query_texts_stand_beside_their_ids_and_lists_beside_each_other(results: Results, tmp_path: Path) -> None:
    hits = [{"id": "d1", "title": "<i>one</i>", "grade": 2}, {"id": "d2", "title": "two", "grade": 0}]
    example = {"query": "101", "text": "what & where", "lists": {"before": hits, "after": hits[::-1]}}
    about = results.about | {"examples": [example]}
    write_report(replace(results, about=about), tmp_path / "report.html", queries={"101": "what <b>is</b> this"})
    page = Page((tmp_path / "report.html").read_text("utf-8"))
    assert "what <b>is</b> this" in page.texts["td"]
    assert "Before and after" in page.texts["h2"]
    assert "“what & where” (101)" in page.texts["h3"]
    assert page.texts["td"].count("<i>one</i>") == 2
    assert "rank before" in page.texts["th"]


def test_an_interval_without_0_beside_a_corrected_p_above_005_is_explained(tmp_path: Path) -> None:
    results = make_results([f"model {n}" for n in range(12)], 1, 1, 40)
    board = rank_models(results, "letor4", "ndcg@10")
    against = against_baseline(board, "model 0")
    odd = [row for row in against.values() if row.interval[0] > 0 and row.p >= 0.05]
    assert odd  # made so that there are some
    assert all("before the correction" in row.disagreement for row in odd)
    assert all(
        not row.disagreement for row in against.values() if (row.interval[0] <= 0 <= row.interval[1]) == (row.p >= 0.05)
    )
    write_report(results, tmp_path / "report.html")
    assert odd[0].disagreement in Page((tmp_path / "report.html").read_text("utf-8")).texts["td"]
