"""Training on the workers of a Dask cluster, from files to a model file.

Parquet and `.podium-data` files are read by the workers, which must see them under the same paths; other files are read
here and sent. Files of validation data are read here, and their queries divided among the workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from podium._runtime.files import plain_suffix
from podium.data.ranking import RankingData
from podium.models.registry import Plan
from podium.persistence.checkpoints import Checkpoints
from podium.workflows.reading import Reading, read_file, read_files, refuse_bad_out
from podium.workflows.training import Training, fit_and_save, judged_by, steps_tried

_CONNECT = "30s"


def train_on_workers(
    plan: Plan,
    sources: Sequence[Path],
    valid_files: Sequence[Path],
    out: Path,
    scheduler: str,
    *,
    reading: Reading,
    early_stopping_rounds: int | None = None,
    checkpoints: Checkpoints | None = None,
) -> Training:
    """As `train_files`, on the workers of the scheduler at this address."""
    refuse_bad_out(out, [*sources, *valid_files], model=True)
    with connected(scheduler) as client:
        data, n_rows = _training_data(sources, reading)
        valid = {str(path): read_file(path, reading) for path in valid_files}
        options: dict[str, Any] = {"early_stopping_rounds": early_stopping_rounds, "client": client}
        seconds, interrupted = fit_and_save(plan, data, valid, out, checkpoint=checkpoints, **options)
    model = plan.model
    tried, evaluations = steps_tried(model), judged_by(model, valid)
    return Training(plan, out, n_rows, model.n_queries_, tried, evaluations, seconds, interrupted)


@contextmanager
def connected(scheduler: str) -> Iterator[Any]:
    """A client of the scheduler."""
    try:
        from distributed import Client
    except ImportError as error:
        raise ImportError('--scheduler needs Dask. Install it with: pip install "podium[dask]"') from error
    try:
        client = Client(scheduler, timeout=_CONNECT, set_as_default=False)
    except (OSError, ValueError) as error:
        advice = "Start one with: dask scheduler, and workers with: dask worker ADDRESS"
        raise ConnectionError(f"no Dask scheduler answers at {scheduler} ({error}). {advice}") from error
    with client:
        yield client


def _training_data(sources: Sequence[Path], reading: Reading) -> tuple[Any, int]:
    """What `fit` is given, and how many rows it has."""
    from podium.distributed.partitions import WORKERS_READ, count_rows

    if not reading.options and all(path.is_dir() or plain_suffix(path) in WORKERS_READ for path in sources):
        return [str(path) for path in sources], count_rows(sources)
    data: RankingData = read_files(sources, reading)
    return data, data.n_rows
