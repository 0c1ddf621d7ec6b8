"""The site: what it is made of, the faults that its checker finds, and, where it is built, its pages in Chromium."""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from typer.main import get_command

import podium
from podium import cli

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "docs/site"))
import commands  # noqa: E402
import docstrings  # noqa: E402
import figures  # noqa: E402
import links  # noqa: E402
import pages  # noqa: E402
import reference  # noqa: E402

sys.path.remove(str(ROOT / "docs/site"))

SITE = os.environ.get("PODIUM_SITE")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def test_every_page_of_docs_stands_in_the_navigation_once():
    placed = [page for title, listed in pages.sections().items() if title != pages.MORE for page in listed]
    assert sorted(placed) == sorted(set(placed))
    assert pages.sections().get(pages.MORE, []) == []
    assert all((ROOT / page).exists() for page in placed if not page.startswith("reference/"))


def test_headings_have_the_addresses_that_they_have_on_github():
    assert pages.slug("Sizes by the number of queries: `auto`") == "sizes-by-the-number-of-queries-auto"


def test_the_start_page_is_the_readme_and_markers_are_left_out(tmp_path):
    pages.write(tmp_path / "a.md", "2 times <!-- results: sums | against x --> [start](../README.md#models)")
    assert (tmp_path / "a.md").read_text("utf-8") == "2 times [start](../index.md#models)"


# --- the reference -----------------------------------------------------------------------------------------------


def test_everything_public_stands_in_the_reference():
    listed = {id(thing) for page in reference.GROUPS for _, thing in reference.members(page)}
    listed |= {id(kind) for kind in reference.MODELS.values()}
    modules = [getattr(podium, name) for name in podium.__all__ if isinstance(getattr(podium, name), type(podium))]
    for module in [podium, *modules]:
        for name in reference.public_names(module):
            assert id(getattr(module, name)) in listed, f"{module.__name__}.{name}"


def test_a_model_page_has_its_parameters_with_defaults_and_its_fitted_attributes():
    page = reference.model_page(podium.Linear)
    assert "`max_iter` = `100`: an integer from 1 to 1,000,000\n: Maximum number of rounds of " in page
    assert "`coef_`\n: One weight per column" in page
    assert "{py:class} podium.Linear(**parameters)" in page
    assert "podium.Pointwise(estimator, **parameters)" in reference.model_page(podium.Pointwise)


def test_docstrings_become_markdown():
    text = "Rows of `a*b` and a*b:\n\n    g = w**2\n\n>>> 1 + 1\n2"
    assert docstrings.as_markdown(text) == (
        "Rows of `a*b` and a\\*b:\n\n```text\ng = w**2\n```\n\n```pycon\n>>> 1 + 1\n2\n```"
    )
    assert docstrings.signature_of(podium.load).startswith("(")
    assert " at 0x" not in "".join(reference.group_page(name) for name in reference.GROUPS)


def test_every_command_and_option_stands_in_the_command_line_reference():
    page = commands.page()
    for name, command in commands.all_commands(get_command(cli.app), "podium"):
        assert f"## {name}\n" in page
        part = page.partition(f"## {name}\n")[2].partition("\n## ")[0]
        for option in re.findall(r"--[a-z-]+", " ".join(opt for one in command.params for opt in one.opts)):
            assert option in part, (name, option)


# --- figures -----------------------------------------------------------------------------------------------------

DRAWING = """# A page

```python
from matplotlib.figure import Figure

figure = Figure(figsize=(3, 2))
axes = figure.subplots()
axes.plot([0, 1], [1, 0])
axes.set_xlabel("margin")
figure.savefig("line.svg")
```

![A line that falls.](pictures/line.svg)

![Drawn elsewhere.](pictures/other.svg)
"""


def test_a_figure_is_what_the_code_on_its_page_draws_the_same_each_time(tmp_path):
    drawn = figures.draw(DRAWING, tmp_path)
    assert drawn == figures.draw(DRAWING, tmp_path)
    svg = drawn["line.svg"]
    assert ">margin</text>" in svg
    assert "currentColor" in svg
    assert "<metadata>" not in svg
    assert all(name.startswith("line-") for name in re.findall(r'id="([^"]*)"', svg))
    page = figures.embedded(DRAWING, drawn)
    assert 'role="img" aria-label="A line that falls."' in page
    assert "![Drawn elsewhere.](pictures/other.svg)" in page


# --- the checker -------------------------------------------------------------------------------------------------


def faults(tmp_path, body, head=""):
    (tmp_path / "other.html").write_text('<h1 id="top">Other</h1>', "utf-8")
    (tmp_path / "page.html").write_text(f"<html><head>{head}</head><body>{body}</body></html>", "utf-8")
    return links.faults_of(tmp_path)


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ('<a href="missing.html">x</a>', "page.html: link to missing.html: no such file"),
        ('<a href="other.html#nowhere">x</a>', "page.html: link to other.html#nowhere: no such anchor"),
        ('<a href="#nowhere">x</a>', "page.html: link to #nowhere: no such anchor"),
        ('<img src="missing.svg">', "page.html: link to missing.svg: no such file"),
        ('<img src="https://example.org/a.png">', "page.html: fetches https://example.org/a.png"),
        ('<script src="//example.org/a.js"></script>', "page.html: fetches //example.org/a.js"),
        ("<style>@import url(https://example.org/a.css);</style>", "page.html: fetches "),
        ('<p style="background: url(https://example.org/a.png)">', "page.html: fetches "),
        ('<p id="a"></p><p id="a"></p>', "page.html: id 'a' stands twice"),
    ],
)
def test_the_checker_finds_each_fault(tmp_path, body, fault):
    (found,) = faults(tmp_path, body)
    assert found.startswith(fault)


def test_the_checker_finds_what_heads_and_style_sheets_fetch(tmp_path):
    (tmp_path / "site.css").write_text("@font-face { src: url('https://example.org/a.woff2') }", "utf-8")
    found = faults(tmp_path, "", '<link rel="stylesheet" href="https://example.org/a.css">')
    assert [line.partition(":")[0] for line in found] == ["page.html", "site.css"]


def test_good_links_are_no_faults(tmp_path):
    body = '<a href="other.html#top">x</a><a href="https://example.org">y</a><a href="mailto:a@b.c">z</a><p id="a">'
    assert faults(tmp_path, f'{body}<a href="#a">here</a>') == []


# --- the built site in Chromium ----------------------------------------------------------------------------------

LOOKED_AT = (
    "index.html",
    "docs/training.html",
    "docs/trees.html",
    "docs/coming-from.html",
    "reference/models/LambdaMART.html",
    "reference/data.html",
    "reference/commands.html",
    "search.html?q=LambdaMART",
)

OVERFLOWING = """() => {
  const scrolls = (element) => ['auto', 'scroll', 'hidden'].includes(getComputedStyle(element).overflowX);
  const inside = (element) => {
    for (let one = element.parentElement; one && one !== document.body; one = one.parentElement)
      if (scrolls(one) || getComputedStyle(one).position === 'fixed') return true;
    return getComputedStyle(element).position === 'fixed';
  };
  const wide = [...document.body.querySelectorAll('*')].filter((element) => element.checkVisibility()
    && element.getBoundingClientRect().width > 1 && element.getBoundingClientRect().right > innerWidth + 1
    && !inside(element)).map((element) => element.outerHTML.slice(0, 120));
  return document.documentElement.scrollWidth > innerWidth ? ['the page', ...wide] : wide;
}"""


@pytest.fixture(scope="module")
def chromium():
    sync_api = pytest.importorskip("playwright.sync_api")
    if SITE is None:
        pytest.skip("PODIUM_SITE is not set: `make test-docs` builds the site and looks at it")
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


def pages_in(chromium, width, scheme="light"):
    """Each page in turn; none may ask for anything that is not a file of the site."""
    context = chromium.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    for name in LOOKED_AT:
        page.goto(f"file://{Path(SITE).resolve()}/{name}")
        if "search" in name:
            page.wait_for_selector("#search-results li")
        yield name, page
        if folder := os.environ.get("PODIUM_SCREENSHOTS"):
            slug = re.sub(r"\W+", "-", name.removesuffix(".html"))
            page.screenshot(path=f"{folder}/{slug}-{width}-{scheme}.png")
    assert [url for url in asked if not url.startswith(("file://", "data:"))] == []
    context.close()


@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_is_wider_than_the_window(chromium, width):
    for name, page in pages_in(chromium, width):
        assert page.evaluate(OVERFLOWING) == [], name


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious(chromium, width, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for name, page in pages_in(chromium, width, scheme):
        found = [one for one in axe.run(page).response["violations"] if one["impact"] in ("serious", "critical")]
        assert [(one["id"], one["nodes"][0]["html"][:120]) for one in found] == [], name


def focused(page):
    return page.evaluate(
        "() => { const one = document.activeElement, box = one.getBoundingClientRect();"
        " return [one.className || one.id || one.tagName, one.getAttribute('href'), one.checkVisibility("
        "{visibilityProperty: true}) && box.right > 0 && box.left < innerWidth]; }"
    )


def tabbed(page, steps):
    """What has the focus after each of so many tabs."""
    seen = []
    for _ in range(steps):
        page.keyboard.press("Tab")
        seen.append(focused(page))
    return seen


def test_the_keyboard_reaches_search_and_navigation_and_nothing_that_is_hidden(chromium):
    _, page = next(pages_in(chromium, 1280))
    seen = tabbed(page, 12)
    assert any("search" in name for name, _, _ in seen)
    assert any(target == "docs/guide.html" for _, target, _ in seen)
    assert all(visible for *_, visible in seen)


def test_at_390_pixels_the_keyboard_opens_the_navigation(chromium):
    _, page = next(pages_in(chromium, 390))
    assert not any(target == "docs/guide.html" for _, target, _ in tabbed(page, 12))
    page.goto(page.url)
    while page.evaluate("document.activeElement.id") != "__navigation":
        page.keyboard.press("Tab")
    page.keyboard.press("Space")
    page.wait_for_function("document.querySelector('.sidebar-drawer').getBoundingClientRect().left >= 0")
    assert any(target == "docs/guide.html" for _, target, _ in tabbed(page, 12))


def test_searching_finds_the_page_of_a_model(chromium):
    for name, page in pages_in(chromium, 1280):
        if "search" in name:
            assert page.locator("#search-results li a").first.inner_text() == "LambdaMART"
