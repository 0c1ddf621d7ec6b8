"""An experiment: several models on the same data, results stored, one report. Run: python examples/06_experiment.py"""

from pathlib import Path

from podium.demo.letor import write_demo
from podium.lab import Experiment, run
from podium.lab.report import write_report


def main() -> None:
    # Files to train, validate and test on; for real data, the name of a data set: {"name": "mq2008"}.
    write_demo("experiment", n_queries=200)
    files = {part: f"experiment/{part}.txt" for part in ("train", "valid", "test")}
    # The same words as in a TOML file. Wrong keys and values are refused with what was meant.
    experiment = Experiment(
        name="first",
        title="Two kinds of boosted trees",
        data=files,
        metrics=["ndcg@10", "map"],
        models={
            "pointwise": {"kind": "mart", "n_estimators": 40, "max_leaf_nodes": 8},
            "for the metric": {"kind": "lambdamart", "n_estimators": 40, "max_leaf_nodes": 8},
        },
        baseline="pointwise",
    )

    # Each run is stored when it has finished: killed or not, the same call goes on with what is missing.
    outcome = run(experiment, "experiment/results", n_jobs=1)
    for model in outcome.results.models:
        print(f"{model}: {outcome.results.mean(model, 'standard', 'ndcg@10'):.4f}")
    # -> pointwise: 0.7262
    # -> for the metric: 0.7288
    write_report(outcome.results, Path("experiment/report.html"))
    print(Path("experiment/report.html").exists())
    # -> True


if __name__ == "__main__":  # an experiment may start processes, which import this file
    main()
