"""Drawings: trees, curves, bars, dots and arrows, into axes of matplotlib that are given or as SVG and PNG files."""

from podium.explain.drawings.bars import draw_drops as draw_drops
from podium.explain.drawings.bars import draw_importance as draw_importance
from podium.explain.drawings.bars import draw_query as draw_query
from podium.explain.drawings.bars import draw_why as draw_why
from podium.explain.drawings.curves import draw_curves as draw_curves
from podium.explain.drawings.curves import draw_cutoffs as draw_cutoffs
from podium.explain.drawings.curves import draw_dependence as draw_dependence
from podium.explain.drawings.curves import draw_differences as draw_differences
from podium.explain.drawings.curves import draw_line_search as draw_line_search
from podium.explain.drawings.dots import draw_summary as draw_summary
from podium.explain.drawings.pairs import draw_lambdas as draw_lambdas
from podium.explain.drawings.style import SERIES as SERIES
from podium.explain.drawings.style import picture as picture
from podium.explain.drawings.style import pictures as pictures
from podium.explain.drawings.style import refuse_other_suffixes as refuse_other_suffixes
from podium.explain.drawings.surfaces import draw_tuning as draw_tuning
from podium.explain.drawings.trees import draw_tree as draw_tree
