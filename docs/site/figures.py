"""Figures: a page that shows `pictures/NAME.svg` and saves it in its Python code is run, and shows what it drew."""

from __future__ import annotations

import os
import re
import sys
import tempfile
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import matplotlib

PICTURES = Path(__file__).parents[1] / "pictures"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"^!\[([^\]]*)\]\(pictures/([\w-]+\.svg)\)$", re.MULTILINE)
INK = "#010203"  # of all that is neither data nor page: text, axes, ticks. Becomes the colour of the text around
STYLE = {
    "svg.fonttype": "none",  # text that can be read, searched and coloured
    "svg.hashsalt": "podium",
    "savefig.transparent": True,
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.prop_cycle": matplotlib.cycler(color=["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8c8c8c"]),
    **dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
}


def draw_all(pages: list[Path]) -> dict[str, str]:
    """{name: SVG} of all figures that these pages show and draw."""
    texts = [text for page in pages if needs_drawing(text := page.read_text("utf-8"))]
    with tempfile.TemporaryDirectory() as folder:
        write_demo_data(Path(folder))
        return {name: svg for text in texts for name, svg in draw(text, Path(folder)).items()}


def needs_drawing(text: str) -> bool:
    """Whether the code of a page saves one of the pictures that it shows."""
    code = "\n".join(BLOCK.findall(text))
    return any(name in code for _, name in SHOWN.findall(text))


def write_demo_data(folder: Path) -> None:
    """The files of `podium demo` with feature values, which pages read."""
    from podium.demo.show import write_feature_files

    write_feature_files(folder / "demo")


def draw(text: str, folder: Path) -> dict[str, str]:
    """Run the Python code of a page in this folder, and return the pictures that it saved."""
    names: dict[str, object] = {}
    before = Path.cwd()
    os.chdir(folder)
    try:
        with matplotlib.rc_context(STYLE), redirect_stdout(StringIO()):
            for block in BLOCK.findall(text):
                exec(compile(block, "the page", "exec"), names)
    finally:
        os.chdir(before)
    found = {path.name: path for path in folder.rglob("*.svg")}
    shown = [name for _, name in SHOWN.findall(text)]
    return {name: themed(found[name].read_text("utf-8"), name) for name in shown if name in found}


def themed(svg: str, name: str) -> str:
    """An SVG without date and program, with ids of its own, whose ink is the colour of the text around it."""
    svg = re.sub(r"<metadata>.*?</metadata>|<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->", "", svg, flags=re.DOTALL)
    prefix = name.removesuffix(".svg")
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{prefix}-", svg).replace(INK, "currentColor")
    svg = re.sub(r"(<svg [^>]*?)\s+width=\"[^\"]*\"", r"\1", re.sub(r"(<svg [^>]*?)\s+height=\"[^\"]*\"", r"\1", svg))
    return "\n".join(line.rstrip() for line in svg.splitlines() if line.strip())


def standing_alone(svg: str) -> str:
    """A picture as a file, which GitHub shows: its letters are dark, or light where the reader asks for dark pages."""
    colours = "svg{color:#1f2328}@media(prefers-color-scheme:dark){svg{color:#e6edf3}}"
    return re.sub(r"(<svg [^>]*>)", rf"\1\n<style>{colours}</style>", svg, count=1) + "\n"


def embedded(text: str, drawn: dict[str, str]) -> str:
    """The text of a page with its figures as part of it."""

    def figure(match: re.Match[str]) -> str:
        about, name = match.groups()
        if name not in drawn:
            return match[0]
        width = re.search(r'viewBox="0 0 ([\d.]+)', drawn[name])[1]
        svg = drawn[name].replace("<svg ", f'<svg role="img" aria-label="{about}" style="max-width: {width}pt" ', 1)
        return f'<figure class="drawn">\n{svg}\n<figcaption>{about}</figcaption>\n</figure>'

    return SHOWN.sub(figure, text)


def main() -> None:
    """Write the figures of the pages that are named into docs/pictures/."""
    for name, svg in draw_all([Path(page) for page in sys.argv[1:]]).items():
        (PICTURES / name).write_text(standing_alone(svg), "utf-8")
        print(PICTURES / name)


if __name__ == "__main__":
    main()
