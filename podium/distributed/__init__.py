"""More than one machine: training, scoring and evaluation on Dask, and scoring of Arrow record batches anywhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podium._runtime.lazy import lazy_names

if TYPE_CHECKING:
    from podium.distributed.scoring.arrow import arrow_scorer as arrow_scorer
    from podium.distributed.scoring.evaluating import compare as compare
    from podium.distributed.scoring.evaluating import evaluate as evaluate
    from podium.distributed.scoring.predicting import predict as predict

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "scoring.arrow": ("arrow_scorer",),
        "scoring.evaluating": ("compare", "evaluate"),
        "scoring.predicting": ("predict",),
    },
)
