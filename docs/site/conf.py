"""Settings of Sphinx. `build.py` writes the pages and calls it."""

import sys
from pathlib import Path

import podium

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

project = "Podium"
copyright = "the authors of Podium"
release = version = podium.__version__
root_doc = "index"

extensions = ["myst_parser", "mathml", "landmarks"]
myst_enable_extensions = ["dollarmath", "deflist"]
myst_heading_anchors = 4
myst_heading_slug_func = "pages.slug"  # addresses of headings as on GitHub
myst_dmath_double_inline = True
suppress_warnings = ["misc.highlighting_failure"]  # JSON with an ellipsis in it

html_theme = "furo"
pygments_dark_style = "a11y-high-contrast-dark"
html_title = "Podium"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_js_files = [("site.js", {"defer": "defer"})]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"top_of_page_buttons": [], "navigation_with_keys": False}
smartquotes = False
python_use_unqualified_type_names = True
