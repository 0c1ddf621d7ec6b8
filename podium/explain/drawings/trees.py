"""Trees: splits with their question, leaves with what they add, from left to right.

Only as many levels are drawn as can be read; what is below is one box that says how many leaves it stands for and the
number of its node, from which another picture can go on.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from podium._runtime.words import counted
from podium.explain.drawings.style import DOWN, INK, NAME, PALE, QUIET, SMALL, UP, picture, plain, text_width
from podium.explain.subjects import columns_for, refuse_other_models
from podium.learners.trees.scoring.forest import TreeArrays
from podium.models.frame.inspection import CategoryNames, category_names, question

_BOXES = 16  # in a column, unless a depth is given
_QUESTION = 44  # characters
_PITCH = 0.44  # inches from one line of boxes to the next
_GAP = 0.75  # inches between columns, for branches and their words
_PAD = 0.09  # inches around the text of a box
_WIDEST = 100.0  # inches; a larger tree has smaller text


@dataclass(frozen=True)
class _Box:
    """A node of the picture: its position, its text and the boxes of its children."""

    column: int
    line: float
    text: str
    colour: str
    children: tuple[_Box, ...] = ()


def draw_tree(
    model: Any,
    tree: int,
    path: str | os.PathLike[str] | None = None,
    names: Sequence[str] | None = None,
    *,
    depth: int | None = None,
    node: int = 0,
    ax: Any = None,
) -> Any:
    """Draw tree number `tree`, from 1, of the model.

    depth: how many levels of splits; by default as many as can be read. What is below them is drawn as "... 12 more
    leaves, node 17", and `node=17` draws that part of the tree.
    """
    refuse_other_models(model)
    if not 1 <= tree <= model.forest_.n_trees:
        raise ValueError(f"tree must be from 1 to {model.forest_.n_trees}; got {tree}.")
    arrays = model.forest_.split()[tree - 1]
    if not 0 <= node < len(arrays.feature):
        raise ValueError(f"node must be from 0 to {len(arrays.feature) - 1}, the nodes of tree {tree}; got {node}.")
    if depth is not None and depth < 0:
        raise ValueError(f"depth must be a number of levels, from 0; got {depth}.")
    levels = _readable_depth(arrays, node) if depth is None else depth
    root, lines = _boxes(arrays, node, levels, columns_for(model, None, names), category_names(model))
    boxes = _all_below(root)
    starts, width = _columns(boxes)
    size = width, _PITCH * (lines + 0.4)
    with picture(path, ax, min(_WIDEST, size[1]), min(_WIDEST, width)) as axes:
        if ax is None:
            axes.figure.set_layout_engine("none")
            axes.set_position((0, 0, 1, 1))
        axes.set_axis_off()
        axes.set_xlim(0, size[0])
        axes.set_ylim(size[1], 0)
        extent, dpi = axes.get_window_extent(), axes.figure.dpi
        share = min(1.0, extent.width / dpi / size[0], extent.height / dpi / size[1])
        for box in boxes:
            _draw_box(axes, box, starts, SMALL * share)
    return axes


def _is_leaf(tree: TreeArrays, node: int) -> bool:
    return int(tree.left[node]) == node


def _children(tree: TreeArrays, node: int) -> tuple[int, int]:
    return int(tree.left[node]), int(tree.left[node]) + 1


def _readable_depth(tree: TreeArrays, node: int) -> int:
    """The most levels with at most `_BOXES` boxes beside one another; at least one."""
    depth, level, ended = 0, [node], 0
    while any(not _is_leaf(tree, one) for one in level):
        ended += sum(_is_leaf(tree, one) for one in level)
        level = [child for one in level if not _is_leaf(tree, one) for child in _children(tree, one)]
        if ended + len(level) > _BOXES:
            break
        depth += 1
    return max(depth, 1)


def _count_leaves(tree: TreeArrays, node: int) -> int:
    waiting, leaves = [node], 0
    while waiting:
        one = waiting.pop()
        if _is_leaf(tree, one):
            leaves += 1
        else:
            waiting += _children(tree, one)
    return leaves


def _boxes(
    tree: TreeArrays, node: int, levels: int, names: Sequence[str], categories: CategoryNames
) -> tuple[_Box, int]:
    """The box of the root with all below it, and the number of lines; a deep tree needs no deep recursion."""
    order, waiting = [], [(node, 0)]
    while waiting:  # parents before their children, the yes before the no
        one, depth = waiting.pop()
        order.append((one, depth))
        if not _is_leaf(tree, one) and depth < levels:
            left, right = _children(tree, one)
            waiting += [(right, depth + 1), (left, depth + 1)]
    lines, boxes = 0, dict[int, _Box]()
    line_of: dict[int, int] = {}
    for one, depth in order:
        if _is_leaf(tree, one) or depth == levels:
            line_of[one], lines = lines, lines + 1
    for one, depth in reversed(order):
        rows = counted(int(tree.count[one]), "row")
        if _is_leaf(tree, one):
            colour = UP if tree.value[one] >= 0 else DOWN
            boxes[one] = _Box(depth, line_of[one], f"{tree.value[one]:+.4g}\n{rows}", colour)
        elif depth == levels:
            more = f"… {counted(_count_leaves(tree, one), 'more leaf', 'more leaves')}\nnode {one}, {rows}"
            boxes[one] = _Box(depth, line_of[one], more, QUIET)
        else:
            asked = _shortened(question(tree, one, names, categories))
            children = tuple(boxes[child] for child in _children(tree, one))
            middle = sum(child.line for child in children) / 2
            boxes[one] = _Box(depth, middle, f"{asked}\ngain {tree.gain[one]:.4g}, {rows}", INK, children)
    return boxes[node], lines


def _shortened(asked: str) -> str:
    """Of a long name its ends; the number behind it stays."""
    name, sign, number = asked.partition(" <= ")
    return plain(name, NAME) + sign + number if sign else plain(asked, _QUESTION)


def _all_below(root: _Box) -> list[_Box]:
    boxes, waiting = [], [root]
    while waiting:
        boxes.append(waiting.pop())
        waiting += boxes[-1].children
    return boxes


def _columns(boxes: Sequence[_Box]) -> tuple[np.ndarray, float]:
    """The left side of the boxes of each column, in inches, and the width of all."""
    widths = np.zeros(max(box.column for box in boxes) + 1)
    for box in boxes:
        widths[box.column] = max(widths[box.column], _text_width(box.text) + 2 * _PAD)
    starts = np.concatenate([[0.0], np.cumsum(widths[:-1] + _GAP)]) + 2 * _PAD
    return starts, float(starts[-1] + widths[-1] + 2 * _PAD)


def _text_width(text: str) -> float:
    return max(text_width(line) for line in text.split("\n"))


def _draw_box(axes: Any, box: _Box, starts: np.ndarray, size: float) -> None:
    x, y = starts[box.column] + _PAD, _PITCH * (box.line + 0.7)
    frame = {"boxstyle": "square,pad=0.35", "facecolor": "white", "edgecolor": box.colour, "linewidth": 0.9}
    look: dict[str, Any] = {"fontsize": size, "va": "center", "linespacing": 1.15}
    axes.text(x, y, box.text, bbox=frame, zorder=3, ha="left", **look)
    for child, word in zip(box.children, ("yes", "no")):
        from_x, to_x = x + _text_width(box.text), starts[child.column]
        to_y = _PITCH * (child.line + 0.7)
        joint = max(from_x + _PAD, to_x - 0.55)
        axes.plot([from_x, joint, joint, to_x], [y, y, to_y, to_y], color=PALE, linewidth=1.0, zorder=1)
        behind = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
        axes.text(to_x - 0.27, to_y, word, fontsize=size, color=QUIET, ha="center", va="center", bbox=behind, zorder=2)
