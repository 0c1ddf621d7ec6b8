"""The pages of the site as Markdown: those of the repository under the same addresses, and those made of the code."""

from __future__ import annotations

import re
import shutil
import tomllib
from pathlib import Path

import commands
import figures
import reference

ROOT = Path(__file__).parents[2]
START = "index.md"  # README.md there
MARKER = re.compile(r" *<!-- results: .*? -->")  # of quoted measurements, for tests
LINK_TO_START = re.compile(r"(\]\((?:\.\./)*)README\.md")
MORE = "More"


def slug(title: str) -> str:
    """The address of a heading as on GitHub: lower case, without punctuation, words joined by dashes."""
    return re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-")


def sections() -> dict[str, list[str]]:
    """Titles of the navigation and their pages; pages of docs/ that nobody has placed come last."""
    listed = tomllib.loads((ROOT / "docs/site/navigation.toml").read_text("utf-8"))["section"]
    placed = {section["title"]: section["pages"] for section in listed}
    known = {page for pages in placed.values() for page in pages}
    rest = [name for name in all_in_docs() if name not in known]
    return placed | ({MORE: rest} if rest else {})


def all_in_docs() -> list[str]:
    """The pages of docs/ and of its folders, as paths from the root of the repository."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))


def write_all(folder: Path) -> None:
    """Write every page of the navigation, and what they link to."""
    written = [page for pages in sections().values() for page in pages if not page.startswith("reference/")]
    shutil.copytree(ROOT / "docs/pictures", folder / "docs/pictures", ignore=shutil.ignore_patterns("__pycache__"))
    drawn = figures.draw_all([ROOT / page for page in written])
    for page in written:
        write(folder / page, figures.embedded((ROOT / page).read_text("utf-8"), drawn))
    write(folder / START, (ROOT / "README.md").read_text("utf-8") + navigation())
    for name, text in {**reference.pages(), "commands.md": commands.page()}.items():
        write(folder / "reference" / name, text)


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(LINK_TO_START.sub(rf"\1{START}", MARKER.sub("", text)), "utf-8")


def navigation() -> str:
    """One hidden table of contents per section, which the theme shows at the side of every page."""
    tables = (
        "\n".join(["", "```{toctree}", ":hidden:", f":caption: {title}", "", *listed, "```", ""])
        for title, listed in sections().items()
    )
    return "\n".join(tables)
