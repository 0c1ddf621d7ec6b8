"""The page in Chromium: by keyboard, by pointer, without JavaScript, in light and dark, wide and narrow."""

import os
import re
import shutil
from contextlib import contextmanager

import pytest
from visitors import TOKEN

sync_api = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")

TWO = "/?q=green+tea+pot&system=web&system=web+(first+stage)&k=5"
MILLISECONDS = 60_000  # on a busy machine

OVERFLOWING = """() => [...document.body.querySelectorAll('*')].filter((element) => {
  if (!element.checkVisibility() || element.closest('svg, .unseen, .skip')) return false;
  const box = element.getBoundingClientRect();
  return box.width > 0 && (box.right > innerWidth + 1 || box.left < -1 || element.scrollWidth > innerWidth);
}).map((element) => element.outerHTML.slice(0, 120))"""

OVERLAPPING = """() => {
  const all = [...document.querySelectorAll('a, button, input, select, summary')].filter(
    (element) => element.checkVisibility() && element.type !== 'hidden' && !element.closest('.skip'));
  const boxes = all.flatMap((element) => [...element.getClientRects()].map((box) => [element, box]));
  const meet = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
    && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 1;
  return boxes.flatMap(([one, a], row) => boxes.slice(row + 1)
    .filter(([other, b]) => one !== other && meet(a, b))
    .map(([other]) => [one.outerHTML.slice(0, 90), other.outerHTML.slice(0, 90)]));
}"""


@pytest.fixture(scope="module")
def chromium():
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield browser
        browser.close()


@contextmanager
def page_of(chromium, service, expected="", **options):
    """A page. Errors on its console, those of the policy for contents too, are failures, but for the expected one."""
    context = chromium.new_context(base_url=service.address, **{"viewport": {"width": 1280, "height": 900}} | options)
    context.set_default_timeout(MILLISECONDS)
    problems = []
    page = context.new_page()
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    try:
        yield page
        assert [problem for problem in problems if not (expected and expected in problem)] == []
    finally:
        context.close()


def focused_hit(page):
    return page.evaluate("document.activeElement.closest('.hit')?.id")


def test_search_compare_judge_by_keyboard_and_ask_why(chromium, service):
    with page_of(chromium, service) as page:
        page.goto("/")
        page.keyboard.press("/")
        page.keyboard.type("leaves for a pot")
        page.get_by_label("web (first stage)").check()
        page.keyboard.press("Tab")
        page.get_by_role("button", name="Search").click()
        page.wait_for_selector(".columns-2")
        assert page.locator(".column").nth(1).locator(".movement").count() == 10
        page.get_by_label("Rater").fill("ann")
        page.get_by_role("button", name="Set").click()
        page.wait_for_selector("#rater[value=ann]")
        for number, label in enumerate("204", 1):
            page.keyboard.press("j")
            assert focused_hit(page) == f"hit-1-{number}"
            page.keyboard.press(label)
            page.wait_for_selector(f'#hit-1-{number} button[aria-pressed=true][value^="{label} "]')
            assert focused_hit(page) == f"hit-1-{number}"
        page.keyboard.press("k")
        assert focused_hit(page) == "hit-1-2"
        page.keyboard.press("l")
        assert focused_hit(page).startswith("hit-2-")
        page.keyboard.press("h")
        assert focused_hit(page).startswith("hit-1-")
        assert re.match(r"\d\.\d{3} NDCG@10", page.locator(".measure").first.inner_text())
        assert "3 of the top 10 judged" in page.locator(".column-head").first.inner_text()
        assert page.locator("#said").inner_text().endswith("4 of 4 stars")
        page.keyboard.press("e")
        assert page.locator(f"#{focused_hit(page)} details table").is_visible()
        page.keyboard.press("x")
        page.keyboard.press("j")
        page.keyboard.press("x")
        page.keyboard.press("w")
        page.wait_for_selector(".why p")
        assert re.search("is ranked above|have the same score", page.locator(".why").inner_text())
        page.keyboard.press("?")
        assert page.locator("#keys").is_visible()
        page.get_by_label("Use these keys").uncheck()
        page.keyboard.press("Escape")
        page.keyboard.press("j")
        assert focused_hit(page) is None


def test_a_judgement_that_is_refused_is_said_and_a_third_tick_lets_the_first_go(chromium, service):
    with page_of(chromium, service, "403") as page:
        page.goto(TWO)
        ticks = page.locator('.column:first-child input[name="why"][type=checkbox]')
        for number in range(3):
            ticks.nth(number).check()
        assert [ticks.nth(number).is_checked() for number in range(3)] == [False, True, True]
        page.evaluate("document.querySelectorAll('input[name=csrf]').forEach((field) => { field.value = 'x'; })")
        page.keyboard.press("j")
        page.keyboard.press("3")
        page.wait_for_selector('[role="alert"]')
        assert "Not judged: csrf: expected a form" in page.locator('[role="alert"]').inner_text()


def test_everything_works_without_javascript(chromium, service):
    with page_of(chromium, service, java_script_enabled=False) as page:
        page.goto("/")
        page.fill("#q", "green leaves")
        page.locator("button", has_text="Search").click()
        page.locator("#hit-1-3 button").nth(3).click()
        page.wait_for_url("**#hit-1-3")
        assert page.locator("#hit-1-3 button").nth(3).get_attribute("aria-pressed") == "true"
        assert "1 of the top 10 judged" in page.locator(".column-head").inner_text()
        for number in (1, 2):
            page.locator(f"#hit-1-{number} .pick input").check()
        page.locator("#why-form button").click()
        assert "Why, by web" in page.locator(".why").inner_text()
        page.locator("#hit-1-1 summary").click()
        assert page.locator("#hit-1-1 details table").is_visible()
        assert page.locator("#keys-button").is_hidden()
        page.get_by_role("link", name="Queries").click()
        assert page.get_by_role("link", name="green leaves").is_visible()


def every_page(chromium, service, guarded, **options):
    """Each page in turn, opened as far as it goes."""
    with page_of(chromium, service, "404", **options) as page:
        page.goto(TWO)
        ids = [hit.get_attribute("data-document") for hit in page.locator(".column:first-child .hit").all()]
        page.locator("#hit-1-1 button").nth(4).click()
        page.wait_for_selector("#hit-1-1 button.on")
        for address in ("/", TWO, f"{TWO}&system=index&why={ids[0]}&why={ids[1]}", "/queries", "/nothing"):
            page.goto(address)
            page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            yield address, page
    with page_of(chromium, guarded, **options) as page:
        page.goto("/login")
        yield "/login", page
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Sign in").click()
        page.wait_for_selector("#q")
        yield "signed in", page


@pytest.mark.parametrize("width", [1280, 390])
def test_nothing_overflows_or_overlaps(chromium, service, guarded, width):
    for address, page in every_page(chromium, service, guarded, viewport={"width": width, "height": 844}):
        assert page.evaluate(OVERFLOWING) == [], address
        assert page.evaluate(OVERLAPPING) == [], address
        picture = page.screenshot(full_page=True)
        assert picture.startswith(b"\x89PNG")
        if folder := os.environ.get("PODIUM_SCREENSHOTS"):
            name = re.sub(r"\W+", "-", address)[:40].strip("-") or "home"
            with open(f"{folder}/{name}-{width}.png", "wb") as file:
                file.write(picture)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_has_no_complaint(chromium, service, guarded, scheme):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe()
    for address, page in every_page(chromium, service, guarded, color_scheme=scheme):
        violations = axe.run(page).response["violations"]
        shown = [(one["id"], [node["html"][:120] for node in one["nodes"][:3]]) for one in violations]
        assert shown == [], address
        button = page.locator("#keys-button")
        if button.count() and button.is_visible():
            button.click()
            assert axe.run(page, "#keys").response["violations"] == []
