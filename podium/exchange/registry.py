"""The formats of models: one row each. A format is a module of `engines/`, imported when it is asked for.

A module has, as far as its row says so:

    looks_like(head) -> bool                whether a file begins as the format does
    write(form, engine=None) -> Written     engine: the version of the program that is to read the file
    read(content) -> Imported
    run(path, X) -> (scores, words)         scores by the program itself; called in a process of its own
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from types import ModuleType

from podium._runtime.words import check_choice


@dataclass(frozen=True)
class ModelFormat:
    """A format of models, and what can be done with it."""

    name: str
    about: str  # as in "LightGBM's text"
    module: str  # of `engines/`
    writes: bool = True
    reads: bool = True
    runtime: str = ""  # the Python package or the program that `verify` asks for scores; "": none can be asked here
    engines: str = ""  # what `engine` may be, for help

    def load(self) -> ModuleType:
        return import_module(f"podium.exchange.engines.{self.module}")


_ROWS = (
    ModelFormat("lightgbm", "LightGBM's text", "lightgbm", runtime="lightgbm"),
    ModelFormat("xgboost", "XGBoost's JSON", "xgboost", runtime="xgboost"),
    ModelFormat("xgboost-ubj", "XGBoost's UBJSON", "xgboost_ubj", runtime="xgboost"),
    ModelFormat("onnx", "ONNX", "onnx", reads=False, runtime="onnxruntime", engines="the version of onnxruntime"),
    ModelFormat("catboost", "CatBoost's JSON", "catboost", writes=False),
    ModelFormat("c", "C99", "c_source", reads=False, runtime="the C compiler"),
    ModelFormat("svmlight", "SVMlight's text", "svmlight"),
    ModelFormat("ranklib", "RankLib's text", "ranklib"),
    ModelFormat("ltr", "the LTR plugin's JSON", "ltr", reads=False, engines="elasticsearch, opensearch-3.1"),
    ModelFormat("solr", "Solr's LTR JSON", "solr", reads=False),
)
MODEL_FORMATS: Mapping[str, ModelFormat] = {row.name: row for row in _ROWS}


def find_format(name: str, *, writes: bool = False, reads: bool = False) -> ModelFormat:
    """The format of this name that can be written or read."""
    able = [row.name for row in _ROWS if (row.writes or not writes) and (row.reads or not reads)]
    check_choice("model format", name, able)
    return MODEL_FORMATS[name]
