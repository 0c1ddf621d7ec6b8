"""Documentation that cannot rot: the blocks of README.md and docs/ are run."""

import re
import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from matplotlib import rc_context
from promises import assert_alike, promised
from serving import serving

import podium
from podium import cli
from podium.metrics import METRICS, POLICIES
from podium.models.registry import _entries as MODELS
from podium.objectives import OBJECTIVES
from podium.search.features.kinds import _KINDS as FEATURES
from podium.search.retrieval.weightings import WEIGHTINGS

ROOT = Path(__file__).parent.parent
STYLE = runpy.run_path(str(ROOT / "docs/site/figures.py"))["STYLE"]
ADDRESS = "http://127.0.0.1:8080"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FLOAT = re.compile(r"-?\d+(?:\.\d+)?(?:e-?\d+)?")
VERSION = re.compile(r"(onnxruntime) \d+\.\d+\.\d+")  # the installed one
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page, language):
    return [text for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


def drawn_pictures(page):
    """The pictures that a page shows and its code draws; `docs/pictures/draw.py` stores them."""
    code = "\n".join(blocks(page, "python"))
    shown = re.findall(r"^!\[.*\]\(pictures/(.*)\)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return [name for name in shown if f"pictures/{name}" in code]


def assert_same_picture(drawn, stored):
    """The same elements with the same texts; numbers may differ by what another version of Matplotlib lays out."""
    ours, theirs = (list(ElementTree.parse(path).iter()) for path in (drawn, stored))
    assert [(one.tag, one.text) for one in ours] == [(one.tag, one.text) for one in theirs], stored
    for one, other in zip(ours, theirs):
        for name in ("d", "x", "y", "transform", "style"):
            places, expected = (FLOAT.findall(element.get(name, "")) for element in (one, other))
            assert [float(n) for n in places] == pytest.approx([float(n) for n in expected], rel=0.02, abs=2), stored


@pytest.fixture(scope="module")
def demo_folder(tmp_path_factory):
    from podium.demo.show import take_tour

    folder = tmp_path_factory.mktemp("docs")
    take_tour(folder / "demo")
    return folder


@pytest.fixture(autouse=True)
def _members_of_a_page_stay_there():
    tables = METRICS, OBJECTIVES, MODELS, FEATURES, WEIGHTINGS
    before = [set(table) for table in tables]
    yield
    for table, names in zip(tables, before):
        for name in set(table) - names:
            del table[name]


@pytest.fixture
def address(page, demo_folder):
    """Where the service of a page is that has one, instead of the usual address."""
    if ADDRESS not in page.read_text(encoding="utf-8"):
        yield ADDRESS
        return
    model = demo_folder / "demo" / "lambdamart.podium"
    if not model.exists():
        podium.LambdaMART(n_estimators=5).fit(podium.read_letor(demo_folder / "demo" / "train.txt")).save(model)
    arguments = "demo/web/cascade", "demo/lambdamart.podium", "--log", "feedback.jsonl"
    with serving(*arguments, cwd=demo_folder) as service:
        yield service.address


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_blocks_run_and_print_what_they_say(page, demo_folder, address, monkeypatch, capsys):
    monkeypatch.chdir(demo_folder)
    names: dict[str, object] = {}
    for block in blocks(page, "python"):
        with rc_context(STYLE):
            exec(compile(block.replace(ADDRESS, address), str(page), "exec"), names)
        printed = capsys.readouterr().out.splitlines()
        assert_alike("\n".join(printed), promised(block), trained="fit(" in block)
    for drawn in drawn_pictures(page):
        assert_same_picture(demo_folder / "pictures" / drawn, page.parent / "pictures" / drawn)


def test_pictures_of_trees_are_those_that_are_drawn(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "pictures")
    import draw

    draw.draw_parts(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"bins.svg", "gains.svg", "sums.svg", "shapes.svg"}
    for path in tmp_path.iterdir():
        assert_same_picture(path, ROOT / "docs" / "pictures" / path.name)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_print_what_the_page_shows(page, demo_folder, monkeypatch, capsys):
    """A console block holds `$ podium ...` and the whole output of the command."""
    monkeypatch.chdir(demo_folder)
    for block in blocks(page, "console"):
        trained = "podium train" in block or "podium export" in block
        for command, shown in re.findall(r"^\$ podium (.*)\n((?:(?!\$ ).*\n?)*)", block, re.MULTILINE):
            monkeypatch.setattr(sys, "argv", ["podium", *command.split()])
            with pytest.raises(SystemExit):
                cli.main()
            lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
            printed, expected = (VERSION.sub(r"\1", text.strip()) for text in ("\n".join(lines), shown))
            assert_alike(printed, expected, trained=trained or command == "demo")


SHOWN = re.compile(r"!\[[^\]]+\]\(pictures/([\w-]+\.svg)\)")
LABEL = re.compile(r"<text[^>]*>([^<]*)</text>")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pictures_are_those_that_the_code_of_the_page_draws(page, demo_folder):
    """Their letters are compared, which every version of matplotlib draws alike; `docs/site/figures.py` writes them."""
    code = "\n".join(blocks(page, "python"))
    for name in SHOWN.findall(page.read_text(encoding="utf-8")):
        if name in code:
            drawn = next(demo_folder.rglob(name), None)
            assert drawn is not None, f"run this page's test_python_blocks_run_and_print_what_they_say too: {name}"
            labels = [LABEL.findall(path.read_text("utf-8")) for path in (drawn, ROOT / "docs/pictures" / name)]
            assert labels[0] == labels[1], name


LINK = re.compile(r"\]\(([^)\s#]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
WRITTEN = [*PAGES, *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))]


def links(page):
    """(file, anchor) of the links to files of the repository, outside of blocks of code."""
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    found = [(target, anchor) for target, anchor in LINK.findall(re.sub(r"`[^`]*`", "", text)) if "://" not in target]
    return [((page.parent / target).resolve() if target else page, anchor) for target, anchor in found]


def anchors(page):
    """The headings of a page as addresses: lower case, words joined by dashes."""
    headings = (
        re.sub(r"[^\w\s-]", "", heading).strip().lower() for heading in HEADING.findall(page.read_text("utf-8"))
    )
    return {heading.replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", WRITTEN, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for target, anchor in links(page):
        assert target.exists(), target
        assert not anchor or anchor in anchors(target), (target, anchor)


def test_every_page_is_reached_from_the_readme_in_two_clicks():
    first = {target for target, _ in links(ROOT / "README.md") if target.suffix == ".md"}
    second = {target for page in first for target, _ in links(page)}
    assert set(PAGES[1:]) <= first | second


FIGURE = re.compile(r"(\d[\d.]*)(?=(?: (?:to|against) [\d.]+)? ?(?:ns|us|ms|x|GB/s|MB/s)\b(?! \d))")
MARKER = re.compile(r"<!-- results: (.*?) -->")


def measured():
    """The rows of benchmarks/results.md and the pages beside it: {"what | against": measured}."""
    pages = sorted((ROOT / "benchmarks").glob("results*.md"))
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {f"{what} | {against}".strip(): value for what, against, value, _ in rows}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quoted_measurements_are_those_of_the_benchmarks(page):
    """A line with times or ratios ends in `<!-- results: what | against; ... -->`, the rows of results.md it quotes."""
    results, text = measured(), BLOCK.sub("", page.read_text(encoding="utf-8"))
    for line in text.splitlines():
        figures, marker = FIGURE.findall(MARKER.sub("", line)), MARKER.search(line)
        if not figures and marker is None:
            continue
        assert figures, f"quotes no figure: {line}"
        assert marker, f"quotes no row of results.md: {line}"
        values = " ".join(results[row.strip()] for row in marker[1].split(";"))
        assert not set(figures) - set(re.findall(r"\d[\d.]*", values)), f"{line}\nmeasured: {values}"


def test_the_pages_name_every_command_metric_and_policy():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    commands = [command.name for command in cli.app.registered_commands]
    for name in [*(f"podium {command}" for command in commands), *(f"`{name}" for name in [*METRICS, *POLICIES])]:
        assert name in text, name


def test_no_page_links_to_a_file_that_is_not_there():
    for page in [*PAGES, ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]:
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page.name} links to {target}"
