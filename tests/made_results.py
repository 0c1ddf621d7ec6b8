"""Results as an experiment would leave them, made of random numbers: models whose order is known."""

from __future__ import annotations

import numpy as np

from podium.lab.experiments.records import ModelRun, Search
from podium.lab.experiments.results import Results
from podium.lab.tuning.tuning import Trial

METRICS = ["ndcg@10", "map", "ndcg@1", "ndcg@3", "ndcg@5"]
POLICIES = ["letor4", "lightgbm"]


def make_results(
    names: list[str], n_folds: int = 2, n_seeds: int = 2, n_queries: int = 30, n_features: int = 8
) -> Results:
    """The first model is the worst, the last the best; the ones between rise evenly."""
    rng = np.random.default_rng(4)
    folds, seeds = [str(fold + 1) for fold in range(n_folds)], list(range(n_seeds))
    ease = {fold: rng.beta(2, 2, n_queries) for fold in folds}
    runs = [
        _run(name, fold, seed, 0.12 * place / max(1, len(names) - 1), ease[fold], n_features, rng)
        for place, name in enumerate(names)
        for fold in folds
        for seed in seeds
    ]
    searches = [_search(name, fold, rng) for name in names[1::2] for fold in folds]
    return Results(_about(names, folds, seeds), tuple(runs), tuple(searches))


def _about(names: list[str], folds: list[str], seeds: list[int]) -> dict:
    title = "Models & blends <on made data>"
    values = {"ndcg@10": [0.5] * (len(folds) + 1), "map": [0.45] * len(folds) + [None]}
    published = {"title": "A paper's table", "policy": "letor4", "model": names[0], "metrics": ["ndcg@10", "map"]}
    return {
        "name": "made",
        "title": title,
        "metrics": METRICS,
        "policies": POLICIES,
        "folds": folds,
        "seeds": seeds,
        "models": {name: {"description": f"model {n}", "settings": {"n": n}} for n, name in enumerate(names)},
        "data": {"name": "made", "files": [{"name": f"Fold{f}/train.txt", "sha256": "ab" * 32} for f in folds]},
        "versions": {"podium": "0.1.0", "numpy": "2.0"},
        "hardware": {"processor": "made & up", "cores": 2},
        "published": [published | {"folds": folds, "values": values}],
        "budget": {"trials": 20},
    }


def _run(
    name: str, fold: str, seed: int, skill: float, ease: np.ndarray, n_features: int, rng: np.random.Generator
) -> ModelRun:
    base = np.clip(ease + skill - 0.06 + rng.normal(0, 0.08, len(ease)), 0, 1)
    shifts = {"ndcg@10": 0.0, "map": -0.03, "ndcg@1": -0.12, "ndcg@3": -0.08, "ndcg@5": -0.04}
    per_query = {
        policy: {m: [round(float(v), 6) for v in np.clip(base + shift + 0.02 * p, 0, 1)] for m, shift in shifts.items()}
        for p, policy in enumerate(POLICIES)
    }
    per_query["letor4"]["map"][0] = None
    values = {
        policy: {m: float(np.mean([v for v in column if v is not None])) for m, column in own.items()}
        for policy, own in per_query.items()
    }
    rise = 0.5 - 0.3 * np.exp(-np.arange(120) / 20)
    curves = {
        "valid": {"ndcg@10": (rise - 0.0004 * np.arange(120) + rng.normal(0, 0.003, 120)).tolist()},
        "train": {"ndcg@10": (rise + 0.0015 * np.arange(120)).tolist()},
    }
    return ModelRun(
        name,
        fold,
        seed,
        {"n_estimators": 100},
        tuple(f"{10 * int(fold)}{n}" for n in range(len(ease))),
        per_query,
        values,
        curves if "svm" not in name else {},
        {f"feature {f + 1}": float(rng.exponential(2.0**-f)) for f in range(n_features)} if "svm" not in name else {},
        float(np.exp(rng.normal(1 + 20 * skill, 0.4))),
        0.01,
        int(1e8 * (1 + 10 * skill)),
        int(2e4 * (1 + 30 * skill)),
    )


def _search(name: str, fold: str, rng: np.random.Generator) -> Search:
    def trial(number: int) -> Trial:
        settings = {"learning_rate": float(rng.uniform(0.01, 0.3)), "max_leaf_nodes": int(rng.integers(4, 64))}
        if number % 7 == 3:
            return Trial(settings, None, None, 0.4, "pruned at step 10")
        return Trial(settings, float(rng.beta(30, 30)), int(rng.integers(20, 120)), 1.5)

    trials = tuple(trial(number) for number in range(20))
    best = max((t for t in trials if t.value is not None), key=lambda t: t.value)
    return Search(name, fold, "ndcg@10 (letor4)", trials, best.settings, 30.0)
