"""Other names: what LightGBM, XGBoost, CatBoost and scikit-learn call parameters, arguments and attributes.

An error about an unknown name says ours. The page `docs/coming-from.md` has the same names, which a test compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Parameter, signature
from typing import Any

from podium._runtime.words import check_choice, did_you_mean

PARAMETERS = {  # their name: ours, or a sentence where there is no single one
    **dict.fromkeys(("num_iterations", "iterations", "num_boost_round", "max_iter"), "n_estimators"),
    **dict.fromkeys(("num_leaves", "max_leaves"), "max_leaf_nodes"),
    **dict.fromkeys(("shrinkage_rate", "eta"), "learning_rate"),
    "depth": "max_depth",
    **dict.fromkeys(("min_data_in_leaf", "min_child_samples"), "min_samples_leaf"),
    **dict.fromkeys(("min_sum_hessian_in_leaf", "min_child_weight"), "min_hessian"),
    **dict.fromkeys(("min_gain_to_split", "min_split_gain", "gamma"), "min_gain"),
    **dict.fromkeys(("lambda_l2", "reg_lambda", "l2_leaf_reg"), "l2_regularization"),
    "leaf_estimation_method": "step",
    "grow_policy": "growth",
    **dict.fromkeys(("bagging_fraction", "subsample"), "row_fraction"),
    **dict.fromkeys(("bagging_by_query", "sampling_unit"), "query_fraction"),
    **dict.fromkeys(("colsample_bytree", "max_features", "rsm"), "feature_fraction"),
    **dict.fromkeys(("data_sample_strategy", "sampling_method"), "goss"),
    "rate_drop": "drop_rate",
    **dict.fromkeys(("max_bin", "border_count"), "max_bins"),
    "enable_bundle": "bundle_features",
    "sparse_features_conflict_fraction": "max_conflicts",
    **dict.fromkeys(("monotone_constraints", "monotonic_cst"), "monotone"),
    **dict.fromkeys(("categorical_feature", "categorical_features", "cat_features"), "categorical"),
    "cat_smooth": "category_smoothing",
    **dict.fromkeys(("init_score", "base_margin", "baseline"), "init"),
    **dict.fromkeys(("lambdarank_truncation_level", "lambdarank_num_pair_per_sample"), "metric"),
    "sigmoid": "sigma",
    **dict.fromkeys(("lambdarank_norm", "lambdarank_normalization"), "normalize"),
    "scoring": "eval_metric",
    **dict.fromkeys(("num_threads", "thread_count"), "n_jobs"),
    **dict.fromkeys(("device_type", "task_type"), "device"),
    **dict.fromkeys(("seed", "random_seed"), "random_state"),
    "eval_at": 'The cutoff is a part of the metric here: eval_metric="ndcg@10".',
    "label_gain": 'The gain is a part of the metric here: "ndcg@10(gain=linear)".',
    "boosting": "drop_rate=0.1 is DART here, goss=(0.2, 0.1) is GOSS.",
    "booster": "drop_rate=0.1 is DART here.",
    "early_stopping_rounds": "It is an argument of fit.",
    "verbose": "It is an argument of fit.",
}
ARGUMENTS = {  # of methods
    **dict.fromkeys(("eval_X", "eval_y", "eval_group", "eval_qid"), "Give eval_set=(X, y, qid) or a RankingData."),
    "eval_at": PARAMETERS["eval_at"],
    "group_id": "It is called qid here.",
    "group_weight": "It is called query_weight here.",
    "pairs_weight": "It is the last part of pairs here.",
    "log_evaluation": "It is called verbose here.",
    **dict.fromkeys(("init_model", "xgb_model"), "model.fit_more(...) continues a training."),
    **dict.fromkeys(("init_score", "base_margin", "baseline"), "It is the parameter init of the model here."),
    **dict.fromkeys(("categorical_feature", "cat_features"), "It is the parameter categorical of the model here."),
    **dict.fromkeys(("pred_contrib", "pred_contribs"), "podium.explain.shap_values(model, X) has contributions."),
    **dict.fromkeys(
        ("num_iteration", "iteration_range", "ntree_end"), "It is called n_trees here, in models of trees."
    ),
    **dict.fromkeys(("raw_score", "output_margin"), "Scores are always raw here; leave it out."),
}
ATTRIBUTES = {
    **dict.fromkeys(("booster_", "get_booster"), "inspect() and forest_ have the trees"),
    **dict.fromkeys(("evals_result_", "evals_result", "get_evals_result"), "evals_ has the learning curves"),
    **dict.fromkeys(("best_iteration", "tree_count_"), "it is called best_iteration_ here"),
    "feature_name_": "feature_names_in_ has the names",
    "save_model": "save(path) writes the model",
    "load_model": "podium.load(path) reads a model",
    **dict.fromkeys(("dump_model", "trees_to_dataframe"), "inspect() shows the trees"),
    **dict.fromkeys(("get_score", "get_feature_importance"), "models of trees have feature_importances_"),
}
_STOPPING = "give fit early_stopping_rounds"
_PRINTING = "give fit verbose"
CALLBACKS = {
    "lightgbm": {
        "EarlyStopping": _STOPPING,
        "LogEvaluation": _PRINTING,
        "RecordEvaluation": "model.evals_ has the learning curves",
        "ResetParameter": "the learning rate is the same for all trees here",
    },
    "xgboost": {
        "EarlyStopping": _STOPPING,
        "EvaluationMonitor": _PRINTING,
        "LearningRateScheduler": "the learning rate is the same for all trees here",
        "TrainingCheckPoint": "give fit a checkpoint",
    },
    "catboost": {},
}


def hint_for(name: str, parameters: Iterable[str]) -> str:
    """A sentence to put behind an error about an unknown parameter, or nothing."""
    parameters, ours = list(parameters), PARAMETERS.get(name, "")
    if ours in parameters:
        return f" It is called {ours} here."
    return f" {ours}" if ours.endswith(".") else did_you_mean(name, parameters)


def refuse_unknown_parameter(model: str, name: str, parameters: Iterable[str]) -> None:
    """Refuse a name that is no parameter of the model."""
    parameters = list(parameters)
    if name in PARAMETERS and name not in parameters:
        raise ValueError(f"{model} has no parameter {name!r}.{hint_for(name, parameters)}")
    check_choice(f"{model}: a parameter", name, parameters)


def attribute_hint(name: str) -> str:
    return f"; {ATTRIBUTES[name]}" if name in ATTRIBUTES else ""


def with_hints(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, whose error about an unknown argument says ours."""
    accepted = signature(method).parameters
    if any(one.kind is Parameter.VAR_KEYWORD for one in accepted.values()):
        return method

    @wraps(method)
    def hinting(self: Any, *arguments: Any, **options: Any) -> Any:
        for name in options:
            if name not in accepted:
                hint = f" {ARGUMENTS[name]}" if name in ARGUMENTS else did_you_mean(name, accepted)
                raise TypeError(f"{type(self).__name__}.{method.__name__} has no argument {name!r}.{hint}")
        return method(self, *arguments, **options)

    return hinting
