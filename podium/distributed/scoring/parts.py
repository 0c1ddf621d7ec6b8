"""Collections: Dask's DataFrames, Series and arrays as what the rest here works on, one delayed part per partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from podium.data.query_ids import as_query_ids
from podium.distributed.scoring.queries import distinct_queries


def require_dask() -> None:
    """Import Dask, or say how to get it."""
    try:
        import dask.array
        import dask.dataframe  # noqa: F401
    except ImportError as error:
        raise ImportError('Dask is not installed. Install it with: pip install "podium[dask]"') from error


def is_frame(X: Any) -> bool:
    import dask.dataframe

    return isinstance(X, dask.dataframe.DataFrame)


def is_array(X: Any) -> bool:
    import dask.array

    return isinstance(X, dask.array.Array)


def refuse_others(X: Any, name: str) -> None:
    """Refuse what is no collection of Dask."""
    import dask.dataframe

    if not is_array(X) and not isinstance(X, (dask.dataframe.DataFrame, dask.dataframe.Series)):
        advice = "What is in memory needs no Dask: model.predict and podium.evaluate take it."
        raise TypeError(f"{name} must be a Dask collection; got {type(X).__name__}. {advice}")


def delayed_parts(values: Any) -> list[Any]:
    """One delayed part per partition."""
    parts: list[Any] = list(values.to_delayed().ravel()) if is_array(values) else list(values.to_delayed())
    return parts


def same_partitions(parts: Mapping[str, Sequence[Any]]) -> None:
    """Refuse collections of different numbers of partitions; their lengths are compared where they are computed."""
    numbers = {name: len(one) for name, one in parts.items()}
    if len(set(numbers.values())) > 1:
        listed = ", ".join(f"{name} has {number:,}" for name, number in numbers.items())
        raise ValueError(f"the collections must have the same partitions; {listed}. Take them from one DataFrame.")


def distinct_per_part(ids: Sequence[Any]) -> list[list[Any]]:
    """The query ids of each partition, in order of first appearance, computed now."""
    import dask

    return list(dask.compute(*[dask.delayed(_distinct)(part) for part in ids]))


def _distinct(ids: Any) -> list[Any]:
    return distinct_queries(as_query_ids(ids, None, len(ids)))
