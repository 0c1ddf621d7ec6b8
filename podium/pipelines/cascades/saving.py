"""A cascade on disk: one folder.

cascade.podium      the stages, weighting and fields: a checked container
stage-1.podium      the model of stage 1, if it has one; stage-1.toml its features; stage-2...
table-1.podium-table    values of queries and documents that features look up
index/              the index as the cascade sees it; its files never change, so they are linked where that works
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from podium._runtime.files import new_folder
from podium.formats.container import open_container, write_container
from podium.formats.errors import FormatError
from podium.formats.kinds import CASCADE, CASCADE_FILE
from podium.models.frame.ranker import Ranker
from podium.persistence.saving import load, save
from podium.pipelines.cascades.cascade import Cascade, Stage
from podium.search.features.behaviour import Table
from podium.search.features.behaviour_files import SUFFIX, write_behaviour
from podium.search.features.declaring import Feature, Features
from podium.search.index.manifest import write_manifest
from podium.search.reading import open_index
from podium.search.retrieval.weightings import WEIGHTINGS, Weighting

if TYPE_CHECKING:
    from podium.search.reading import Index

_INDEX = "index"
_MOST_STAGES = 100


def save_cascade(cascade: Cascade, folder: str | os.PathLike[str]) -> None:
    """Write a new folder, wholly or not at all."""
    folder = Path(folder)
    declarations = []
    tables = _tables(cascade)
    for number, stage in enumerate(cascade.stages, 1):
        try:
            declarations.append(stage.features.to_toml(lambda feature: _table_name(_table_number(tables, feature))))
        except ValueError as error:
            raise ValueError(f"{folder}: stage {number} cannot be saved: {error}") from error
    refuse_bad_folder(folder)
    with new_folder(folder) as part:
        for number, (stage, text) in enumerate(zip(cascade.stages, declarations), 1):
            if stage.model is not None:
                save(stage.model, part / f"stage-{number}.podium")
            (part / f"stage-{number}.toml").write_text(text, encoding="utf-8")
        for number, columns in enumerate(tables):
            write_behaviour(part / _table_name(number), columns)
        (part / _INDEX).mkdir()
        _copy_index(cascade.index, part / _INDEX)
        write_container(part / CASCADE_FILE, CASCADE, _facts(cascade), {})


def _tables(cascade: Cascade) -> list[dict[str, Table]]:
    """The tables to be stored, by the names of their columns: those with the same keys are one file."""
    tables: list[dict[str, Table]] = []
    for feature in (feature for stage in cascade.stages for feature in stage.features.features):
        if feature.table is not None:
            number = _table_number(tables, feature)
            if number == len(tables):
                tables.append({})
            tables[number][feature.settings["column"]] = feature.table
    return tables


def _table_number(tables: list[dict[str, Table]], feature: Feature) -> int:
    """Where a feature's column is or can be stored. Two files may have columns of one name and different values."""
    table, column = feature.table, feature.settings["column"]
    assert table is not None
    for number, columns in enumerate(tables):
        same_keys = next(iter(columns.values())).keys_digest == table.keys_digest
        if same_keys and columns.get(column, table).digests[column] == table.digests[column]:
            return number
    return len(tables)


def _table_name(number: int) -> str:
    return f"table-{number + 1}{SUFFIX}"


def refuse_bad_folder(folder: Path) -> None:
    """A cascade is written to a new folder; others may be reading an old one."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} is there already. Choose a new folder for the cascade, or delete it.")
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"{folder}: the folder {folder.parent} does not exist. Create it first.")


def _copy_index(index: Index, target: Path) -> None:
    for name in index.manifest.files:
        try:
            os.link(index.folder / name, target / name)
        except FileNotFoundError:
            message = f"{index.folder} has changed since it was opened: {name} is gone"
            raise ValueError(f"{message}. Open the index again and make the cascade anew.") from None
        except OSError:  # another disk, or no links there
            shutil.copyfile(index.folder / name, target / name)
    write_manifest(target, index.manifest)


def _facts(cascade: Cascade) -> dict[str, Any]:
    settings = {"variant": cascade.weighting.name, **cascade.weighting.settings}
    stages, fields = [_stage_facts(stage) for stage in cascade.stages], cascade.fields
    if not isinstance(fields, str):
        fields = dict(fields) if isinstance(fields, Mapping) else list(fields)
    return {"stages": stages, "weighting": settings, "fields": fields}


def _stage_facts(stage: Stage) -> dict[str, Any]:
    return {"n": int(stage.n)} | ({} if stage.model is not None else {"model": False})


def load_cascade(folder: str | os.PathLike[str]) -> Cascade:
    """Read a folder that `save` wrote; every file in it is checked."""
    folder = Path(folder)
    with open_container(folder / CASCADE_FILE, CASCADE) as file:
        facts = file.meta
    try:
        weighting, listed = _read_weighting(folder, facts["weighting"]), [dict(item) for item in facts["stages"]]
        if set(facts) != {"stages", "weighting", "fields"} or not 1 <= len(listed) <= _MOST_STAGES:
            raise ValueError("it does not list its stages")
        for item in listed:
            if item != {"n": item["n"]} | ({"model": False} if "model" in item else {}):
                raise ValueError(f"a stage is {item!r:.60}")
        fields: Any = facts["fields"]
        if not isinstance(fields, (str, list, dict)):
            raise ValueError(f"fields are {fields!r:.60}")
    except FormatError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise CASCADE.damaged(folder / CASCADE_FILE, f"its facts are not understood: {error}") from error
    stages = [_read_stage(folder, number, item) for number, item in enumerate(listed, 1)]
    index = open_index(folder / _INDEX)
    try:
        return Cascade(index, stages, weighting=weighting, fields=fields)
    except (TypeError, ValueError) as error:
        raise CASCADE.damaged(folder / CASCADE_FILE, str(error)) from error


def _read_stage(folder: Path, number: int, facts: dict[str, Any]) -> Stage:
    model = None if "model" in facts else load(folder / f"stage-{number}.podium")
    features = Features.read(folder / f"stage-{number}.toml", only_inside=True)
    if model is not None and not isinstance(model, Ranker):
        raise CASCADE.damaged(folder / f"stage-{number}.podium", "it is no model")
    try:
        return Stage(model, replace(features, n=None), facts["n"])  # of another n was warned when it was made
    except ValueError as error:
        raise CASCADE.damaged(folder / f"stage-{number}.toml", str(error)) from error


def _read_weighting(folder: Path, facts: dict[str, Any]) -> Weighting:
    settings = dict(facts)
    name = settings.pop("variant")
    if name not in WEIGHTINGS:
        message = f"its first stage has the weighting {name!r:.60}, which is not registered here"
        raise FormatError(folder / CASCADE_FILE, f"{message}. Import the module that registers it.")
    return WEIGHTINGS[name].make(settings)
