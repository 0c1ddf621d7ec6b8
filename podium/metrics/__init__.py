"""Ranked labels in, a number out; and what each swap would change."""

from podium.metrics.base import Metric as Metric
from podium.metrics.line_search import LineSearch as LineSearch
from podium.metrics.line_search import line_search as line_search
from podium.metrics.lists import RankedLists as RankedLists
from podium.metrics.policies import POLICIES as POLICIES
from podium.metrics.policies import Policy as Policy
from podium.metrics.policies import get_policy as get_policy
from podium.metrics.registry import METRICS as METRICS
from podium.metrics.registry import parse_metric as parse_metric
