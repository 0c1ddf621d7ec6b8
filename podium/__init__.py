"""Podium: end-to-end learning to rank for Python.

The public names, and nothing else. Each is imported on first use, so that `import podium` stays cheap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from podium._runtime.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from podium import distributed as distributed
    from podium import exchange as exchange
    from podium import explain as explain
    from podium import formats as formats
    from podium import lab as lab
    from podium import metrics as metrics
    from podium import models as models
    from podium import objectives as objectives
    from podium import runs as runs
    from podium import search as search
    from podium.data.ranking import RankingData as RankingData
    from podium.evaluation.comparing import compare as compare
    from podium.evaluation.evaluating import evaluate as evaluate
    from podium.evaluation.evaluating import evaluate_run as evaluate_run
    from podium.exchange.importing import import_model as import_model
    from podium.formats import read_data as read_data
    from podium.formats import write_data as write_data
    from podium.formats.letor import read_letor as read_letor
    from podium.formats.letor import write_letor as write_letor
    from podium.formats.pairs import read_pairs as read_pairs
    from podium.formats.subtopics import SubtopicQrels as SubtopicQrels
    from podium.formats.trec import Qrels as Qrels
    from podium.formats.trec import Run as Run
    from podium.formats.trec import read_qrels as read_qrels
    from podium.formats.trec import read_run as read_run
    from podium.formats.trec import write_qrels as write_qrels
    from podium.formats.trec import write_run as write_run
    from podium.lint.checks import check as check
    from podium.metrics.base import Metric as Metric
    from podium.metrics.policies import Policy as Policy
    from podium.metrics.registry import parse_metric as parse_metric
    from podium.models.adarank import AdaRank as AdaRank
    from podium.models.attention import SelfAttentionRanker as SelfAttentionRanker
    from podium.models.coordinate_ascent import CoordinateAscent as CoordinateAscent
    from podium.models.kernel_svm import KernelRankSVM as KernelRankSVM
    from podium.models.linear import BayesRank as BayesRank
    from podium.models.linear import Linear as Linear
    from podium.models.nets import XENDCG as XENDCG
    from podium.models.nets import ApproxNDCG as ApproxNDCG
    from podium.models.nets import LambdaRank as LambdaRank
    from podium.models.nets import ListMLE as ListMLE
    from podium.models.nets import ListNet as ListNet
    from podium.models.nets import Net as Net
    from podium.models.nets import RankNet as RankNet
    from podium.models.pointwise import Pairwise as Pairwise
    from podium.models.pointwise import Pointwise as Pointwise
    from podium.models.rankboost import RankBoost as RankBoost
    from podium.models.svm import RankSVM as RankSVM
    from podium.models.trees.named import MART as MART
    from podium.models.trees.named import Boosted as Boosted
    from podium.models.trees.named import LambdaMART as LambdaMART
    from podium.models.trees.named import LambdaSMART as LambdaSMART
    from podium.models.trees.named import MatrixNet as MatrixNet
    from podium.models.trees.named import RandomForest as RandomForest
    from podium.models.trees.named import RegressionTree as RegressionTree
    from podium.objectives.registry import parse_objective as parse_objective
    from podium.persistence.saving import load as load
    from podium.pipelines.auto.autoranker import AutoRanker as AutoRanker
    from podium.pipelines.auto.cross_validation import cross_validate as cross_validate
    from podium.pipelines.cascades.cascade import Cascade as Cascade
    from podium.pipelines.cascades.cascade import Stage as Stage
    from podium.pipelines.ensembles.bagged import Bagged as Bagged
    from podium.pipelines.ensembles.blend import Blend as Blend
    from podium.pipelines.ensembles.blend import yahoo_blend as yahoo_blend
    from podium.pipelines.ensembles.stack import Stack as Stack
    from podium.runs.fusing import fuse as fuse
    from podium.server.client import Client as Client

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "data.ranking": ("RankingData",),
        "evaluation.comparing": ("compare",),
        "evaluation.evaluating": ("evaluate", "evaluate_run"),
        "exchange.importing": ("import_model",),
        "formats": ("read_data", "write_data"),
        "formats.letor": ("read_letor", "write_letor"),
        "formats.pairs": ("read_pairs",),
        "formats.subtopics": ("SubtopicQrels",),
        "formats.trec": ("Qrels", "Run", "read_qrels", "read_run", "write_qrels", "write_run"),
        "lint.checks": ("check",),
        "metrics.base": ("Metric",),
        "metrics.policies": ("Policy",),
        "metrics.registry": ("parse_metric",),
        "models.adarank": ("AdaRank",),
        "models.attention": ("SelfAttentionRanker",),
        "models.coordinate_ascent": ("CoordinateAscent",),
        "models.kernel_svm": ("KernelRankSVM",),
        "models.linear": ("BayesRank", "Linear"),
        "models.nets": ("ApproxNDCG", "LambdaRank", "ListMLE", "ListNet", "Net", "RankNet", "XENDCG"),
        "models.pointwise": ("Pairwise", "Pointwise"),
        "models.rankboost": ("RankBoost",),
        "models.svm": ("RankSVM",),
        "models.trees.named": (
            "Boosted",
            "LambdaMART",
            "LambdaSMART",
            "MART",
            "MatrixNet",
            "RandomForest",
            "RegressionTree",
        ),
        "objectives.registry": ("parse_objective",),
        "persistence.saving": ("load",),
        "pipelines.auto.autoranker": ("AutoRanker",),
        "pipelines.auto.cross_validation": ("cross_validate",),
        "pipelines.cascades.cascade": ("Cascade", "Stage"),
        "pipelines.ensembles.bagged": ("Bagged",),
        "pipelines.ensembles.blend": ("Blend", "yahoo_blend"),
        "pipelines.ensembles.stack": ("Stack",),
        "runs.fusing": ("fuse",),
        "server.client": ("Client",),
    },
    modules=(
        "distributed",
        "exchange",
        "explain",
        "formats",
        "lab",
        "metrics",
        "models",
        "objectives",
        "runs",
        "search",
    ),
)
__all__ += ["__version__"]
