"""Ranked labels in, a number out; and what each swap would change."""

from podium.metrics.base import Metric as Metric
from podium.metrics.comparing import compare as compare
from podium.metrics.comparing import compare_evaluations as compare_evaluations
from podium.metrics.comparing import compare_values as compare_values
from podium.metrics.comparison import Comparison as Comparison
from podium.metrics.evaluation import Evaluation as Evaluation
from podium.metrics.evaluation import evaluate as evaluate
from podium.metrics.evaluation import evaluate_run as evaluate_run
from podium.metrics.lists import RankedLists as RankedLists
from podium.metrics.policies import POLICIES as POLICIES
from podium.metrics.policies import Policy as Policy
from podium.metrics.policies import get_policy as get_policy
from podium.metrics.spelling import METRICS as METRICS
from podium.metrics.spelling import parse_metric as parse_metric
