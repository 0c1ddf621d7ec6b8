"""Explain: what a model has learned, and why it ranks as it does.

`shap_values(model, X)` decomposes scores, `why(model, X, i, j)` what ranks one document above another: for trees and
linear models. `importance(model)` counts the splits of trees. For any model, `partial_dependence(model, X, feature)`
varies one feature, `permutation_importance(model, data)` shuffles each and `ablation(model, train, test)` trains again
without each. `lambdas(scores, labels)` lists what the pairs of a query do in training, `cutoff_curves` has a metric
over its cutoffs. Results have `plot(ax=None)` and `picture(path)`; `draw_tree`, `draw_curves`, `draw_differences`,
`draw_line_search` and `draw_tuning` draw models, comparisons and searches.
"""

from podium._runtime.lazy import refuse_calls
from podium.explain.ablation import ablation as ablation
from podium.explain.attributions import Attributions as Attributions
from podium.explain.attributions import ShapSummary as ShapSummary
from podium.explain.attributions import shap_summary as shap_summary
from podium.explain.attributions import shap_values as shap_values
from podium.explain.cutoffs import CutoffCurves as CutoffCurves
from podium.explain.cutoffs import cutoff_curves as cutoff_curves
from podium.explain.dependence import Dependence as Dependence
from podium.explain.dependence import partial_dependence as partial_dependence
from podium.explain.drawings import draw_curves as draw_curves
from podium.explain.drawings import draw_differences as draw_differences
from podium.explain.drawings import draw_line_search as draw_line_search
from podium.explain.drawings import draw_tree as draw_tree
from podium.explain.drawings import draw_tuning as draw_tuning
from podium.explain.drops import ImportanceDrop as ImportanceDrop
from podium.explain.drops import ImportanceDrops as ImportanceDrops
from podium.explain.importances import Importance as Importance
from podium.explain.importances import importance as importance
from podium.explain.lambdas import Lambdas as Lambdas
from podium.explain.lambdas import lambdas as lambdas
from podium.explain.permutation import PermutationImportance as PermutationImportance
from podium.explain.permutation import permutation_importance as permutation_importance
from podium.explain.reasons import Reason as Reason
from podium.explain.reasons import Why as Why
from podium.explain.reasons import why as why
from podium.models.frame.inspection import Inspection as Inspection
from podium.models.frame.inspection import inspect as inspect

refuse_calls(__name__)
