"""Sending: how a model travels to other processes, and how it is loaded there, once per process.

A model file travels as its path and its digest: every process reads the file and refuses it if its bytes are others. A
model in memory travels as the bytes of its file. Neither is pickled, so that a process of another Python version or an
older Podium answers with a sentence, not with a wrong model.
"""

from __future__ import annotations

import hashlib
import io
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from podium._runtime.once import once
from podium.models.frame.estimator import check_fitted
from podium.models.frame.ranker import Ranker
from podium.persistence.saving import load

_MOST_MODELS = 8  # per process; a worker lives long


@dataclass(frozen=True)
class SentModel:
    """A model on its way: the sha256 of its file, and the path of the file or its bytes."""

    digest: str
    path: str | None = None
    content: bytes | None = field(default=None, repr=False)

    @classmethod
    def of(cls, model: Any) -> SentModel:
        """A fitted model, or the path of a model file that every process can read."""
        if isinstance(model, Ranker):
            check_fitted(model)
            content = _bytes_of(model)
            return cls(_digest(content), content=content)
        if not isinstance(model, (str, os.PathLike)):
            raise TypeError(f"expected a fitted model, or the path of a model file; got {type(model).__name__}.")
        path = Path(os.path.abspath(model))
        return cls(_digest(_read(path)), path=str(path))

    def load(self) -> Ranker:
        """The model, loaded by the first caller in this process. It scores on the caller's thread."""
        loading = _loadings.get(self.digest) or _loadings.setdefault(self.digest, _Loading(self))
        try:
            model = loading.model
        except BaseException:
            _loadings.pop(self.digest, None)  # the next one may know another path
            raise
        for digest in list(_loadings)[:-_MOST_MODELS]:
            _loadings.pop(digest, None)
        return model

    def read(self) -> bytes:
        """The bytes of the model file, which are those that the sender had."""
        if self.path is None:
            return self.content or b""
        content = _read(Path(self.path))
        if _digest(content) != self.digest:
            state = f"its sha256 begins with {_digest(content)[:12]}, that of the file that was sent with "
            raise ValueError(
                f"{self.path} is not the model file that was sent: {state}{self.digest[:12]}. Give each version of a "
                "model a path of its own, or send the loaded model, which travels as bytes."
            )
        return content


class _Loading:
    """A model that is read when it is first needed, by one thread."""

    def __init__(self, sent: SentModel) -> None:
        self._sent = sent

    @once
    def model(self) -> Ranker:
        model = load(io.BytesIO(self._sent.read()))
        _score_on_one_thread(model)
        return model  # type: ignore[no-any-return]


_loadings: dict[str, _Loading] = {}


def _score_on_one_thread(model: Ranker) -> None:
    """Dask and Spark start a task per core; threads beside them would only take turns. No bit depends on it."""
    model.n_jobs = 1
    for part in (model.init_, *model.fitted_state().parts.values()):
        if isinstance(part, Ranker):
            _score_on_one_thread(part)


def _bytes_of(model: Ranker) -> bytes:
    stream = io.BytesIO()
    model.save(stream, score_only=True)
    return stream.getvalue()


def _read(path: Path) -> bytes:
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; expected the file of a model.")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        advice = "Every process must see the file under this path; a loaded model travels as bytes instead."
        raise FileNotFoundError(f"{path}: there is no such model file. {advice}") from None


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
