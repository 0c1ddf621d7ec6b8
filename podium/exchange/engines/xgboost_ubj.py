"""XGBoost's models as UBJSON: the document of `xgboost.py`, in the encoding that XGBoost itself writes by default."""

from __future__ import annotations

import re

from podium.exchange import ubjson
from podium.exchange.claims import Imported, Written
from podium.exchange.engines.xgboost import run as run
from podium.exchange.engines.xgboost import written
from podium.exchange.engines.xgboost_reading import imported
from podium.exchange.forms import Form


def looks_like(head: bytes) -> bool:
    """Whether a file begins as this format does: an object whose first key is `learner` or `version`."""
    return re.match(rb"\{(i|U|I\0|l\0{3}|L\0{7})\x07(learner|version)", head) is not None


def write(form: Form, engine: str | None = None) -> Written:
    return written(form, ubjson.dumps)


def read(content: bytes) -> Imported:
    """The model of a file; a ValueError says what is wrong with it, and where."""
    return imported(ubjson.loads(content), "UBJSON")
