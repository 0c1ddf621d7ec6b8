"""Rankings judged and compared: evaluate, compare, significance."""

from podium.evaluation.comparing import compare as compare
from podium.evaluation.comparing import compare_evaluations as compare_evaluations
from podium.evaluation.comparing import compare_values as compare_values
from podium.evaluation.comparison import Comparison as Comparison
from podium.evaluation.evaluating import Evaluation as Evaluation
from podium.evaluation.evaluating import evaluate as evaluate
from podium.evaluation.evaluating import evaluate_run as evaluate_run
