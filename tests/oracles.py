"""Slow, obvious versions of what Podium computes fast. Plain loops, no cleverness: these are what the tests believe."""

import itertools
import math
import re
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise, permutations

# --- metrics: one ranked list of labels, plain loops -------------------------------------------------------------


def discount(rank, kind="log2"):
    if kind == "letor":
        return 1.0 if rank <= 2 else 1.0 / math.log2(rank)
    return 1.0 / math.log2(1 + rank)


def dcg(ranked, cutoff=None, gain=lambda label: 2**label - 1, kind="log2"):
    top = len(ranked) if cutoff is None else min(cutoff, len(ranked))
    return sum(gain(ranked[i]) * discount(i + 1, kind) for i in range(top))


def ndcg(ranked, cutoff=None, gain=lambda label: 2**label - 1, kind="log2", empty=0.0):
    best = dcg(sorted(ranked, reverse=True), cutoff, gain, kind)
    return dcg(ranked, cutoff, gain, kind) / best if best > 0 else empty


def mean_ndcg(ranked, cutoff=None):
    top = len(ranked) if cutoff is None else min(cutoff, len(ranked))
    return sum(ndcg(ranked, k) for k in range(1, top + 1)) / top


def precision(ranked, cutoff=None):
    k = len(ranked) if cutoff is None else cutoff
    return sum(label >= 1 for label in ranked[:k]) / k


def recall(ranked, cutoff=None):
    relevant = sum(label >= 1 for label in ranked)
    return sum(label >= 1 for label in ranked[:cutoff]) / relevant if relevant else 0.0


def average_precision(ranked, cutoff=None):
    relevant = sum(label >= 1 for label in ranked)
    if not relevant:
        return 0.0
    top = len(ranked) if cutoff is None else min(cutoff, len(ranked))
    return sum(precision(ranked, i + 1) for i in range(top) if ranked[i] >= 1) / relevant


def reciprocal_rank(ranked, cutoff=None):
    for i, label in enumerate(ranked[:cutoff]):
        if label >= 1:
            return 1.0 / (i + 1)
    return 0.0


def err(ranked, cutoff=None):
    largest, reach, total = max(ranked), 1.0, 0.0
    for i, label in enumerate(ranked[:cutoff]):
        stop = (2**label - 1) / 2**largest
        total += reach * stop / (i + 1)
        reach *= 1 - stop
    return total


def rbp(ranked, cutoff=None, persistence=0.8):
    return sum((1 - persistence) * persistence**i for i, label in enumerate(ranked[:cutoff]) if label >= 1)


def inversions(ranked, cutoff=None):
    top = len(ranked) if cutoff is None else min(cutoff, len(ranked))
    return sum(ranked[i] < ranked[j] for i in range(top) for j in range(i + 1, len(ranked)))


def auc(ranked, cutoff=None):
    n = len(ranked)
    pairs = sum(ranked[i] != ranked[j] for i in range(n) for j in range(i + 1, n))
    return 1 - inversions(ranked, cutoff) / pairs if pairs else math.nan


METRIC_ORACLES = {
    "ndcg": ndcg,
    "dcg": dcg,
    "meanndcg": mean_ndcg,
    "map": average_precision,
    "p": precision,
    "recall": recall,
    "rr": reciprocal_rank,
    "err": err,
    "rbp": rbp,
    "auc": auc,
    "inversions": inversions,
}


# --- measures of runs: a list of codes (labels; -1 not judged, -2 judged without label) and all labels of the qrels -


def _relevant(codes, level):
    return [code >= level for code in codes]


def hits_to(codes, k, level=1):
    return sum(_relevant(codes, level)[:k])


def r_precision(codes, pool, level=1, multiple=None):
    total = hits_to(pool, None, level)
    k = total if multiple is None else int(multiple * total + 0.9)
    return hits_to(codes, k, level) / k if k else 0.0


def interpolated_precision(codes, pool, recall, level=1):
    wanted = int(recall * hits_to(pool, None, level) + 0.9)
    precisions = [
        hits_to(codes, k, level) / k for k in range(1, len(codes) + 1) if hits_to(codes, k, level) >= max(wanted, 1)
    ]
    return max(precisions, default=0.0)


def eleven_points(codes, pool, level=1):
    return sum(interpolated_precision(codes, pool, tenth / 10, level) for tenth in range(11)) / 11


def relative_precision(codes, pool, k, level=1):
    most = min(k, hits_to(pool, None, level))
    return hits_to(codes, k, level) / most if most else 0.0


def binary_g(codes, pool, level=1):
    terms = [1 / math.log2(2 + rank - hits_to(codes, rank, level)) for rank, code in enumerate(codes) if code >= level]
    total = hits_to(pool, None, level)
    return sum(terms) / total if total else 0.0


def bpref(codes, pool, level=1):
    total = hits_to(pool, None, level)
    others = sum(0 <= label < level for label in pool)
    terms = []
    for rank, code in enumerate(codes):
        if code >= level:
            above = sum(0 <= other < level for other in codes[:rank])
            terms.append(1 - min(above, total) / min(others, total) if above else 1.0)
    return sum(terms) / total if total else 0.0


def inferred_ap(codes, pool, level=1):
    total, terms = hits_to(pool, None, level), []
    for rank, code in enumerate(codes):
        if code >= level:
            above = codes[:rank]
            judged = [other for other in above if other >= 0]
            pooled = [other for other in above if other != -1]
            precision = (hits_to(judged, None, level) + 1e-5) / (len(judged) + 2e-5)
            terms.append(1 / (rank + 1) + len(pooled) / (rank + 1) * precision if rank else 1.0)
    return sum(terms) / total if total else 0.0


def normalised_gain(codes, pool):
    ideal, total, best = sorted((label for label in pool if label > 0), reverse=True), 0.0, sum(max(x, 0) for x in pool)
    for rank, code in enumerate(codes):
        reached = sum(max(code, 0) for code in codes[: rank + 1])
        cost = sum(max(ideal[i] if i < len(ideal) else 0, 1) for i in range(rank + 1))
        total += max(code, 0) / math.log2(2 + cost - reached)
    return total / best if best else 0.0


def _linear_ndcg(codes, pool, k):
    labels, best = [max(code, 0) for code in codes], sorted((max(label, 0) for label in pool), reverse=True)
    return dcg(labels, k, gain=float) / dcg(best, k, gain=float)


def ndcg_at_relevant(codes, pool):
    graded = sum(label > 0 for label in pool)
    met = [_linear_ndcg(codes, pool, rank + 1) for rank, code in enumerate(codes) if code > 0]
    if not graded:
        return 0.0
    deepest = max(len(codes), graded)
    return (sum(met) + (graded - len(met)) * _linear_ndcg(codes, pool, deepest)) / graded


def ndcg_at_levels(codes, pool, level=1):
    if not hits_to(pool, None, level):
        return 0.0
    ends = [sum(label >= grade for label in pool) for grade in sorted(set(pool), reverse=True) if grade > 0]
    if len(codes) > ends[-1] + 1:  # trec_eval forgets a list that is longer by one
        ends.append(len(codes))
    return sum(_linear_ndcg(codes, pool, end) for end in ends) / len(ends)


def compatibility(codes, pool, p=0.95):
    labels = [max(code, 0) for code in codes]
    ranked = list(range(len(labels)))
    grades = sorted((label for label in pool if label > 0), reverse=True)
    ideal = []
    for grade in sorted(set(grades), reverse=True):
        here = [rank for rank in ranked if labels[rank] == grade]
        ideal += here + [f"missing {grade} {i}" for i in range(grades.count(grade) - len(here))]

    def overlap(first, second):
        depths = range(1, max(len(ranked), len(ideal)) + 1)
        return sum(p ** (d - 1) * len(set(first[:d]) & set(second[:d])) / d for d in depths)

    return overlap(ranked, ideal) / overlap(ideal, ideal) if ideal else 0.0


def set_measures(codes, pool, level=1):
    hits, ret, rel = hits_to(codes, None, level), len(codes), hits_to(pool, None, level)
    precision, recall = (hits / ret if ret else 0.0), (hits / rel if rel else 0.0)
    return {
        "num_ret": ret,
        "num_rel": rel,
        "num_rel_ret": hits,
        "num_nonrel_judged_ret": sum(0 <= code < level for code in codes),
        "set_p": precision,
        "set_recall": recall,
        "set_relative_p": hits / min(ret, rel) if ret and rel else 0.0,
        "set_map": precision * recall,
        "set_f": 2 * precision * recall / (precision + recall) if hits else 0.0,
        "utility": hits - (ret - hits),
        "judged": sum(code != -1 for code in codes) / ret if ret else 0.0,
    }


MEASURE_ORACLES = {
    "rprec": r_precision,
    "rprec_mult(0.6)": lambda codes, pool: r_precision(codes, pool, multiple=0.6),
    "iprec(0)": lambda codes, pool: interpolated_precision(codes, pool, 0.0),
    "iprec(0.5)": lambda codes, pool: interpolated_precision(codes, pool, 0.5),
    "11pt_avg": eleven_points,
    "relative_p@3": lambda codes, pool: relative_precision(codes, pool, 3),
    "success@2": lambda codes, pool: float(hits_to(codes, 2) > 0),
    "bing": binary_g,
    "bpref": bpref,
    "infap": inferred_ap,
    "g": normalised_gain,
    "ndcg_rel": ndcg_at_relevant,
    "rndcg": ndcg_at_levels,
    "compat(0.8)": lambda codes, pool: compatibility(codes, pool, 0.8),
    "compat": compatibility,
    "gm_map": lambda codes, pool: (
        sum(hits_to(codes, k + 1) / (k + 1) for k, code in enumerate(codes) if code >= 1) / max(hits_to(pool, None), 1)
    ),
    "gm_bpref": bpref,
    "num_q": lambda codes, pool: 1,
    **{name: lambda codes, pool, name=name: set_measures(codes, pool)[name] for name in set_measures([1], [1])},
}


def novelty_gains(ranked, judged, alpha, level=1):
    """judged: {subtopic: {document: judgement}}."""
    gains = []
    for rank, doc in enumerate(ranked):
        gain = 0.0
        for labels in judged.values():
            if labels.get(doc, 0) >= level:
                gain += (1 - alpha) ** sum(labels.get(above, 0) >= level for above in ranked[:rank])
        gains.append(gain)
    return gains


def best_order(judged, alpha, level=1):
    """At each rank the document with the largest gain; of equal ones the last by its id."""
    order, rest = [], sorted({doc for labels in judged.values() for doc in labels}, reverse=True)
    while rest:
        gains = [round(novelty_gains([*order, doc], judged, alpha, level)[-1], 12) for doc in rest]
        order.append(rest.pop(gains.index(max(gains))))
    return order


def novelty(ranked, judged, name, cutoff=None, alpha=0.5, beta=0.5, level=1):
    """alpha_dcg, err_ia and nrbp, with an n before the last part of the name divided by that of the best order."""
    k = len(ranked) if cutoff is None else cutoff
    weight = {
        "dcg": lambda rank: 1 / math.log2(1 + rank),
        "err": lambda rank: 1 / rank,
        "rbp": lambda rank: beta ** (rank - 1),
    }[name.removeprefix("n")]

    def total(documents, depth):
        gains = novelty_gains(documents[:depth], judged, alpha, level)
        return sum(gain * weight(rank) for rank, gain in enumerate(gains, 1))

    wanted = [labels for labels in judged.values() if max(labels.values()) >= level]
    if not wanted:
        return 0.0
    if name.startswith("n"):
        return total(ranked, k) / total(best_order(judged, alpha, level), cutoff)
    if name == "rbp":
        return total(ranked, k) * (1 - (1 - alpha) * beta) / len(wanted)
    return total(ranked, k) / (len(wanted) * sum((1 - alpha) ** (rank - 1) * weight(rank) for rank in range(1, k + 1)))


def mean_over_subtopics(ranked, judged, value, level=1):
    """The mean of value(relevant or not, down the list; number of relevant documents)."""
    wanted = [labels for labels in judged.values() if max(labels.values()) >= level]
    parts = [
        value([labels.get(doc, 0) >= level for doc in ranked], sum(label >= level for label in labels.values()))
        for labels in wanted
    ]
    return sum(parts) / len(parts) if parts else 0.0


def _precision_sum(hits, relevant):
    return sum(sum(hits[: k + 1]) / (k + 1) for k, hit in enumerate(hits) if hit) / relevant


SUBTOPIC_ORACLES = {
    "alpha_nDCG@5": lambda ranked, judged: novelty(ranked, judged, "ndcg", 5),
    "alpha_nDCG(alpha=0.3)": lambda ranked, judged: novelty(ranked, judged, "ndcg", alpha=0.3),
    "alpha_nDCG(rel=2)@3": lambda ranked, judged: novelty(ranked, judged, "ndcg", 3, level=2),
    "alpha_nDCG(alpha=1)@4": lambda ranked, judged: novelty(ranked, judged, "ndcg", 4, alpha=1),
    "alpha_DCG(alpha=0.2)@4": lambda ranked, judged: novelty(ranked, judged, "dcg", 4, alpha=0.2),
    "alpha_DCG@20": lambda ranked, judged: novelty(ranked, judged, "dcg", 20),
    "ERR_IA@5": lambda ranked, judged: novelty(ranked, judged, "err", 5),
    "nERR_IA@5": lambda ranked, judged: novelty(ranked, judged, "nerr", 5),
    "NRBP(alpha=0.4,beta=0.8)": lambda ranked, judged: novelty(ranked, judged, "rbp", alpha=0.4, beta=0.8),
    "nNRBP": lambda ranked, judged: novelty(ranked, judged, "nrbp"),
    "StRecall@3": lambda ranked, judged: mean_over_subtopics(ranked, judged, lambda hits, _: any(hits[:3])),
    "P_IA@3": lambda ranked, judged: mean_over_subtopics(ranked, judged, lambda hits, _: sum(hits[:3]) / 3),
    "AP_IA": lambda ranked, judged: mean_over_subtopics(ranked, judged, _precision_sum),
}


# --- LETOR text, line by line ------------------------------------------------------------------------------------

_NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_NAN = re.compile(rb"[+-]?nan", re.IGNORECASE)
_FEATURE = re.compile(rb"0*(\d{1,18}):(.+)", re.DOTALL)
_DOCID = re.compile(rb"(?:^|(?<=[ \t]))docid[ \t]*=[ \t]*([^ \t]+)")


class LetorFault(Exception):
    """The number of the first line that is no LETOR text, or None when there is no row."""


def letor_rows(text, absent=0.0, n_features=None, max_features=100_000, base=1, with_qid=True, labels="required"):
    """A list of (label, qid, values, comment, docid), values as long as the widest row; ids and comments are bytes."""
    lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    rows = []
    first = next((line.split() for line in lines if line.split() and not line.strip(b" \t").startswith(b"#")), [b""])
    labelled = labels == "required" or b":" not in first[0]
    for number, line in enumerate(lines, start=1):
        try:
            row = _letor_row(line.removesuffix(b"\r"), n_features or max_features, base, with_qid, labelled)
        except ValueError as error:
            raise LetorFault(number) from error
        if row is not None:
            rows.append(row)
    if not rows:
        raise LetorFault(None)
    bare = lines[-1].strip(b" \t\r") and b"#" not in lines[-1] and not rows[-1][2]
    if bare and any(values for _, _, values, _, _ in rows):  # no newline and no features: cut off
        raise LetorFault(len(lines))
    width = n_features or max(max(values, default=-1) + 1 for _, _, values, _, _ in rows)
    return [
        (label, qid, [values.get(column, absent) for column in range(width)], comment, docid)
        for label, qid, values, comment, docid in rows
    ]


def _letor_row(line, limit, base, with_qid, labelled):
    body, _, comment = line.partition(b"#")
    if b"\0" in comment or b"\r" in comment:
        raise ValueError("no text")
    fields = re.split(rb"[ \t]+", body.strip(b" \t"))
    if fields == [b""]:
        return None
    label = _letor_number(fields.pop(0)) if labelled else 0
    if not 0 <= label < math.inf:
        raise ValueError("label")
    qid = fields.pop(0).removeprefix(b"qid:") if with_qid and fields and fields[0].startswith(b"qid:") else None
    if with_qid and (not qid or min(qid) <= 32):
        raise ValueError("qid")
    values = {}
    for field in fields:
        index, value = _FEATURE.fullmatch(field).groups() if _FEATURE.fullmatch(field) else (b"-1", b"")
        column = int(index) - base
        if not 0 <= column < limit or column in values:
            raise ValueError("index")
        values[column] = math.nan if _NAN.fullmatch(value) else _float32(value)
    docid = _DOCID.search(comment)
    return label, qid, values, comment, docid.group(1) if docid else b""


def _letor_number(text):
    if not _NUMBER.fullmatch(text):
        raise ValueError("number")
    return float(text)


def _float32(text):
    _letor_number(text)
    number = nearest_float32(text.decode())
    if 1.79769e308 <= float(text) < math.inf:  # the largest double: Istella's missing value
        return math.nan
    if math.isinf(number):
        raise ValueError("range")
    return number


def nearest_float32(text):
    """The float32 nearest to a decimal text, ties to even, by exact fractions; infinite from 2**128 - 2**103 on."""
    decimal = Decimal(text)
    if decimal.is_zero() or decimal.adjusted() < -60:
        size = 0.0
    elif decimal.adjusted() > 60:
        size = math.inf
    else:
        exact = Fraction(decimal.copy_abs())
        step = Fraction(2) ** -149
        while 2**24 * step <= exact:
            step *= 2
        size = round(exact / step) * step  # Python rounds fractions to the nearest integer, ties to even
        size = math.inf if size >= 2**128 else float(size)
    return -size if text.startswith("-") else size


# --- trees: every cut of every feature, by loops over rows ---------------------------------------------------------


def leaf_score(gradients, hessians, rows, l2):
    return sum(gradients[row] for row in rows) ** 2 / (sum(hessians[row] for row in rows) + l2)


def cuts_of(X, rows, f):
    """Every way to send rows left: values up to one of those present, missing ones on either side."""
    present = sorted({float(X[row, f]) for row in rows if not math.isnan(X[row, f])})
    missing = [row for row in rows if math.isnan(X[row, f])]
    for value in present:
        low = [row for row in rows if X[row, f] <= value]
        yield low
        if missing:
            yield sorted(low + missing)


def best_cut(X, gradients, hessians, rows, min_samples, l2):
    """(gain, left rows, right rows) of the best cut of these rows; gain 0 if there is none."""
    best = (0.0, [], [])
    whole = leaf_score(gradients, hessians, rows, l2)
    for f in range(X.shape[1]):
        for left in cuts_of(X, rows, f):
            there = set(left)
            right = [row for row in rows if row not in there]
            if min(len(left), len(right)) >= max(1, min_samples):
                gain = leaf_score(gradients, hessians, left, l2) + leaf_score(gradients, hessians, right, l2) - whole
                if gain > best[0] + 1e-9:
                    best = (gain, left, right)
    return best


def grow_tree_slowly(X, gradients, hessians, max_leaves, min_samples, l2=0.0, by_level=False, max_depth=99):
    """The leaves of a tree, each a list of rows: always cut the leaf that gains most, or the shallowest one."""
    gradients, hessians = [float(g) for g in gradients], [float(h) for h in hessians]
    everything = list(range(len(X)))
    leaves = [(0, everything, best_cut(X, gradients, hessians, everything, min_samples, l2))]
    while len(leaves) < max_leaves:
        open_leaves = [leaf for leaf in leaves if leaf[2][0] > 0 and leaf[0] < max_depth]
        if not open_leaves:
            break
        chosen = max(open_leaves, key=lambda leaf: (-leaf[0] if by_level else 0, leaf[2][0]))
        leaves.remove(chosen)
        leaves += [
            (chosen[0] + 1, rows, best_cut(X, gradients, hessians, rows, min_samples, l2)) for rows in chosen[2][1:]
        ]
    return [rows for _, rows, _ in leaves]


def squares_saved(gradients, weights, left, right):
    """How much two means lower the weighted squared error of residuals -g / w below that of one."""

    def error(rows):
        total = sum(weights[row] for row in rows)
        mean = sum(gradients[row] for row in rows) / total if rows else 0.0
        return sum(weights[row] * (gradients[row] / weights[row] - mean) ** 2 for row in rows)

    return error([*left, *right]) - error(left) - error(right)


def best_partition_gain(X, gradients, weights, rows, min_samples, categorical):
    """The most squares that a cut of these rows saves; of categories, of all partitions in two."""
    best = 0.0
    for f in range(X.shape[1]):
        values = sorted({float(X[row, f]) for row in rows}) if f in categorical else []
        subsets = ([v for k, v in enumerate(values) if mask >> k & 1] for mask in range(2 ** len(values)))
        named = ([row for row in rows if X[row, f] in subset] for subset in subsets)
        for left in named if f in categorical else cuts_of(X, rows, f):
            right = sorted(set(rows) - set(left))
            if min(len(left), len(right)) >= max(1, min_samples):
                best = max(best, squares_saved(gradients, weights, left, right))
    return best


def grow_oblivious_slowly(X, gradients, hessians, depth, l2=0.0, least=0.0):
    """The leaves of an oblivious tree without missing values: a level's cut gains most in all its leaves together."""

    def worth(rows):
        return sum(gradients[row] for row in rows) ** 2 / (sum(hessians[row] for row in rows) + l2) if rows else 0.0

    leaves = [list(range(len(X)))]
    for _ in range(depth):
        best = (1e-9, None)
        for f in range(len(X[0])):
            for at in sorted({row[f] for row in X})[:-1]:
                gain = 0.0
                for leaf in leaves:
                    sides = [row for row in leaf if X[row][f] <= at], [row for row in leaf if X[row][f] > at]
                    if all(sides) and min(sum(hessians[row] for row in side) for side in sides) >= least:
                        gain += worth(sides[0]) + worth(sides[1]) - worth(leaf)
                if gain > best[0] * (1 + 1e-9):
                    best = (gain, (f, at))
        if best[1] is None:
            break
        f, at = best[1]
        leaves = [[row for row in leaf if (X[row][f] <= at) == left] for leaf in leaves for left in (True, False)]
    return leaves


def bundle_slowly(away, sizes, allowed, by_column=False, tried=200):
    """Sets of features, one a bundle: each feature into the first of the last bundles where it fits, else a new one.

    away: for each feature the set of rows away from its usual bin; sizes: how many bins it has besides.
    """
    bundles = []
    for f in range(len(away)) if by_column else sorted(range(len(away)), key=lambda f: -len(away[f])):
        for bundle in bundles[max(0, len(bundles) - tried) :]:
            both = len(bundle["rows"] & away[f])
            if bundle["room"] >= sizes[f] and bundle["collisions"] + both <= allowed:
                break
        else:
            bundle, both = {"features": set(), "rows": set(), "room": 254, "collisions": 0}, 0
            bundles.append(bundle)
        bundle["features"].add(f)
        bundle["rows"] |= away[f]
        bundle["room"] -= sizes[f]
        bundle["collisions"] += both
    return [bundle["features"] for bundle in bundles]


def walk_slowly(forest, row, n_trees=None):
    """The score of one document: down every tree, question by question."""
    total = float(forest.start)
    for root in forest.roots[: -1 if n_trees is None else n_trees].tolist():
        node = root
        while forest.left[node] != node:
            x = float(row[forest.feature[node]])
            right = bool(forest.missing_right[node]) if math.isnan(x) else x > float(forest.threshold[node])
            node = int(forest.left[node]) + right
        total += float(forest.value[node])
    return total


# --- objectives: one query, plain double loops; each returns (gradients, hessians) ---------------------------------


def pair_derivatives(scores, labels, slope, curve, weights=None):
    """Sums of dC/do and d2C/do2 over all pairs with i better than j, where o = s_i - s_j."""
    n = len(scores)
    weights = [1.0] * n if weights is None else weights
    g, h = [0.0] * n, [0.0] * n
    for i in range(n):
        for j in range(n):
            if labels[i] > labels[j]:
                o, w = scores[i] - scores[j], weights[i] * weights[j]
                g[i] += w * slope(o)
                g[j] -= w * slope(o)
                h[i] += w * curve(o)
                h[j] += w * curve(o)
    return g, h


def even_derivatives(scores, labels, sigma=1.0):
    """RankNet's pairs of equal labels, each once, with target 0.5."""
    n = len(scores)
    g, h = [0.0] * n, [0.0] * n
    for i in range(n):
        for j in range(i):
            if labels[i] == labels[j]:
                rho = sigmoid(-sigma * (scores[i] - scores[j]))
                g[i] += sigma * (0.5 - rho)
                g[j] -= sigma * (0.5 - rho)
                h[i] += sigma**2 * rho * (1 - rho)
                h[j] += sigma**2 * rho * (1 - rho)
    return g, h


def given_pair_cost(loss, margin, p, weight):
    """A pair of documents i and j with `margin = s_i - s_j`: i is the better one with probability p."""
    cost = {
        "logistic": lambda o: math.log(1.0 + math.exp(-o)),
        "hinge": lambda o: max(0.0, 1.0 - o),
        "squared_hinge": lambda o: max(0.0, 1.0 - o) ** 2,
        "exponential": lambda o: math.exp(-o),
    }[loss]
    return weight * (p * cost(margin) + (1 - p) * cost(-margin))


def sigmoid(x):
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def by_score(scores):
    """Falling scores, equal ones in the order of the rows."""
    return sorted(range(len(scores)), key=lambda row: -scores[row])


def lambda_derivatives(scores, labels, value, sigma=1.0, weights=None, normalized=False):
    """Really swap every pair and evaluate; `normalized` as LightGBM does it."""
    n, order = len(scores), by_score(scores)
    weights = [1.0] * n if weights is None else weights
    before, g, h, total = value([labels[row] for row in order]), [0.0] * n, [0.0] * n, 0.0
    for a in range(n):
        for b in range(a + 1, n):
            i, j = order[a], order[b]
            if labels[i] == labels[j]:
                continue
            swapped = list(order)
            swapped[a], swapped[b] = j, i
            change = abs(value([labels[row] for row in swapped]) - before) * weights[i] * weights[j]
            if normalized and max(scores) > min(scores):
                change /= 0.01 + abs(scores[i] - scores[j])
            better, worse = (i, j) if labels[i] > labels[j] else (j, i)
            rho = sigmoid(-sigma * (scores[better] - scores[worse]))
            g[better] -= sigma * change * rho
            g[worse] += sigma * change * rho
            total += 2 * sigma * change * rho
            for row in (i, j):
                h[row] += sigma**2 * change * rho * (1 - rho)
    factor = math.log2(1 + total) / total if normalized and total > 0 else 1.0
    return [factor * x for x in g], [factor * x for x in h]


def softmax(values):
    odds = [math.exp(value - max(values)) for value in values]
    return [x / sum(odds) for x in odds]


def cross_entropy_derivatives(scores, targets):
    q = softmax(scores)
    return [sum(targets) * p - t for p, t in zip(q, targets)], [sum(targets) * p * (1 - p) for p in q]


def list_mle_derivatives(scores, labels):
    """Every document better than the worst is chosen among those that are not better than it."""
    n = len(scores)
    g, h = [0.0] * n, [0.0] * n
    for i in range(n):
        if labels[i] == min(labels):
            continue
        left = [j for j in range(n) if labels[j] <= labels[i]]
        g[i] -= 1.0
        for j, p in zip(left, softmax([scores[j] for j in left])):
            g[j] += p
            h[j] += p * (1 - p)
    return g, h


def approx_ndcg(scores, labels, alpha):
    """The value, not the cost."""
    n, total = len(scores), 0.0
    for i in range(n):
        rank = 1 + sum(sigmoid(-alpha * (scores[i] - scores[j])) for j in range(n) if j != i)
        total += (2 ** labels[i] - 1) / math.log2(1 + rank)
    best = dcg(sorted(labels, reverse=True))
    return total / best if best else 0.0


def expected_metric(scores, labels, value):
    """The mean over all orders, each with its probability under Plackett and Luce."""
    total = 0.0
    for order in permutations(range(len(scores))):
        probability, left = 1.0, list(order)
        while left:
            probability *= softmax([scores[d] for d in left])[0]
            left.pop(0)
        total += probability * value([labels[d] for d in order])
    return total


# --- explanations: Shapley values over all subsets of the features -------------------------------------------------


def expected_score(tree, row, known, node=0):
    """One tree's mean over the training rows, where only the features in `known` are those of the row.

    tree: lists feature, threshold, left, missing_right, value, count; a leaf is its own left child.
    """
    left = tree["left"][node]
    if left == node:
        return tree["value"][node]
    f, x = tree["feature"][node], row[tree["feature"][node]]
    if f in known:
        right = tree["missing_right"][node] if math.isnan(x) else x > tree["threshold"][node]
        return expected_score(tree, row, known, left + 1 if right else left)
    rows = tree["count"]
    return sum(rows[child] / rows[node] * expected_score(tree, row, known, child) for child in (left, left + 1))


def shapley_values(tree, row):
    """The mean, over all orders of the features, of what a feature changes when it becomes known."""
    n, values = len(row), [0.0] * len(row)
    for order in permutations(range(n)):
        for place, f in enumerate(order):
            before, after = set(order[:place]), set(order[: place + 1])
            values[f] += expected_score(tree, row, after) - expected_score(tree, row, before)
    return [value / math.factorial(n) for value in values]


# --- RankBoost: the distribution over pairs as a dictionary --------------------------------------------------------


def rankboost_start(labels, queries, weights=None, query_weights=None, by_difference=False):
    """{(better, worse): weight}, adding up to 1."""
    pairs = {}
    for i in range(len(labels)):
        for j in range(len(labels)):
            if queries[i] == queries[j] and labels[i] > labels[j]:
                own = 1.0 if weights is None else weights[i] * weights[j]
                own *= 1.0 if query_weights is None else query_weights[queries[i]]
                pairs[i, j] = own * ((labels[i] - labels[j]) if by_difference else 1.0)
    total = sum(pairs.values())
    return {pair: weight / total for pair, weight in pairs.items()}


def weak_ranker_values(X, kind):
    """{(feature, threshold or "scaled", default): values}, all weak rankers of a kind."""
    found = {}
    for f in range(len(X[0])):
        column = [float(row[f]) for row in X]
        known = sorted({x for x in column if x == x})
        missing = len(known) and any(x != x for x in column)
        if kind == "value":
            rules = [
                ("scaled", lambda x, low=known[0], high=known[-1]: (x - low) / (high - low) if high > low else 0.0)
            ]
        else:
            thresholds = [*([-math.inf] if missing else []), *known[:-1]]
            rules = [(t, lambda x, t=t: 1.0 if x > t else 0.0) for t in thresholds]
        for name, rule in rules:
            for default in (0.0, 1.0) if missing else (0.0,):
                found[f, name, default] = [default if x != x else rule(x) for x in column]
    return found


def rankboost_r(pairs, values):
    return sum(weight * (values[i] - values[j]) for (i, j), weight in pairs.items())


def rankboost_z(pairs, values, alpha):
    return sum(weight * math.exp(-alpha * (values[i] - values[j])) for (i, j), weight in pairs.items())


def rankboost_search(pairs, values, largest):
    """The alpha of least Z within the limits, by thirds: Z is convex."""
    low, high = -largest, largest
    for _ in range(80):
        third = (high - low) / 3
        if rankboost_z(pairs, values, low + third) < rankboost_z(pairs, values, high - third):
            high -= third
        else:
            low += third
    return (low + high) / 2


# --- lines of scores ------------------------------------------------------------------------------------------------


def exact_line(s, s2, qid):
    """(alphas, ranks): all points where two documents of a query cross, and the middles between them, as fractions.

    ranks (alphas, n): how many scores of the query are smaller, in exact arithmetic, so equal where documents tie.
    """
    s, s2 = [Fraction(float(x)) for x in s], [Fraction(float(x)) for x in s2]
    points = {Fraction(0), Fraction(1)}
    for i in range(len(s)):
        for j in range(i):
            a, b = s[i] - s[j], s2[j] - s2[i]
            if qid[i] == qid[j] and a + b != 0 and 0 < a / (a + b) < 1:
                points.add(a / (a + b))
    ends = sorted(points)
    alphas = sorted([*ends, *((a + b) / 2 for a, b in pairwise(ends))])
    rows = []
    for alpha in alphas:
        line = [(1 - alpha) * a + alpha * b for a, b in zip(s, s2)]
        rows.append([sum(x < y and p == q for x, p in zip(line, qid)) for y, q in zip(line, qid)])
    return alphas, rows


def plateau_of(alphas, values):
    """(best value, ends of its widest stretch) for values at points and, every second one, at middles between them."""
    best = max(values)
    good = [value >= best - 1e-12 for value in values]
    stretches, k = [], 0
    while k < len(good):
        stop = k
        while stop < len(good) and good[stop]:
            stop += 1
        if stop > k:  # a middle stands for the whole interval around it
            stretches.append((alphas[k - k % 2], alphas[stop - stop % 2]))
        k = stop + 1
    return best, *max(stretches, key=lambda ends: ends[1] - ends[0])


def best_on_line(s, s2, qid, evaluate):
    """(value, alpha) of the middle of the widest best stretch; `evaluate(scores)`: larger is better."""
    alphas, ranks = exact_line(s, s2, qid)
    best, first, last = plateau_of(alphas, [evaluate(row) for row in ranks])
    return best, float(first + last) / 2


def standardised(X):
    """Columns with mean 0 and standard deviation 1; constant ones are 0."""
    columns = []
    for column in zip(*X):
        mean = sum(column) / len(column)
        spread = math.sqrt(sum((x - mean) ** 2 for x in column) / len(column))
        columns.append([(x - mean) / spread if spread > 0 else 0.0 for x in column])
    return [list(row) for row in zip(*columns)]


def products_of_features(row, degree):
    """x_f, x_f x_g, x_f x_g x_h, ... with f <= g <= h <= ..., in loops within loops."""
    values = []
    for size in range(1, degree + 1):
        for features in itertools.product(range(len(row)), repeat=size):
            if list(features) == sorted(features):
                value = 1.0
                for f in features:
                    value *= float(row[f])
                values.append(value)
    return values


def functions_of_centres(kind, rows, centres, sigma):
    values = [[0.0] * len(centres) for _ in rows]
    for i, row in enumerate(rows):
        for j, centre in enumerate(centres):
            total = 0.0
            for x, c in zip(row, centre):
                total += (float(x) - float(c)) ** 2 if kind == "gaussian" else float(x) * float(c)
            power = total / (2 * sigma**2) if kind == "gaussian" else total / sigma**2
            values[i][j] = math.exp(-power) if kind == "gaussian" else 1 / (1 + math.exp(-power))
    return values


def adarank(X, performance, n_queries, rounds, signs=(1,)):
    """Weights of standardised features; `performance(scores)`: E of each query, from -1 to 1."""
    Z = standardised(X)
    weights, P = [0.0] * len(Z[0]), [1 / n_queries] * n_queries
    rankers = [(f, sign) for sign in signs for f in range(len(weights))]
    for _ in range(rounds):
        means = [sum(p * e for p, e in zip(P, performance([sign * row[f] for row in Z]))) for f, sign in rankers]
        chosen = means.index(max(means))
        f, sign = rankers[chosen]
        weights[f] += sign * 0.5 * math.log((1 + means[chosen]) / (1 - means[chosen]))
        found = performance([sum(w * z for w, z in zip(weights, row)) for row in Z])
        total = sum(math.exp(-e) for e in found)
        P = [math.exp(-e) / total for e in found]
    return weights


def coordinate_ascent(X, qid, evaluate, orders):
    """Weights of standardised features after going through them in each of the orders, from equal ones."""
    Z = standardised(X)
    weights = [1 / len(Z[0])] * len(Z[0])
    for order in orders:
        for f in order:
            scores = [sum(w * z for w, z in zip(weights, row)) for row in Z]
            others = [score - weights[f] * row[f] for score, row in zip(scores, Z)]
            column = [row[f] for row in Z]
            up, down = (
                best_on_line(others, column, qid, evaluate),
                best_on_line(others, [-x for x in column], qid, evaluate),
            )
            (best, alpha), sign = (up, 1) if up[0] >= down[0] else (down, -1)
            if best > evaluate(scores):
                weights = [(1 - alpha) * w for w in weights]
                weights[f] = sign * alpha
                size = sum(abs(w) for w in weights)
                weights = [w / size for w in weights]
    return weights


# --- pairs of RankSVM ----------------------------------------------------------------------------------------------


def preference_pairs(labels, query_ids):
    """All (i, j) of one query with label i above label j."""
    n = len(labels)
    return [(i, j) for i in range(n) for j in range(n) if query_ids[i] == query_ids[j] and labels[i] > labels[j]]


def hard_margin(differences):
    """The shortest w with `differences @ w >= 1`, and the multipliers of the constraints, by an active set method.

    Least distance programming as a problem of nonnegative least squares: Lawson and Hanson 1974, chapter 23. A hinge
    whose C is at least the largest multiplier has the same minimum.
    """
    import numpy as np
    from scipy.optimize import nnls

    conditions = np.vstack([differences.T, np.ones(len(differences))])
    target = np.append(np.zeros(differences.shape[1]), 1.0)
    multipliers, _ = nnls(conditions, target, maxiter=100 * len(differences))
    residual = conditions @ multipliers - target
    return -residual[:-1] / residual[-1], -multipliers / residual[-1]


def hinge_violations(scores, pairs, pair_weights, width):
    """(loss, slack, dual sum, smallest margin, gradient, hessian) of the smoothed hinge, pair by pair."""
    n = len(scores)
    loss = slack = duals = 0.0
    smallest, gradient, hessian = math.inf, [0.0] * n, [[0.0] * n for _ in range(n)]
    for (i, j), weight in zip(pairs, pair_weights):
        xi = max(0.0, 1 - (scores[i] - scores[j]))
        smallest = min(smallest, scores[i] - scores[j])
        loss += weight * (xi**2 / 2 if xi <= width else width * xi - width**2 / 2)
        slack += weight * xi
        duals += weight * min(xi, width)
        gradient[i] -= weight * min(xi, width)
        gradient[j] += weight * min(xi, width)
        if 0 < xi < width:
            for a, b, sign in ((i, i, 1), (j, j, 1), (i, j, -1), (j, i, -1)):
                hessian[a][b] += sign * weight
    return loss, slack, duals, smallest, gradient, hessian


# --- nets ---------------------------------------------------------------------------------------------------------


def net_score(function, weights, x):
    """One row of one net, one number after the other."""
    inputs, shape = function.inputs, function.shape
    h = [0.0 if math.isnan(v) else (v - c) / s for v, c, s in zip(x.tolist(), inputs.centre, inputs.scale)]
    h += [float(math.isnan(x[f])) for f in inputs.flagged]
    layers = shape.unpack(weights)
    for number, layer in enumerate(layers):
        columns, bias = layer.matrix.T.tolist(), layer.bias.tolist()
        z = [sum(v * w for v, w in zip(h, column)) + b for column, b in zip(columns, bias)]
        if number == len(layers) - 1:
            return z[0]
        if shape.layer_norm:
            mean = sum(z) / len(z)
            spread = math.sqrt(sum((v - mean) ** 2 for v in z) / len(z) + 1e-5)
            z = [(v - mean) / spread * a + b for v, a, b in zip(z, layer.scale.tolist(), layer.shift.tolist())]
        z = [activated(shape.activation, v) for v in z]
        h = [a + b for a, b in zip(z, h)] if shape.residual and number and len(z) == len(h) else z


def activated(name, v):
    if name == "relu":
        return max(v, 0.0)
    if name == "tanh":
        return math.tanh(v)
    if name == "silu":
        return v / (1 + math.exp(-v))
    if name == "gelu":
        return 0.5 * v * (1 + math.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3)))
    return v


# --- search: formulas over lists of terms, one document at a time -------------------------------------------------


def weigh(weighting, tf, dl, u, n, df, cf, total, avgdl, k1=1.2, b=0.75):
    """What one term of the query adds to the score of a document; language models: also where tf is 0."""
    length = 1 - b + b * dl / avgdl
    p = cf / total
    if weighting == "lmir-dir":
        return math.log((tf + 2000 * p) / (dl + 2000))
    if weighting == "lmir-jm":
        return math.log(0.9 * tf / dl + 0.1 * p)
    if weighting == "lmir-abs":
        return math.log(max(tf - 0.7, 0) / dl + 0.7 * u / dl * p)
    if tf == 0:
        return 0.0
    if weighting == "bm25":
        return math.log(1 + (n - df + 0.5) / (df + 0.5)) * tf / (tf + k1 * length)
    if weighting == "bm25-robertson":
        return max(0, math.log((n - df + 0.5) / (df + 0.5))) * (k1 + 1) * tf / (tf + k1 * length)
    if weighting == "bm25-atire":
        return math.log(n / df) * (k1 + 1) * tf / (tf + k1 * length)
    if weighting == "bm25l":
        c = tf / length
        return math.log((n + 1) / (df + 0.5)) * (k1 + 1) * (c + 0.5) / (k1 + c + 0.5)
    if weighting == "bm25+":
        return math.log((n + 1) / df) * ((k1 + 1) * tf / (tf + k1 * length) + 1)
    if weighting == "tfidf":
        return math.sqrt(tf) * (1 + math.log((n + 1) / (df + 1))) ** 2 / math.sqrt(dl)
    raise ValueError(weighting)


def search_scores(documents, query, weighting):
    """{id: score} of the documents ({id: list of terms}) with at least one term of the query (a list of terms)."""
    n, total = len(documents), sum(map(len, documents.values()))
    scores = {}
    for name, terms in documents.items():
        if not set(terms) & set(query):
            continue
        score = 0.0
        for term in query:
            df = sum(term in other for other in documents.values())
            cf = sum(other.count(term) for other in documents.values())
            if df:
                facts = (terms.count(term), len(terms), len(set(terms)), n, df, cf, total, total / n)
                score += weigh(weighting, *facts)
        scores[name] = score
    return scores


def bm25f_scores(documents, query, weights, k1=1.2, b=0.75):
    """{id: score}; documents are {id: {field: list of terms}}."""
    n = len(documents)
    average = {field: sum(len(own[field]) for own in documents.values()) / n for field in weights}
    scores = {}
    for term in query:
        df = sum(any(term in own[field] for field in weights) for own in documents.values())
        for name, own in documents.items():
            tf = 0.0
            for field, weight in weights.items():
                if own[field].count(term):
                    tf += weight * own[field].count(term) / (1 - b + b * len(own[field]) / average[field])
            if tf:
                idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
                scores[name] = scores.get(name, 0.0) + idf * tf / (k1 + tf)
    return scores


def rm3_scores(documents, parts, settings, allowed=None, field="whole"):
    """{id: score} of BM25 with feedback; documents are {id: {field: list of terms}}; `whole` is title and body.

    parts: [(tuple of terms in a row, field)], with repetitions; allowed: the ids that may be ranked.
    """
    k1, b, share = settings["k1"], settings["b"], settings["original_query_weight"]
    n, postings = len(documents), {}

    def count(own, name, part):  # a phrase is within one field
        fields = [own[other] for other in (("title", "body") if name == "whole" else (name,))]
        return sum(tuple(terms[i : i + len(part)]) == part for terms in fields for i in range(len(terms)))

    def bm25(part, name):
        if (part, name) not in postings:
            postings[part, name] = {id: tf for id, own in documents.items() if (tf := count(own, name, part))}
        average, df = sum(len(own[name]) for own in documents.values()) / n, len(postings[part, name])
        idf = math.log(1 + (n - df + 0.5) / (df + 0.5))
        return {
            id: idf * tf / (tf + k1 * (1 - b + b * len(documents[id][name]) / average))
            for id, tf in postings[part, name].items()
        }

    def ranked(weights):
        scores = {}
        for (part, name), weight in weights.items():
            for id, score in bm25(part, name).items():
                if allowed is None or id in allowed:
                    scores[id] = scores.get(id, 0.0) + weight * score
        return scores

    query = {}
    for part, name in parts:
        if any(count(own, name, part) for own in documents.values()):
            query[part, name] = query.get((part, name), 0) + 1
    first = ranked(query)
    best = sorted(first, key=lambda id: (-round(first[id], 9), id))[: settings["fb_docs"]]
    relevance = {}
    for id in best:
        for term in set(documents[id][field]):
            likelihood = documents[id][field].count(term) / len(documents[id][field])
            relevance[term] = relevance.get(term, 0.0) + likelihood * first[id] / sum(first[other] for other in best)
    kept = sorted(relevance, key=lambda term: (-round(relevance[term], 12), term))[: settings["fb_terms"]]
    if not kept:
        return first
    total, weights = sum(relevance[term] for term in kept), {part: share * times for part, times in query.items()}
    for term in kept:
        extra = (1 - share) * sum(query.values()) * relevance[term] / total
        weights[(term,), field] = weights.get(((term,), field), 0.0) + extra
    return ranked({part: weight for part, weight in weights.items() if weight})


def phrase_count(positions, phrase):
    """How often terms stand at these positions: `positions` {position: term}, phrase [(term, offset)]."""
    return sum(all(positions.get(start + offset) == term for term, offset in phrase) for start in positions)


def page_terms(pages, terms_of):
    """{id: {field: list of terms}} of pages; anchor texts belong to the page they point to, by URL or id."""
    home = {page["url"]: name for name, page in pages.items() if page["url"]} | {name: name for name in pages}
    found = {}
    for name, page in pages.items():
        own = {field: terms_of(page[field]) for field in ("title", "body", "url")}
        found[name] = own | {
            "whole": own["title"] + own["body"],
            "anchor": [t for a in page["anchors"] for t in terms_of(a)],
        }
    for name, page in pages.items():
        for target, text in page["links"]:
            if target in home and home[target] != name:
                found[home[target]]["anchor"] += terms_of(text)
    return found


def page_facts(pages):
    """{id: [PageRank, inlinks, outlinks, slashes, length of URL, child pages]}."""
    home = {page["url"]: name for name, page in pages.items() if page["url"]} | {name: name for name in pages}
    out = {
        name: {home[target] for target, _ in page["links"] if target in home} - {name} for name, page in pages.items()
    }
    rank = dict.fromkeys(pages, 1 / len(pages))
    for _ in range(300):
        lost = sum(rank[name] for name in pages if not out[name])
        new = {name: 0.15 / len(pages) + 0.85 * lost / len(pages) for name in pages}
        for name, targets in out.items():
            for target in targets:
                new[target] += 0.85 * rank[name] / len(targets)
        rank = new
    facts = {}
    for name, page in pages.items():
        url = page["url"]
        inlinks = sum(name in targets for targets in out.values())
        children = sum(bool(url) and other["url"].rpartition("/")[0] == url for other in pages.values())
        facts[name] = [rank[name], inlinks, len(out[name]), url.count("/"), len(url), children]
    return facts


def letor_features(documents, facts, query, name):
    """LETOR's 46 of a document; documents are {id: {field: list of terms}}, the query is a list of terms."""
    columns, n = {}, len(documents)
    for field in ("body", "anchor", "title", "url", "whole"):
        own = documents[name][field]
        total = sum(len(other[field]) for other in documents.values())
        df = {term: sum(term in other[field] for other in documents.values()) for term in query}
        cf = {term: sum(other[field].count(term) for other in documents.values()) for term in query}
        known = [term for term in query if df[term]]
        columns["TF", field] = sum(own.count(term) for term in query)
        columns["IDF", field] = sum(math.log(n / df[term]) for term in known)
        columns["TF*IDF", field] = columns["TF", field] * columns["IDF", field]
        columns["DL", field] = len(own)
        for shown, weighting in {"BM25": "bm25", "ABS": "lmir-abs", "DIR": "lmir-dir", "JM": "lmir-jm"}.items():
            length = len(own) if weighting in ("bm25", "lmir-dir") else max(len(own), 1)
            parts = (
                weigh(weighting, own.count(t), length, max(len(set(own)), 1), n, df[t], cf[t], total, total / n)
                for t in known
            )
            columns[shown, field] = sum(parts)
    fields = ("body", "anchor", "title", "url", "whole")
    first = [columns[kind, field] for kind in ("TF", "IDF", "TF*IDF", "DL") for field in fields]
    second = [columns[kind, field] for field in fields for kind in ("BM25", "ABS", "DIR", "JM")]
    return first + second + facts[name]


def bigram_scores(parts, documents, query, k1, b):
    """{id: BM25 of neighbouring terms as phrases}; parts are {id: lists of terms within which a phrase may lie}."""
    n, total = len(documents), sum(map(len, documents.values()))
    scores = dict.fromkeys(documents, 0.0)
    for pair in itertools.pairwise(query):
        tf = {name: sum(p == pair for own in parts[name] for p in itertools.pairwise(own)) for name in documents}
        df = sum(count > 0 for count in tf.values())
        for name, terms in documents.items():
            if tf[name]:
                facts = (tf[name], len(terms), 0, n, df, 1, total, total / n)
                scores[name] += weigh("bm25", *facts, k1=k1, b=b)
    return scores


def feedback_scores(documents, ranked, n_documents, n_terms, k1, b):
    """{id: BM25 of the terms that are typical of the first documents of the list}."""
    n, total = len(documents), sum(map(len, documents.values()))
    df = {t: sum(t in other for other in documents.values()) for terms in documents.values() for t in terms}
    weights = {}
    for name in ranked[:n_documents]:
        for term in documents[name]:
            share = 1 / len(documents[name]) / min(n_documents, len(ranked))
            weights[term] = weights.get(term, 0.0) + share * math.log(n / df[term])
    best = sorted(weights, key=lambda term: (-round(weights[term], 12), term))[:n_terms]
    scale = sum(weights[term] for term in best)
    scores = {}
    for name, terms in documents.items():
        facts = [(t, (terms.count(t), len(terms), 0, n, df[t], 1, total, total / n)) for t in best]
        scores[name] = sum(weights[t] / scale * weigh("bm25", *own, k1=k1, b=b) for t, own in facts)
    return scores


def choose_by_one_standard_error(ranked_by_name, pools, first, cutoff=10):
    """NDCG with the ideal of all judged documents: (chosen, {name: (mean, gain over `first`, standard error)}).

    ranked_by_name: {name: one list of labels in ranked order per query}; pools: all labels of each query.
    """
    values = {
        name: [dcg(ranked, cutoff) / dcg(sorted(pool, reverse=True), cutoff) for ranked, pool in zip(of_queries, pools)]
        for name, of_queries in ranked_by_name.items()
    }
    n, chosen, largest, numbers = len(pools), first, 0.0, {}
    for name, of_queries in values.items():
        mean = sum(of_queries) / n
        if name == first:
            numbers[name] = (mean, None, None)
            continue
        differences = [one - other for one, other in zip(of_queries, values[first])]
        gain = sum(differences) / n
        error = math.sqrt(sum((one - gain) ** 2 for one in differences) / (n - 1) / n)
        numbers[name] = (mean, gain, error)
        if gain > error and gain > largest:
            chosen, largest = name, gain
    return chosen, numbers


def krippendorff_alpha(units):
    """Ordinal alpha by its definition: over pairs of labels of a document, against all pairs of labels."""
    units = [list(unit) for unit in units if len(unit) > 1]
    labels = [label for unit in units for label in unit]
    count = {label: labels.count(label) for label in labels}

    def distance(a, b):
        between = sum(count[label] for label in count if min(a, b) <= label <= max(a, b))
        return (between - (count[a] + count[b]) / 2) ** 2 if a != b else 0.0

    observed = 0.0
    for unit in units:
        for i, one in enumerate(unit):
            for j, other in enumerate(unit):
                if i != j:
                    observed += distance(one, other) / (len(unit) - 1) / len(labels)
    expected = 0.0
    for i, one in enumerate(labels):
        for j, other in enumerate(labels):
            if i != j:
                expected += distance(one, other) / (len(labels) * (len(labels) - 1))
    return 1 - observed / expected if expected else None


# --- runs: {query: {document: score}}, several systems ----------------------------------------------------------


def ranked_ids(scores):
    """Documents of one query, best first; equal scores by id, descending."""
    return sorted(scores, key=lambda id: (scores[id], id.encode()), reverse=True)


def normalized(scores, how, candidates):
    """{document: points} of one run and query; `candidates` are the documents of all runs."""
    values, ranked = list(scores.values()), ranked_ids(scores)
    if not values and how not in ("borda", "borda points"):
        return {}
    if how == "none":
        return dict(scores)
    if how == "min-max":
        low, high = min(values), max(values)
        return {id: (score - low) / (high - low) if high > low else 0.0 for id, score in scores.items()}
    if how == "z-score":
        mean = sum(values) / len(values)
        deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / len(values))
        return {id: (score - mean) / deviation if max(values) > min(values) else 0.0 for id, score in scores.items()}
    if how == "sum":
        total = sum(value - min(values) for value in values)
        return {id: (score - min(values)) / total if total else 0.0 for id, score in scores.items()}
    if how == "max":
        return {id: score / max(values) for id, score in scores.items()}
    if how == "rank":
        return {id: 1 - ranked.index(id) / len(ranked) for id in scores}
    c, n = len(candidates), len(scores)
    points = {id: c - ranked.index(id) if id in scores else (c - n + 1) / 2 for id in candidates}
    return points if how == "borda points" else {id: value / c for id, value in points.items()}


def fuse_slowly(runs, method, normalization="min-max", weights=None, value=None):
    """{query: {document: fused score}} of a list of runs; `value` is the parameter of the method."""
    weights = [1.0] * len(runs) if weights is None else weights
    by_rank = {
        "rrf": lambda r: 1 / ((60 if value is None else value) + r),
        "isr": lambda r: 1 / r**2,
        "log-isr": lambda r: 1 / r**2,
        "logn-isr": lambda r: 1 / r**2,
        "rbc": lambda r: (1 - (0.8 if value is None else value)) * (0.8 if value is None else value) ** (r - 1),
    }
    times = {
        "combmnz": lambda m: m,
        "combanz": lambda m: 1 / m,
        "combgmnz": lambda m: m ** (1 if value is None else value),
        "mixed": lambda m: math.sqrt(m),
        "isr": lambda m: m,
        "log-isr": lambda m: math.log(m),
        "logn-isr": lambda m: math.log(m + (0.01 if value is None else value)),
    }
    fused = {}
    for query in dict.fromkeys(query for run in runs for query in run):
        lists = [run.get(query, {}) for run in runs]
        candidates = {id for scores in lists for id in scores}
        if method in by_rank:
            points = [{id: by_rank[method](ranked_ids(one).index(id) + 1) for id in one} for one in lists]
        else:
            how = "borda points" if method == "borda" else normalization
            points = [normalized(one, how, candidates) for one in lists]
        fused[query] = {}
        for id in candidates:
            own = [(weight, one[id]) for weight, one in zip(weights, points) if id in one]
            m = sum(id in one for one in lists)
            numbers = sorted(value for _, value in own)
            if method == "combmin":
                score = numbers[0]
            elif method == "combmax":
                score = numbers[-1]
            elif method == "combmed":
                middle = len(numbers) // 2
                score = numbers[middle] if len(numbers) % 2 else (numbers[middle - 1] + numbers[middle]) / 2
            elif method == "wmnz":
                score = sum(weight for weight, _ in own) * sum(value for _, value in own)
            else:
                score = sum(weight * value for weight, value in own) * times.get(method, lambda m: 1)(m)
            fused[query][id] = score
    return fused


def rank_biased_overlap(one, other, p):
    """RBO, extrapolated, of two rankings without ties: equation 32 of Webber, Moffat and Zobel, term by term."""
    shorter, longer = sorted((one, other), key=len)
    s, n = len(shorter), len(longer)
    if s == 0:
        return 0.0
    common = [len(set(longer[:d]) & set(shorter[:d])) for d in range(n + 1)]
    total = sum(common[d] / d * p**d for d in range(1, n + 1))
    total += sum(common[s] * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    return (1 - p) / p * total + ((common[n] - common[s]) / n + common[s] / s) * p**n


def kendall_tau_b(one, other):
    """(concordant - discordant) / sqrt((pairs - ties of one) (pairs - ties of other)), pair by pair."""

    def sign(a, b):
        return (a > b) - (a < b)

    pairs = [(sign(one[i], one[j]), sign(other[i], other[j])) for i in range(len(one)) for j in range(i)]
    untied = math.prod(sum(pair[side] != 0 for pair in pairs) for side in (0, 1))
    return sum(a * b for a, b in pairs) / math.sqrt(untied)
