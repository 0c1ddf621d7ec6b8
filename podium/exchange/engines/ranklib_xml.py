"""RankLib's trees in XML, written and read: a fixed set of elements, without declarations and entities.

RankLib joins the lines of a file, without the blanks around each, and reads the elements by their order; so does this.
Each element is visited once, and which may come next is known from those that are open.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np

from podium._runtime.compiler import Array
from podium.exchange.chains import java_number
from podium.formats.decimals import round_texts
from podium.learners.trees.scoring.forest import TreeArrays

MOST_FEATURES = 2**20  # RankLib itself has an array of so many numbers per document
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,9})?|[+-]?Infinity", re.ASCII)
_LONGEST = 400  # characters of a number
_SHOWN = 40

_TOKEN = re.compile(
    r"[ \t]*(?:<feature>(?P<feature>[^<>]*)</feature>|<threshold>(?P<threshold>[^<>]*)</threshold>"
    r"|<output>(?P<output>[^<>]*)</output>|(?P<split><split(?: pos=\"(?P<side>left|right)\")?>)"
    r"|(?P<split_end></split>)|(?P<tree><tree id=\"\d{1,9}\" weight=\"(?P<weight>[^\"<>]*)\">)|(?P<tree_end></tree>)"
    r"|(?P<ensemble><ensemble>)|(?P<ensemble_end></ensemble>))",
    re.ASCII,
)
_TEXTS = {"split": "side", "tree": "weight"}  # what is wanted of these
EMPTY, ASKED, WHOLE, HALF, FULL = range(5)  # a split: nothing, feature, threshold, left child, all of it or an output


def read_number(text: str, what: str) -> float:
    """The float64 nearest to a text, as Java reads it; infinities are written out there."""
    if len(text) > _LONGEST or not _NUMBER.fullmatch(text):
        raise ValueError(f"{what} must be a number; found {text[:_SHOWN]!r}.")
    return float(text)


def read_feature(text: str, what: str, least: int = 1) -> int:
    """The number of a feature."""
    if not re.fullmatch(r"\d{1,7}", text, re.ASCII) or not least <= int(text) <= MOST_FEATURES:
        problem = f"{what}: a feature is an integer from {least} to {MOST_FEATURES:,}"
        raise ValueError(f"{problem}; found {text[:_SHOWN]!r}.")
    return int(text)


# --- out


def tree_xml(tree: TreeArrays, number: int) -> str:
    """One tree of weight 1, laid out as RankLib does."""
    left, right = tree.left.astype(np.int64).tolist(), tree.left.astype(np.int64) + 1
    features, thresholds, values = tree.feature.tolist(), tree.threshold.tolist(), tree.value.tolist()
    lines = [f'\t<tree id="{number}" weight="1.0">']
    waiting: list[tuple[int, int, str]] = [(0, 2, "")]  # nodes, how far they are indented, their side; -1: an end
    while waiting:
        node, depth, side = waiting.pop()
        indent = "\t" * depth
        if node < 0:
            lines.append(f"{indent}</split>")
            continue
        lines.append(f"{indent}<split{side}>")
        waiting.append((-1, depth, ""))
        if left[node] == node:
            lines.append(f"{indent}\t<output>{java_number(values[node])} </output>")
            continue
        lines.append(f"{indent}\t<feature>{features[node] + 1} </feature>")
        lines.append(f"{indent}\t<threshold> {java_number(thresholds[node])} </threshold>")
        waiting.append((int(right[node]), depth + 1, ' pos="right"'))
        waiting.append((left[node], depth + 1, ' pos="left"'))
    return "\n".join([*lines, "\t</tree>", ""])


# --- in


@dataclass(frozen=True, eq=False)
class Ensembles:
    """Trees as a file has them; nodes tree by tree, each from its root on."""

    sizes: list[int]  # trees of each ensemble
    weight: Array  # (trees,) float32
    n_nodes: Array  # (trees,)
    left: Array  # (nodes,) places of children; -1 in leaves
    right: Array
    feature: Array  # (nodes,) from 1; 0 in leaves
    threshold: Array  # (nodes,) float32
    output: Array  # (nodes,) float32; 0 in splits


def parse_ensembles(text: str) -> Ensembles:
    """The trees of all ensembles, or an error that names the tree and what was expected there."""
    reader, at = _Reader(), 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            if not text[at:].strip(" \t"):
                break
            raise reader.error(f"found {text[at : at + _SHOWN].strip()!r}, which is no element of a tree")
        kind = str(match.lastgroup)
        reader.take(kind, (match[_TEXTS.get(kind, kind)] or "").strip(" \t"))
        at = match.end()
    return reader.finish()


@dataclass
class _Reader:
    """What was read, and the elements that are open."""

    sizes: list[int] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    n_nodes: list[int] = field(default_factory=list)
    left: list[int] = field(default_factory=list)
    right: list[int] = field(default_factory=list)
    feature: list[int] = field(default_factory=list)
    threshold: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    in_ensemble: bool = False
    in_tree: bool = False
    open: list[int] = field(default_factory=list)  # splits
    stage: list[int] = field(default_factory=list)  # how much of each open split was read

    def error(self, problem: str) -> ValueError:
        node = f", node {self.n_nodes[-1] - 1}" if self.in_tree and self.n_nodes[-1] else ""
        return ValueError(f"tree {max(len(self.weights), 1)}{node}: {problem}.")

    def take(self, kind: str, text: str) -> None:
        if self.open:
            self._take_in_split(kind, text)
        elif kind == "split" and self.in_tree and self.n_nodes[-1] == 0:
            self._open_split()
        elif kind == "tree" and self.in_ensemble and not self.in_tree:
            self.in_tree = True
            self.weights.append(text)
            self.n_nodes.append(0)
            self.sizes[-1] += 1
        elif kind == "tree_end" and self.in_tree and self.n_nodes[-1]:
            self.in_tree = False
        elif kind == "ensemble" and not self.in_ensemble:
            self.in_ensemble = True
            self.sizes.append(0)
        elif kind == "ensemble_end" and self.in_ensemble and not self.in_tree:
            self.in_ensemble = False
        else:
            raise self.error(f"found an element {kind.replace('_', ' ')!r} out of order")

    def _take_in_split(self, kind: str, text: str) -> None:
        node, stage = self.open[-1], self.stage[-1]
        if kind == "feature" and stage == EMPTY:
            self.feature[node] = read_feature(text, f"tree {len(self.weights)}")
        elif kind == "threshold" and stage == ASKED:
            self.threshold[node] = text
        elif kind == "output" and stage == EMPTY:
            self.output[node] = text
            self.stage[-1] = FULL
            return
        elif kind == "split" and stage in (WHOLE, HALF) and text in ("", "left" if stage == WHOLE else "right"):
            (self.left if stage == WHOLE else self.right)[node] = len(self.left)
            self._open_split()
            self.stage[-2] += 1
            return
        elif kind == "split_end" and stage == FULL:
            self.open.pop()
            self.stage.pop()
            return
        else:
            raise self.error(f"found an element {kind.replace('_', ' ')!r} out of order")
        self.stage[-1] += 1

    def _open_split(self) -> None:
        self.open.append(len(self.left))
        self.stage.append(EMPTY)
        self.n_nodes[-1] += 1
        self.left.append(-1)
        self.right.append(-1)
        self.feature.append(0)
        self.threshold.append("0")
        self.output.append("0")

    def finish(self) -> Ensembles:
        if self.in_ensemble or not self.sizes:
            raise self.error("there is no </ensemble>. Is the file cut short?")
        singles = {name: self._singles(name) for name in ("threshold", "output")}
        weights = _rounded([read_number(text, "the weight of a tree") for text in self.weights], self.weights)
        return Ensembles(
            self.sizes,
            weights,
            np.array(self.n_nodes, np.int64),
            np.array(self.left, np.int64),
            np.array(self.right, np.int64),
            np.array(self.feature, np.int64),
            **singles,
        )

    def _singles(self, name: str) -> Array:
        texts: list[str] = getattr(self, name)
        numbers = [read_number(text, f"the {name} of node {node} (of all)") for node, text in enumerate(texts)]
        return _rounded(numbers, texts)


def _rounded(numbers: list[float], texts: list[str]) -> Array:
    """The float32 nearest to each text."""
    return round_texts(np.array(numbers, np.float64), texts)
