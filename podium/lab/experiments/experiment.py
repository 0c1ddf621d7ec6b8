"""Experiments as data: what is to be run on what, read from TOML or written in Python with the same words.

    name = "small"
    metrics = ["ndcg@10", "map"]
    [data]
    files = ["train.txt"]
    [models.LambdaMART]
    learning_rate = 0.1
    [models.LambdaMART.space]
    max_leaf_nodes = [4, 7, 15]

Everything is checked before anything runs: a wrong key or value is named with its path and the nearest right one.
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from podium._runtime.words import counted, did_you_mean
from podium.lab.experiments.datasets import DATASETS, find_dataset, layout_of
from podium.lab.experiments.folds import KINDS, FoldFiles, Folds, GivenFolds, QueryFolds, rotation
from podium.lab.experiments.results import run_file
from podium.metrics.policies import POLICIES
from podium.metrics.registry import parse_metric

PRESETS = Path(__file__).parent / "presets"
_LONGEST_FILE_NAME = 255  # bytes, of the usual file systems
_LARGEST_SEED = 2**31 - 1  # LightGBM takes no larger one
_MOST_FOLDS = 1000

Seed = Annotated[int, Field(ge=0, le=_LARGEST_SEED)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Data(_Part):
    """The data: a known data set by name, a folder laid out like one, files, or one file per part."""

    name: str | None = None
    folder: str | None = None
    files: tuple[str, ...] = Field(default=(), strict=False)
    train: str | None = None
    valid: str | None = None
    test: str | None = None

    @field_validator("name")
    @classmethod
    def _known(cls, name: str | None) -> str | None:
        if name is not None and name.lower() not in DATASETS:
            raise ValueError(f"unknown data set {name!r}.{did_you_mean(name.lower(), DATASETS)} {_listed(DATASETS)}")
        return name

    @model_validator(mode="after")
    def _one_of(self) -> Self:
        given = [bool(self.name), bool(self.files), bool(self.train or self.valid or self.test)]
        given.append(bool(self.folder) and not self.name)
        if sum(given) != 1:
            raise ValueError("give one of: name (perhaps with folder), folder, files, or train and test with valid")
        if (self.train is None) != (self.test is None) or (self.valid is not None and self.train is None):
            raise ValueError("give train and test, and valid where there is one")
        return self


class FoldRules(_Part):
    """How the data is divided."""

    kind: Literal["rotation", "k-fold", "given"] | None = None
    k: int = Field(default=5, ge=3, le=_MOST_FOLDS)
    seed: Seed = 0


class Budget(_Part):
    """How much tuning may cost, per model and fold."""

    trials: int = Field(default=20, ge=1)
    seconds: float | None = Field(default=None, gt=0, strict=False)


class ModelSpec(_Part):
    """One model of an experiment: what the lab does with it, and its settings."""

    kind: str
    about: str = ""
    refit: Literal["train", "train+valid"] = "train"
    early_stopping_rounds: int | None = Field(default=None, ge=1)
    space: dict[str, Any] = Field(default_factory=dict)
    by_fold: dict[str, dict[str, Any]] = Field(default_factory=dict)
    trials: int | None = Field(default=None, ge=1)
    seconds: float | None = Field(default=None, gt=0, strict=False)
    sampler: Literal["auto", "optuna", "random"] = "auto"
    seeds: tuple[Seed, ...] | None = Field(default=None, strict=False, min_length=1)
    metrics: tuple[str, ...] = Field(default=(), strict=False)
    members: tuple[str, ...] = Field(default=(), strict=False)  # of a "pick"
    settings: dict[str, Any] = Field(default_factory=dict)

    def to_plain(self) -> dict[str, Any]:
        """As it is written: settings beside the other keys."""
        own = self.model_dump(mode="json", exclude_defaults=True, exclude={"settings"})
        return own | self.settings


OPTIONS = tuple(name for name in ModelSpec.model_fields if name not in ("settings", "members"))
"""Keys of a model that are the lab's and not settings of the model."""


class Published(_Part):
    """A table of other people's results, printed beside ours: one value per fold and metric."""

    title: str
    model: str  # ours, of this experiment
    policy: str
    part: Literal["test", "valid"] = "test"  # the part that the values are of
    source: str = ""
    values: dict[str, Annotated[tuple[float, ...], Field(strict=False)]]
    mean: dict[str, float] = Field(default_factory=dict)


class Experiment(_Part):
    """An experiment: data, folds, models, metrics, policies, budget and seeds; checked when it is made.

    >>> Experiment(name="small", data={"files": ["train.txt"]}, models={"LambdaMART": {"max_leaf_nodes": 7}}).seeds
    (0,)
    """

    name: str = Field(pattern=r"^[^/\\\x00]+$")
    title: str = ""
    data: Data
    folds: FoldRules = FoldRules()
    models: dict[str, ModelSpec]
    metrics: tuple[str, ...] = Field(default=("ndcg@10", "map"), strict=False, min_length=1)
    policies: tuple[str, ...] = Field(default=("standard",), strict=False, min_length=1)
    criterion: str = ""  # what is maximised on validation data; the first metric unless given
    baseline: str | None = None
    budget: Budget = Budget()
    seeds: tuple[Seed, ...] = Field(default=(0,), strict=False, min_length=1)
    on: Literal["test", "valid"] = "test"
    published: tuple[Published, ...] = Field(default=(), strict=False)

    def __init__(self, /, *, source: str = "", **given: Any) -> None:
        """source: the file it comes from, for messages. `shared` has settings that models take over by `like`."""
        models, shared = given.get("models"), given.pop("shared", {})
        where = f"{source}: " if source else ""
        if isinstance(models, Mapping):
            problems = [*_shared_problems(models, shared), *_name_problems(models)]
            if problems:
                raise ValueError("\n".join(f"{where}{problem}" for problem in problems))
            given["models"] = {name: _split(name, _with_shared(spec, shared)) for name, spec in models.items()}
        try:
            super().__init__(**given)
            problems = list(self._problems()) or list(_unwritable(self.to_plain(), ""))
        except ValidationError as error:
            problems = [_sentence(found) for found in _causes(error.errors())]
        if problems:
            raise ValueError("\n".join(f"{where}{problem}" for problem in problems)) from None

    @property
    def judged_by(self) -> str:
        """What settings are chosen by."""
        return self.criterion or self.metrics[0]

    def seeds_of(self, name: str) -> tuple[int, ...]:
        """Seeds that a model is trained with; one alone where nothing is random."""
        from podium.lab.experiments.making import uses_seed

        spec = self.models[name]
        if spec.seeds is not None:
            return spec.seeds
        return self.seeds if uses_seed(self, name) else self.seeds[:1]

    def metrics_of(self, name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.metrics, *self.models[name].metrics)))

    def to_plain(self) -> dict[str, Any]:
        """As it would be written in TOML or JSON; reading it back gives an equal experiment."""
        found = self.model_dump(mode="json", exclude={"models"})
        return found | {"models": {name: spec.to_plain() for name, spec in self.models.items()}}

    def changed(self, **values: Any) -> Experiment:
        """The same experiment with other values, checked again."""
        return Experiment(**(self.to_plain() | values))

    def folds_in(self, base: str | os.PathLike[str] = ".") -> Folds:
        """The folds; files are relative to `base`, the folder of the experiment's file.

        On validation parts, files of test parts may be missing, unless folds are made of the queries of all files.
        """
        return _folds(self.data, self.folds, Path(base), test=self.on == "test" or self.folds.kind == "k-fold")

    def refuse_other_folds(self, names: Sequence[str]) -> None:
        """Refuse settings of folds that the data does not have, and published rows of another length."""
        problems = [
            f"models.{name}.by_fold: unknown fold {fold!r}. {_listed(names)}"
            for name, spec in self.models.items()
            for fold in spec.by_fold
            if fold not in names
        ]
        for place, table in enumerate(self.published):
            for metric, row in table.values.items():
                if len(row) != len(names):
                    path = f"published[{place}].values.{metric}"
                    problems.append(f"{path}: expected one number per fold, {len(names)}, but found {len(row)}.")
        if problems:
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        from podium.lab.experiments.making import problems_of

        if len(f"lab-{self.name}".encode()) > _LONGEST_FILE_NAME:
            yield f"name: {_too_long(self.name)}"
        for key in ("metrics", "policies", "seeds"):
            yield from _repeated(key, getattr(self, key))
        for name, spec in self.models.items():
            yield from _repeated(f"models.{name}.seeds", spec.seeds or ())
        for place, metric in enumerate(self.metrics):
            yield from _metric_problem(f"metrics[{place}]", metric)
        for part in self.criterion.split("+") if self.criterion else ():
            yield from _metric_problem("criterion", part)
        for place, policy in enumerate(self.policies):
            yield from _choice_problem(f"policies[{place}]", "policy", policy, POLICIES)
        if not self.models:
            yield "models: expected at least one model but found none. Add a table such as [models.LambdaMART]."
        if self.baseline is not None:
            yield from _choice_problem("baseline", "model", self.baseline, self.models)
        for place, table in enumerate(self.published):
            yield from _choice_problem(f"published[{place}].model", "model", table.model, self.models)
            yield from _choice_problem(f"published[{place}].policy", "policy", table.policy, self.policies)
            for key, metric in (*(("values", one) for one in table.values), *(("mean", one) for one in table.mean)):
                known = self.metrics_of(table.model) if table.model in self.models else (metric,)
                yield from _choice_problem(f"published[{place}].{key}", "metric", metric, known)
        for name, spec in self.models.items():
            for place, metric in enumerate(spec.metrics):
                yield from _metric_problem(f"models.{name}.metrics[{place}]", metric)
            yield from problems_of(self, name)


def read_experiment(path: str | os.PathLike[str]) -> tuple[Experiment, Path]:
    """An experiment from a TOML file, or a preset by its name; and the folder that its files are relative to."""
    file = find_file(path)
    text = file.read_bytes()
    try:
        given = tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: expected TOML but found {error}. Correct the file.") from None
    return Experiment(source=str(path), **given), file.parent


def find_file(path: str | os.PathLike[str]) -> Path:
    """The file of an experiment: one of the user's, or a preset."""
    found = Path(path)
    if found.is_file():
        return found
    if found.suffix == "" and found.name == os.fspath(path):
        preset = PRESETS / f"{found.name}.toml"
        if preset.is_file():
            return preset
        guess = did_you_mean(found.name, presets())
        raise FileNotFoundError(f"{path}: no such file, and no such preset.{guess} {_listed(presets(), 'Presets')}")
    raise FileNotFoundError(f"{path}: no such file. Write one, or begin with: podium lab show mq2008 > {path}")


def presets() -> list[str]:
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


# --- words ---------------------------------------------------------------------------------------------------------


def _with_shared(spec: Any, shared: Mapping[str, Any]) -> Any:
    """A model with the settings that it takes over; its own ones win."""
    if not isinstance(spec, Mapping) or "like" not in spec:
        return spec
    return {**shared[spec["like"]], **{key: value for key, value in spec.items() if key != "like"}}


def _name_problems(models: Mapping[Any, Any]) -> Iterator[str]:
    """Names of models that are no text, or that no file of a run can have."""
    for name, spec in models.items():
        if not isinstance(name, str) or not name:
            yield f"models: expected text as the name of a model but found {name!r}."
        elif len(run_file(Path(), name, str(_MOST_FOLDS), _LARGEST_SEED).name) > _LONGEST_FILE_NAME:
            yield f"models.{name[:20]}...: {_too_long(name)}"
        elif isinstance(spec, Mapping) and not isinstance(spec.get("settings", {}), Mapping):
            yield f"models.{name}.settings: expected a table of settings but found {spec['settings']!r}."


def _too_long(name: str) -> str:
    return f"a name of {counted(len(name), 'letter')} is too long for the name of a file. Choose a shorter one."


def _repeated(path: str, values: Sequence[Any]) -> Iterator[str]:
    for place, value in enumerate(values):
        if value in values[:place]:
            yield f"{path}[{place}]: {value!r} is there twice. Give each once."


def _unwritable(value: Any, path: str) -> Iterator[str]:
    """Where a plain value has something that results, which are JSON, cannot hold."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _unwritable(str(key), path)
            yield from _unwritable(one, f"{path}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for place, one in enumerate(value):
            yield from _unwritable(one, f"{path}[{place}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path}: expected a finite number but found {value}."
    elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        yield f"{path or 'experiment'}: expected Unicode but found {value!r}."
    elif not isinstance(value, (str, int, float, bool, type(None))):
        yield f"{path}: expected text, a number, true or false, or a list but found {type(value).__name__}."


def _shared_problems(models: Mapping[str, Any], shared: Any) -> Iterator[str]:
    if not isinstance(shared, Mapping) or not all(isinstance(own, Mapping) for own in shared.values()):
        yield "shared: expected tables of settings, such as [shared.nets]."
        return
    for name, spec in models.items():
        if isinstance(spec, Mapping) and "like" in spec:
            yield from _choice_problem(f"models.{name}.like", "table of shared settings", spec["like"], shared)


def _split(name: str, spec: Any) -> Any:
    """Settings of the model apart from the keys of the lab."""
    if not isinstance(spec, Mapping):
        return spec
    own = {key: value for key, value in spec.items() if key in OPTIONS or key == "settings"}
    own.setdefault("kind", name.lower())
    settings = {key: value for key, value in spec.items() if key not in OPTIONS and key != "settings"}
    if str(own["kind"]).lower() == "pick" and "members" in settings:
        own["members"] = settings.pop("members")
    return {**own, "settings": {**own.get("settings", {}), **settings}}


def _causes(errors: Sequence[Any]) -> Iterator[Any]:
    """Without lists that are too short only because their items were refused, each of which has an error."""
    places = [error["loc"] for error in errors]
    for error in errors:
        inner = any(place[: len(error["loc"])] == error["loc"] and place != error["loc"] for place in places)
        if error["type"] != "too_short" or not inner:
            yield error


_PARTS: dict[str, type[BaseModel]] = {"data": Data, "folds": FoldRules, "budget": Budget, "published": Published}


def _sentence(error: Any) -> str:
    """pydantic's finding as `path: what is wrong. Did you mean ...?`"""
    place, kind = list(error["loc"]), error["type"]
    path = _path(place)
    if kind == "extra_forbidden":
        owner = _PARTS.get(str(place[0])) if len(place) > 1 else Experiment
        known = [*(owner or ModelSpec).model_fields, *(["shared"] if owner is Experiment else [])]
        return f"{path}: unknown key.{did_you_mean(place[-1], known) or ' ' + _listed(known)}"
    if kind == "missing":
        return f"{path}: expected a value but found none. Add it."
    if kind == "too_short":
        return f"{path}: expected at least one but found none."
    message = str(error["msg"]).removeprefix("Value error, ").replace("valid tuple", "list")
    guess = ""
    if kind == "literal_error":
        guess = did_you_mean(error["input"], [word.strip("' ") for word in error["ctx"]["expected"].split(" or ")])
        guess = guess or did_you_mean(error["input"], KINDS)
    if kind == "value_error":
        return f"{path}: {message}{'' if message.endswith(('.', '?')) else '.'}"
    return f"{path}: {message[0].lower()}{message[1:]}; got {error['input']!r}.{guess}"


def _path(place: list[Any]) -> str:
    text = ""
    for part in place:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text.replace(".settings.", ".") or "experiment"


def _metric_problem(path: str, metric: str) -> Iterator[str]:
    try:
        parse_metric(metric)
    except ValueError as error:
        yield f"{path}: {error}"


def _choice_problem(path: str, what: str, given: str, known: Any) -> Iterator[str]:
    if given not in list(known):
        yield f"{path}: unknown {what} {given!r}.{did_you_mean(given, known) or ' ' + _listed(known)}"


def _listed(names: Any, what: str = "Known") -> str:
    return f"{what}: {', '.join(names)}."


# --- folds ---------------------------------------------------------------------------------------------------------


def _folds(data: Data, rules: FoldRules, base: Path, *, test: bool) -> Folds:
    if data.name is not None and data.folder is None:
        found: GivenFolds | None = find_dataset(data.name, test=test).folds
    elif data.folder is not None:
        folder = base / data.folder
        if not folder.is_dir():
            raise FileNotFoundError(f"data.folder: {folder} is no folder.")
        found = layout_of(folder, DATASETS[data.name.lower()].prefix if data.name else "", test=test)
        if found is None:
            raise ValueError(f"{folder}: expected S1 to S5, Fold1 to Fold5, or train, vali and test, but found none.")
    else:
        found = None
    if found is not None:
        if rules.kind == "k-fold":
            return QueryFolds(found.files, rules.k, rules.seed)
        return GivenFolds(found.folds, rules.seed)
    if data.train is not None and data.test is not None:
        _refuse_kind(rules.kind, "given", "train and test are files")
        valid = () if data.valid is None else (base / data.valid,)
        return GivenFolds((FoldFiles("1", (base / data.train,), valid, (base / data.test,)),), rules.seed)
    files = tuple(base / file for file in data.files)
    if rules.kind == "rotation":
        return rotation(files, rules.seed)
    _refuse_kind(rules.kind, "k-fold", "files are the whole data")
    return QueryFolds(files, rules.k, rules.seed)


def _refuse_kind(given: str | None, right: str, why: str) -> None:
    if given not in (None, right):
        raise ValueError(f"folds.kind: expected {right!r}, because {why}, but found {given!r}.")
