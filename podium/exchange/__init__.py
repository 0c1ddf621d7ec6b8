"""Exchange: models of other programs as ours, ours as theirs, and how equal the scores are. See docs/deploying.md."""

from __future__ import annotations

from typing import TYPE_CHECKING

from podium._runtime.lazy import lazy_names, refuse_calls

if TYPE_CHECKING:
    from podium.exchange.claims import Claim as Claim
    from podium.exchange.claims import Imported as Imported
    from podium.exchange.claims import Report as Report
    from podium.exchange.engines.histgradientboosting import from_sklearn as from_sklearn
    from podium.exchange.exporting import export as export
    from podium.exchange.importing import import_model as import_model
    from podium.exchange.importing import read as read
    from podium.exchange.registry import MODEL_FORMATS as MODEL_FORMATS
    from podium.exchange.verifying import Verification as Verification
    from podium.exchange.verifying import verify as verify

_HOMES = {
    "claims": ["Claim", "Imported", "Report"],
    "engines.histgradientboosting": ["from_sklearn"],
    "exporting": ["export"],
    "importing": ["import_model", "read"],
    "registry": ["MODEL_FORMATS"],
    "verifying": ["Verification", "verify"],
}

__getattr__, __dir__, __all__ = lazy_names(__name__, _HOMES)
refuse_calls(__name__)
