"""Metrics by name: `ndcg@10`, `map`, `p@5`, `rbp(0.8)`, `err@10(rmax=4)`, with a hint for a typing slip."""

from __future__ import annotations

import re
import types
from collections import ChainMap
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar, get_args, get_type_hints

from podium._runtime.registry import Registry
from podium._runtime.words import did_you_mean, is_slip
from podium.metrics.additive import DCG, NDCG, RBP, MeanNDCG, Precision, Recall
from podium.metrics.base import Metric
from podium.metrics.cascade import ERR, ReciprocalRank
from podium.metrics.measures.spelling import GROUPS, TREC_FAMILIES, own_name
from podium.metrics.pairs import AUC, Inversions
from podium.metrics.policies import POLICIES, Policy, get_policy
from podium.metrics.precision import AveragePrecision

_BUILT_IN: tuple[type[Metric], ...] = (
    *(NDCG, DCG, MeanNDCG, AveragePrecision, Precision, Recall),
    *(ReciprocalRank, ERR, RBP, AUC, Inversions),
)
METRICS: Registry[type[Metric]] = Registry(
    "a metric",
    {metric.base_name: metric for metric in _BUILT_IN},
    {"ap": "map", "precision": "p", "prec": "p", "r": "recall", "mrr": "rr", "mean_ndcg": "meanndcg"},
)

# Measures of trec_eval and ir_measures. Those whose class has `runs_only` are refused for the scores of given rows.
_MODULE = "podium.metrics.measures"
MEASURES: Registry[type[Metric]] = Registry(
    "a measure",
    {
        "rprec": f"{_MODULE}.precisions:RPrecision",
        "rprec_mult": f"{_MODULE}.precisions:RPrecisionMultiple",
        "iprec": f"{_MODULE}.precisions:InterpolatedPrecision",
        "11pt_avg": f"{_MODULE}.precisions:ElevenPointAverage",
        "relative_p": f"{_MODULE}.precisions:RelativePrecision",
        "success": f"{_MODULE}.precisions:Success",
        "bing": f"{_MODULE}.precisions:BinaryG",
        "bpref": f"{_MODULE}.judgements:BinaryPreference",
        "infap": f"{_MODULE}.judgements:InferredAP",
        "judged": f"{_MODULE}.judgements:Judged",
        "g": f"{_MODULE}.gains:NormalisedGain",
        "ndcg_rel": f"{_MODULE}.gains:NDCGAtRelevant",
        "rndcg": f"{_MODULE}.gains:NDCGAtLevels",
        "compat": f"{_MODULE}.overlap:Compatibility",
        "num_q": f"{_MODULE}.sets:Queries",
        "num_ret": f"{_MODULE}.sets:Retrieved",
        "num_rel": f"{_MODULE}.sets:Relevant",
        "num_rel_ret": f"{_MODULE}.sets:RelevantRetrieved",
        "num_nonrel_judged_ret": f"{_MODULE}.judgements:JudgedNonrelevantRetrieved",
        "set_p": f"{_MODULE}.sets:SetPrecision",
        "set_relative_p": f"{_MODULE}.sets:SetRelativePrecision",
        "set_recall": f"{_MODULE}.sets:SetRecall",
        "set_map": f"{_MODULE}.sets:SetAveragePrecision",
        "set_f": f"{_MODULE}.sets:SetF",
        "utility": f"{_MODULE}.sets:Utility",
        "gm_map": f"{_MODULE}.sets:GeometricMAP",
        "gm_bpref": f"{_MODULE}.sets:GeometricPreference",
        "relstring": f"{_MODULE}.strings:RelevanceString",
        "runid": f"{_MODULE}.strings:RunName",
        "alpha_ndcg": f"{_MODULE}.subtopics:AlphaNDCG",
        "alpha_dcg": f"{_MODULE}.subtopics:AlphaDCG",
        "err_ia": f"{_MODULE}.subtopics:IntentAwareERR",
        "nerr_ia": f"{_MODULE}.subtopics:NormalisedIntentAwareERR",
        "nrbp": f"{_MODULE}.subtopics:NRBP",
        "nnrbp": f"{_MODULE}.subtopics:NormalisedNRBP",
        "ap_ia": f"{_MODULE}.subtopics:IntentAwareAP",
        "p_ia": f"{_MODULE}.subtopics:IntentAwarePrecision",
        "strecall": f"{_MODULE}.subtopics:SubtopicRecall",
    },
    {"r_prec": "rprec", "gmap": "gm_map", "hit": "success", "hits": "success", "hitrate": "success"}
    | {"map_ia": "ap_ia", "strec": "strecall"},
)
KNOWN_METRICS: Mapping[str, type[Metric]] = ChainMap(METRICS, MEASURES)  # of both tables

# Other metrics of the field: nearest in their letters is one that measures something else.
_OTHER_METRICS = {"infndcg", "xinfap", "nerr", "udcg", "q", "tau", "pcr", "bpm", "inst", "sdcg", "accuracy"}
_SETTINGS_OF_IR_MEASURES = {"rel": "relevant", "p": "persistence"}
Registered = TypeVar("Registered", bound=type[Metric])
_PATTERN = re.compile(
    r"(?P<name>[a-z0-9_]*[a-z_])(?:\((?P<first>[^()]*)\))?(?:@(?P<cutoff>[0-9]+))?(?:\((?P<last>[^()]*)\))?(?P<minus>-)?"
)


def register_metric(metric: Registered) -> Registered:
    """Make a class of metrics known by its `base_name`, from Python and on the command line; also as a decorator."""
    if not (isinstance(metric, type) and issubclass(metric, Metric)):
        raise ValueError(f"a metric must be a class of Metric; got {metric!r}.")
    METRICS.register(metric.base_name, metric)
    return metric


def parse_metric(metric: str | Metric, policy: Policy | None = None, *, runs: bool = False) -> Metric:
    """The metric with this name, by the policy's rules. A trailing `-` scores empty queries 0, as in XGBoost.

    Names are Podium's, trec_eval's or ir_measures', and print as given. Without a policy, a name is taken by the rules
    of `standard`, and a Metric keeps its own. `runs`: whether it may be a measure of runs only, such as `num_rel_ret`.
    """
    if isinstance(metric, Metric):
        _refuse_runs_only(type(metric), str(metric), runs)
        return metric if policy is None else metric.under(policy)
    policy = POLICIES["standard"] if policy is None else policy
    if not isinstance(metric, str):
        raise ValueError(f'metric must be a Metric or a name such as "ndcg@10"; got {metric!r}.')
    match = _PATTERN.fullmatch(own_name(metric))
    name = match["name"] if match else ""
    kind = KNOWN_METRICS.get(name)
    if match is None or kind is None or (match["first"] is not None and match["last"] is not None):
        raise ValueError(f'metric must be a Metric or a name such as "ndcg@10"; got {metric!r}.{_hint(metric)}')
    _refuse_runs_only(kind, metric, runs)
    settings = _settings(kind, match["first"] or match["last"] or "", metric)
    if match["minus"]:
        settings |= _empty_as_zero(kind, metric)
    cutoff = None if match["cutoff"] is None else int(match["cutoff"])
    parsed = kind(cutoff, policy=policy, **settings)
    is_cut_by_policy = cutoff is None and parsed.cutoff is not None  # which only our name says
    return parsed if is_cut_by_policy or metric.strip() == parsed.own_name else parsed.called(metric.strip())


def _refuse_runs_only(kind: type[Metric], metric: str, runs: bool) -> None:
    if kind.runs_only and not runs:
        advice = "Use podium eval QRELS RUN, or podium.evaluate_run"
        raise ValueError(f"{metric!r} measures a run against its qrels, not the scores of given rows. {advice}.")


def policy_of(metrics: Sequence[str | Metric], policy: str | Policy | None, default: str) -> Policy:
    """The one policy of an evaluation: the one given, or the one that the metrics have, or the default.

    Names, and metrics that were made without a policy (so by `standard`), have none of their own.
    """
    policies = {str(metric): metric.policy for metric in metrics if isinstance(metric, Metric)}
    policies = {name: rules for name, rules in policies.items() if rules != POLICIES["standard"]}
    if policy is None and len(policies) == len(metrics) > 0:
        rules = next(iter(policies.values()))
    else:
        rules = get_policy(default if policy is None else policy)
    for name, other in policies.items():
        if other != rules:
            conflict = f"{name} has the policy {other.name!r}, but policy={rules.name!r} was passed"
            raise ValueError(f"{conflict}. Evaluate one policy at a time.")
    return rules


def _settings(kind: type[Metric], text: str, metric: str) -> dict[str, Any]:
    """Read `0.8, graded, rmax=4` by the fields of the metric."""
    if not text:
        return {}
    hints = get_type_hints(kind)
    allowed = [f.name for f in fields(kind) if f.name not in ("cutoff", "policy")]
    settings: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals and name not in allowed and kind.positional:
            name, value = kind.positional, name
        elif not equals:
            value = "true"
        if name not in allowed:
            name = _SETTINGS_OF_IR_MEASURES.get(name, name)
        if name not in allowed:
            raise ValueError(
                f"{metric!r}: {kind.base_name} has no setting {name!r}; it has {', '.join(allowed) or 'none'}."
            )
        settings[name] = _convert(value, hints[name], name, metric)
    return settings


def _convert(value: str, hint: Any, name: str, metric: str) -> Any:
    choices = get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if bool in choices and value in ("true", "false"):
        return value == "true"
    if float in choices and re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", value):
        return float(value)
    if str in choices:
        return value
    raise ValueError(f"{metric!r}: cannot read {value!r} as {name}.")


def _empty_as_zero(kind: type[Metric], metric: str) -> dict[str, float]:
    if "empty" not in {f.name for f in fields(kind)}:
        names = " and ".join(name for name in METRICS if "empty" in {f.name for f in fields(METRICS[name])})
        raise ValueError(f"{metric!r}: a trailing '-' (empty queries score 0) is defined for {names} only.")
    return {"empty": 0.0}


def _hint(metric: str) -> str:
    """What may have been meant: the nearest name if it differs by a slip, else what there is."""
    if metric.strip().lower() in GROUPS:
        return " That is a group of trec_eval's measures, which evaluate runs: podium eval QRELS RUN, or evaluate_run."
    name, at, rest = metric.strip().lower().partition("@")
    if at and name in KNOWN_METRICS:
        return " Expected name@cutoff(settings), with an integer cutoff from 1."
    word = name.split("(")[0]
    names = [*METRICS, *METRICS.other_names, *MEASURES, *MEASURES.other_names, *TREC_FAMILIES]
    guess = "" if word in _OTHER_METRICS else did_you_mean(word, names, cutoff=0.5)
    slip = guess and is_slip(word, guess.split("'")[1])
    return guess.replace("'?", f"{at}{rest}'?") if slip else f" Known: {', '.join(METRICS)}; {', '.join(MEASURES)}."
