"""Names of other tools: trec_eval's `ndcg_cut_10` and `recip_rank`, ir_measures' `AP(rel=2)` and `IPrec@0.5`.

They mean our metric, under the policy in force. What is reported carries the name that was given.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from podium.metrics.base import Metric

_DEPTHS = (5, 10, 15, 20, 30, 100, 200, 500, 1000)
_TENTHS = tuple(f"{level / 10:.2f}" for level in range(11))
_FIFTHS = tuple(f"{level / 5:.2f}" for level in range(1, 11))

# trec_eval's measures that are one value per parameter, and the parameters it takes by default.
TREC_FAMILIES: dict[str, tuple[object, ...]] = {
    "iprec_at_recall": _TENTHS,
    "P": _DEPTHS,
    "recall": _DEPTHS,
    "Rprec_mult": _FIFTHS,
    "ndcg_cut": _DEPTHS,
    "map_cut": _DEPTHS,
    "relative_P": _DEPTHS,
    "success": (1, 5, 10),
}
_OFFICIAL = "runid num_q num_ret num_rel num_rel_ret map gm_map Rprec bpref recip_rank iprec_at_recall P"
_FURTHER = "relstring recall infAP gm_bpref Rprec_mult utility 11pt_avg binG G ndcg ndcg_rel Rndcg ndcg_cut map_cut"
_SETS = "set_P set_relative_P set_recall set_map set_F"
TREC_ORDER = f"{_OFFICIAL} {_FURTHER} relative_P success {_SETS} num_nonrel_judged_ret".split()
GROUPS = {
    "official": _OFFICIAL.split(),
    "set": f"runid num_q num_ret num_rel num_rel_ret utility {_SETS}".split(),
    "all_trec": TREC_ORDER,
}

_TREC_CUT = re.compile(r"(ndcg_cut|map_cut|p|recall|relative_p|success|relstring)[_.]([0-9]+)")
_TREC_NUMBER = re.compile(r"(iprec_at_recall|rprec_mult|set_f)[_.]([0-9]*\.?[0-9]+)")
_TREC_UTILITY = re.compile(r"utility[_.]([-0-9.]+),([-0-9.]+),([-0-9.]+)(?:,([-0-9.]+))?")
_IR_NAME = re.compile(r"([^(@]+)(\([^()]*\))?(?:@([0-9.]+))?(\([^()]*\))?")
_OWN_NAMES = {
    "ndcg_cut": "ndcg",
    "map_cut": "map",
    "recip_rank": "rr",
    "iprec_at_recall": "iprec",
    "setp": "set_p",
    "setr": "set_recall",
    "setf": "set_f",
    "setap": "set_map",
    "setrelp": "set_relative_p",
    "numq": "num_q",
    "numret": "num_ret",
    "numrel": "num_rel",
    "numrelret": "num_rel_ret",
    **{word.replace("_", "-"): word for word in ("alpha_ndcg", "alpha_dcg", "err_ia", "nerr_ia", "map_ia", "p_ia")},
}
_WITH_PARAMETERS = {"set_f", "utility", "relstring"}  # one value, whatever the parameters
_JUDGED_ONLY = "'judged_only' is not supported: Podium keeps documents without judgements in the ranking. Leave it out"


def own_name(name: str) -> str:
    """The name in our spelling, in lower case; what is no name of another tool stays as it is.

    >>> own_name("ndcg_cut_10"), own_name("AP(rel=2)@100"), own_name("IPrec@0.5")
    ('ndcg@10', 'ap(rel=2)@100', 'iprec(0.5)')
    """
    lower = name.strip().lower()
    if match := _TREC_CUT.fullmatch(lower):
        return f"{_OWN_NAMES.get(match[1], match[1])}@{match[2]}"
    if match := _TREC_NUMBER.fullmatch(lower):
        return f"{_OWN_NAMES.get(match[1], match[1])}({match[2]})"
    if match := _TREC_UTILITY.fullmatch(lower):
        if match[4] and float(match[4]) != 0:
            raise ValueError(f"{name!r}: the fourth coefficient needs the size of the collection; give 0.")
        return f"utility(a={match[1]},b={match[2]},c={match[3]})"
    match = _IR_NAME.fullmatch(lower)
    return lower if match is None else _from_ir_measures(name, *match.groups())


def _from_ir_measures(name: str, word: str, first: str | None, cutoff: str | None, last: str | None) -> str:
    settings = (first or last or "").replace("'", "").replace('"', "").replace(" ", "")
    ours = _OWN_NAMES.get(word, word)
    if "judged_only=true" in settings:
        raise ValueError(f"{name!r}: {_JUDGED_ONLY}.")
    if ours == "iprec" and cutoff is not None and not re.match(r"\([0-9.]+|\(recall=", settings):
        return f"iprec({', '.join(filter(None, [cutoff, settings.strip('()')]))})"
    if ours == "num_ret" and "rel=" in settings:
        ours = "num_rel_ret"
    if ours == "set_p" and "relative=true" in settings:
        ours = "set_relative_p"
    for theirs, mine in (("dcg=exp-log2", "gain=exponential"), ("dcg=log2", "gain=linear"), ("relative=true", "")):
        settings = settings.replace(theirs, mine)
    settings = settings.replace("(,", "(").replace(",)", ")").replace("()", "")
    at = "" if cutoff is None else f"@{cutoff}"
    return f"{ours}{settings}{at}" if first else f"{ours}{at}{settings}"


def expand_names(names: Iterable[str | Metric], *, families: bool = False) -> list[str | Metric]:
    """Groups of trec_eval as the names of their measures, in its order; others stay, each once.

    `families`: names are trec_eval's, so that `P` is P_5, P_10, ...; else it is our precision of the whole list.
    """
    expanded: dict[str | Metric, None] = {}
    for name in names:
        group = GROUPS.get(name.strip().lower()) if isinstance(name, str) else None
        for one in [name] if group is None else group:
            alone = group is None and not families and str(one).lower() in ("p", "recall")
            expanded |= dict.fromkeys([one] if alone or not isinstance(one, str) else family(one))
    return list(expanded)


def family(name: str) -> Sequence[str]:
    """`P` -> `P_5`, `P_10`, ...; `P.5,10` -> `P_5`, `P_10`; other names as they are."""
    word, dot, listed = name.partition(".")
    if listed and word.lower() in _WITH_PARAMETERS:
        return [f"{word}_{listed}"]
    known = next((known for known in TREC_FAMILIES if known.lower() == word.lower()), None)
    if known is None or (dot and not listed):
        return [name]
    if not dot:
        return [f"{known}_{parameter}" for parameter in TREC_FAMILIES[known]]
    if isinstance(TREC_FAMILIES[known][0], int):
        return [f"{known}_{number}" for number in sorted(listed.split(","), key=lambda part: (len(part), part))]
    return [f"{known}_{number:.2f}" for number in sorted(float(part) for part in listed.split(","))]
