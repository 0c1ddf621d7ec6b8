"""Crossings: where two documents of a query change places as their scores move along a line.

Scores are (1 - alpha) s + alpha s2. If a document leads another by a in s and trails it by b in s2, they cross at
alpha = a / (a + b), a quotient of positive numbers, within a few units in the last place of the exact crossing.
Crossings closer than that are one: their documents tie there. Between two clusters of crossings the
order is constant, and a document's rank changes by the crossings it takes part in, so ranks are exact.

A metric travels as its closed form (`closed_forms.py`). Its value is a sum of integer terms, one per rank, that depend
on the document there and on what is above (hits so far, or the probability to get there): a cluster changes only the
terms of its own ranks, and the same order has the same value, whatever came before.

Documents of a query lie in the order that the policy gives to ties, so every stable sort breaks ties by the policy.
"""

from __future__ import annotations

import numpy as np

from podium._runtime.compiler import Array, kernel
from podium.metrics.closed_forms import PAIRS, FormArrays
from podium.metrics.sorting import SortWorkspace, make_sort_workspace, sort_places
from podium.metrics.terms import first_above, rank_term

LARGEST_SCORE = 1e300  # so that sums of differences are finite
CLOSE = 1e-15  # relative distance up to which crossings are one: twice the rounding error of a quotient, and some
_FIRST_ALPHA, _LAST_ALPHA = 1e-300, 1.0 - 2.0**-53  # 0 and 1 themselves are the ends of the line
_BEYOND = 1.0 + 1e-9

Events = tuple[Array, Array, Array]  # alpha, change of the value across it, change of the value at it
Crossings = tuple[Array, Array, Array]  # minus alpha, upper and lower document, places by rising alpha


@kernel
def sweep_queries(
    lines: tuple[Array, Array, Array], first: int, last: int, high: float, kind: int, average: bool, form: FormArrays
) -> Events:
    """Where the metric changes along the lines of queries first..last, query by query, alpha rising within each.

    Change across: value behind minus value before. Change at: value at alpha itself minus value before. At 0 the value
    before is that at 0, and at 1 only the change at it counts. Values are integers, in the units of the caller, which
    the scales of the form are in. `average`: ties share the mean of their gains.
    """
    (s, s2, offsets), (cutoff, values, table, starts, scales), longest = lines, form, 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    work, sort_workspace, crossings = make_workspace(longest), make_sort_workspace(longest), make_sort_workspace(16)
    falling, pairs, by_rank = np.empty(16), np.empty(16, np.int64), np.empty((2, longest))
    events, n_events = (np.empty(1024), np.empty(1024, np.int64), np.empty(1024, np.int64)), 0
    for q in range(first, last):
        begin, n = offsets[q], offsets[q + 1] - offsets[q]
        line, line2, value = s[begin : begin + n], s2[begin : begin + n], values[begin : begin + n]
        weights, scale = table[starts[q] :], scales[q]
        if scale == 0.0 or n < 2:
            continue
        start_order(line, line2, sort_workspace, work)
        for r in range(n):
            by_rank[0, r], by_rank[1, r] = line[work[0][r]], line2[work[0][r]]
        count = count_crossings(by_rank[0, :n], by_rank[1, :n]) + 1
        if count > len(falling):
            falling, pairs = np.empty(2 * count), np.empty(2 * count, np.int64)
            crossings = make_sort_workspace(2 * count)
        count = fill_crossings(by_rank[0, :n], by_rank[1, :n], work[0], high, falling, pairs)
        places = sort_places(falling[:count], crossings, False)
        if average:
            value = _averaged(line, line2, value, work[0])
        state = kind, average, scale, min(cutoff, n)
        events = _with_space(events, n_events, count + 2)
        alpha, change, point = events[0][n_events:], events[1][n_events:], events[2][n_events:]
        alpha[0], change[0], point[0] = 0.0, _end_change(state, line, line2, value, weights, work[0]), 0
        behind = alpha[1:], change[1:], point[1:]
        count = 1 + _sweep(state, (falling, pairs, places), high, value, weights, work, behind)
        if high >= 1.0:
            alpha[count], change[count] = 1.0, 0
            point[count] = -_end_change(state, line2, line, value, weights, work[0])
            count += 1
        n_events += count
    return events[0][:n_events], events[1][:n_events], events[2][:n_events]


# int64 (longest,): documents by rank now, ranks of documents now, documents by rank next, shifts of ranks;
# float64 (longest + 1,) and int64 (longest,): what is above each rank, and the term of each rank
Workspace = tuple[Array, Array, Array, Array, Array, Array]


@kernel
def make_workspace(longest: int) -> Workspace:
    return (
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
        np.empty(longest, np.int64),
        np.zeros(longest, np.int64),
        np.empty(longest + 1),
        np.empty(longest, np.int64),
    )


@kernel
def _with_space(events: Events, n_events: int, more: int) -> Events:
    if n_events + more <= len(events[0]):
        return events
    size = 2 * (n_events + more)
    alpha, change, point = np.empty(size), np.empty(size, np.int64), np.empty(size, np.int64)
    for k in range(n_events):  # loops, not slices: assigning to a slice takes Numba seconds to compile
        alpha[k], change[k], point[k] = events[0][k], events[1][k], events[2][k]
    return alpha, change, point


@kernel
def start_order(s: Array, s2: Array, sort_workspace: SortWorkspace, work: Workspace) -> None:
    """The documents by rank just behind 0: falling s, then falling s2, then the order of the policy."""
    order, rank, other = work[0], work[1], work[2]
    n = len(s)
    places = sort_places(s2, sort_workspace, False)
    keys = np.empty(n)
    for k in range(n):
        other[k] = places[k]
        keys[k] = s[places[k]]
    places = sort_places(keys, sort_workspace, False)
    for k in range(n):
        order[k] = other[places[k]]
        rank[order[k]] = k


@kernel
def count_crossings(s: Array, s2: Array) -> int:
    """Of documents in the order just behind 0."""
    count = 0
    for k in range(len(s)):
        score, score2 = s[k], s2[k]
        for m in range(k + 1, len(s)):
            count += (score > s[m]) & (score2 < s2[m])
    return count


@kernel
def fill_crossings(s: Array, s2: Array, order: Array, high: float, falling: Array, pairs: Array) -> int:
    """falling: minus alpha of each crossing up to `high` and a little beyond; pairs: upper and lower document.

    s and s2 are in the order just behind 0. Both arrays have room for one more: each pair is written, and kept if it
    crosses, because a branch would be guessed wrongly half of the time.
    """
    count = 0
    for k in range(len(s)):
        score, score2, upper = s[k], s2[k], order[k] << 32
        for m in range(k + 1, len(s)):
            a, b = score - s[m], s2[m] - score2
            crosses = (a > 0.0) & (b > 0.0)
            alpha = min(max(a / (a + b if crosses else 1.0), _FIRST_ALPHA), _LAST_ALPHA)
            falling[count], pairs[count] = -alpha, upper | order[m]
            count += crosses & (alpha <= _BEYOND * high)  # no cluster reaches so far that one would be divided
    return count


@kernel
def end_of_cluster(falling: Array, places: Array, k: int) -> int:
    """The first crossing behind the cluster that begins at k."""
    before, stop = -falling[places[k]], k + 1
    while stop < len(places):
        alpha = -falling[places[stop]]
        if alpha - before > CLOSE * alpha:
            break
        before, stop = alpha, stop + 1
    return stop


@kernel
def unpack_pair(pair: int) -> tuple[int, int]:
    return pair >> 32, pair & 0xFFFFFFFF


@kernel
def move_cluster(pairs: Array, places: Array, order: Array, rank: Array, after: Array, shift: Array) -> tuple[int, int]:
    """Fill the shifts of ranks and the documents by rank behind these crossings; the ranks concerned."""
    low, high = len(order), -1
    for k in range(len(places)):
        upper, lower = unpack_pair(pairs[places[k]])
        shift[upper] += 1
        shift[lower] -= 1
        low, high = min(low, rank[upper]), max(high, rank[lower])
    for r in range(low, high + 1):
        after[r + shift[order[r]]] = order[r]
    return low, high


@kernel
def settle_cluster(low: int, high: int, order: Array, rank: Array, after: Array, shift: Array) -> None:
    """The documents behind the cluster become those now."""
    for r in range(low, high + 1):
        shift[order[r]] = 0
    for r in range(low, high + 1):
        order[r] = after[r]
        rank[after[r]] = r


State = tuple[int, bool, float, int]  # kind, average, units per term, ranks that count


@kernel
def _term(state: State, above: float, value: float, rank: int, weights: Array) -> tuple[int, float]:
    """The term of a document at a rank (from 0) in units, and what is above the next one."""
    kind, _, scale, top = state
    if rank >= top or kind == PAIRS:
        return 0, above
    term, above = rank_term(kind, scale, above, value, rank, weights)
    return int(np.rint(term)), above


@kernel
def _sweep(
    state: State, crossings: Crossings, high: float, value: Array, weights: Array, work: Workspace, events: Events
) -> int:
    """Walk through the sorted crossings of one query; the number of clusters that change its value."""
    (order, rank, _, _, above, term), (alphas, deltas, points) = work, events
    falling, pairs, places = crossings
    kind, average, _, top = state
    above[0] = first_above(state[0])
    for r in range(len(value)):
        term[r], above[r + 1] = _term(state, above[r], value[order[r]], r, weights)
    k, n_events = 0, 0
    while k < len(places) and -falling[places[k]] <= high:
        alpha, stop, change, point = -falling[places[k]], end_of_cluster(falling, places, k), 0, 0
        if stop == k + 1:  # neighbours; here and not in a function, because most crossings are such
            upper, lower = unpack_pair(pairs[places[k]])
            r = rank[upper]
            order[r], order[r + 1] = lower, upper
            rank[lower], rank[upper] = r, r + 1
            if value[upper] == value[lower] or r >= top:
                pass
            elif kind == PAIRS:
                point = _half_pair(state, value[upper], value[lower])
                change = 2 * point
            else:
                before = term[r] + term[r + 1]
                term[r], above[r + 1] = _term(state, above[r], value[lower], r, weights)
                term[r + 1], _ = _term(state, above[r + 1], value[upper], r + 1, weights)
                change = term[r] + term[r + 1] - before
                if average:
                    mean = 0.5 * (value[upper] + value[lower])
                    point = _term(state, 0.0, mean, r, weights)[0] + _term(state, 0.0, mean, r + 1, weights)[0] - before
                elif upper > lower:
                    point = change
        else:
            change, point = _cross_many(state, pairs, places[k:stop], value, weights, work)
        alphas[n_events], deltas[n_events], points[n_events] = alpha, change, point
        n_events += change != 0 or point != 0
        k = stop
    return n_events


@kernel
def _half_pair(state: State, upper: float, lower: float) -> int:
    """What a pair loses or gains on its way to a tie, of one behind it the same again; higher is better."""
    half = int(np.rint(0.5 * state[2]))
    return -half if upper > lower else half if upper < lower else 0


@kernel
def _cross_many(
    state: State, pairs: Array, places: Array, value: Array, weights: Array, work: Workspace
) -> tuple[int, int]:
    """Several crossings at once: the changes of the value behind them and at them."""
    order, rank, after, shift, above, term = work
    change, point = 0, 0
    low, high = move_cluster(pairs, places, order, rank, after, shift)
    if state[0] == PAIRS:
        for k in range(len(places)):
            upper, lower = unpack_pair(pairs[places[k]])
            point += _half_pair(state, value[upper], value[lower])
        settle_cluster(low, high, order, rank, after, shift)
        return 2 * point, point
    start, reach = low, -1
    for r in range(low, high + 1):
        reach = max(reach, r + shift[order[r]])
        if reach == r:  # no document leaves ranks start..r: those that moved tie with each other
            if r > start:
                for m in range(start, r + 1):
                    change -= term[m]
                    point -= term[m]
                point += _tied_terms(state, order[start : r + 1], start, above[start], value, weights)
                for m in range(start, r + 1):
                    term[m], above[m + 1] = _term(state, above[m], value[after[m]], m, weights)
                    change += term[m]
            start = r + 1
    settle_cluster(low, high, order, rank, after, shift)
    return change, point


@kernel
def sorted_documents(tied: Array, n: int) -> Array:
    """Some of n documents in the order of the policy."""
    documents = np.empty(len(tied), np.int64)
    if len(tied) > 16:
        among, count = np.zeros(n, np.bool_), 0
        for k in range(len(tied)):
            among[tied[k]] = True
        for document in range(n):
            documents[min(count, len(tied) - 1)] = document
            count += among[document]
        return documents
    for k in range(len(tied)):
        hole = k
        while hole > 0 and documents[hole - 1] > tied[k]:
            documents[hole] = documents[hole - 1]
            hole -= 1
        documents[hole] = tied[k]
    return documents


@kernel
def _tied_terms(state: State, tied: Array, start: int, above: float, value: Array, weights: Array) -> int:
    """The terms of documents that tie from rank `start` on, in the order of the policy or with their mean gain."""
    total, documents, mean = 0, sorted_documents(tied, len(value)), 0.0
    for k in range(len(documents)):
        mean += value[documents[k]] / len(documents)
    for k in range(len(documents)):
        gain = mean if state[1] else value[documents[k]]
        term, above = _term(state, above, gain, start + k, weights)
        total += term
    return total


@kernel
def _end_change(state: State, s: Array, s2: Array, value: Array, weights: Array, order: Array) -> int:
    """What changes from an end of the line to a point just beside it.

    s are the scores at that end, s2 those at the other end, `order` has the documents by rank just beside it.
    """
    change, above, begin = 0, first_above(state[0]), 0
    while begin < len(s):
        stop = begin + 1
        while stop < len(s) and s[order[stop]] == s[order[begin]]:
            stop += 1
        if state[0] == PAIRS:
            change += _tied_pairs(state, s2, value, order[begin:stop])
        else:
            change -= _tied_terms(state, order[begin:stop], begin, above, value, weights)
            for r in range(begin, stop):
                term, above = _term(state, above, value[order[r]], r, weights)
                change += term
        begin = stop
    return change


@kernel
def _tied_pairs(state: State, s2: Array, value: Array, tied: Array) -> int:
    """What documents gain that tie and come into the order of s2."""
    change = 0
    for i in range(len(tied)):
        for j in range(i + 1, len(tied)):
            if s2[tied[i]] != s2[tied[j]]:
                change -= _half_pair(state, value[tied[i]], value[tied[j]])
    return change


@kernel
def _averaged(s: Array, s2: Array, value: Array, order: Array) -> Array:
    """The gains, with their mean for documents that tie along the whole line."""
    averaged, begin = value.copy(), 0
    while begin < len(s):
        stop, total = begin + 1, value[order[begin]]
        while stop < len(s) and s[order[stop]] == s[order[begin]] and s2[order[stop]] == s2[order[begin]]:
            total += value[order[stop]]
            stop += 1
        for k in range(begin, stop):
            averaged[order[k]] = total / (stop - begin)
        begin = stop
    return averaged
