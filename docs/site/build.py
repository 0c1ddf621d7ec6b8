"""Build the site: `python docs/site/build.py` makes build/site of README.md, docs/, docstrings and the command line.

Warnings are errors, and so is a link that leads nowhere and anything that a browser would fetch from elsewhere.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

import links
import pages
from sphinx.application import Sphinx
from sphinx.util.console import nocolor
from sphinx.util.docutils import docutils_namespace, patch_docutils

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / "build"


def build(folder: Path) -> Path:
    """Write the pages as Markdown into folder/pages, then as HTML into folder/site."""
    source, site = folder / "pages", folder / "site"
    for old in (source, site):
        shutil.rmtree(old, ignore_errors=True)
    pages.write_all(source)
    nocolor()
    with patch_docutils(str(HERE)), docutils_namespace():
        sphinx = Sphinx(source, HERE, site, folder / "doctrees", "html", status=None, warningiserror=True, parallel=2)
        sphinx.build(force_all=True)
    if sphinx.statuscode:
        raise SystemExit(f"{sphinx.statuscode}: the pages have faults, which are listed above.")
    (site / ".buildinfo").unlink(missing_ok=True)
    return site


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder for pages and site (default: build)")
    site = build(parser.parse_args().out.resolve())
    faults = links.faults_of(site)
    print(*faults, sep="\n", end="\n" if faults else "")
    if faults:
        sys.exit(f"{site}: {len(faults)} faults")
    print(f"{site / 'index.html'}: built, {len(list(site.rglob('*.html')))} pages; links and anchors checked")


if __name__ == "__main__":
    main()
