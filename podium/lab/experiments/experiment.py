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
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from podium._runtime.words import counted, did_you_mean
from podium.lab.experiments.datasets import DATASETS, find_dataset, layout_of
from podium.lab.experiments.folds import FoldFiles, Folds, GivenFolds, QueryFolds, rotation
from podium.lab.experiments.results import run_file
from podium.metrics.policies import POLICIES
from podium.metrics.registry import parse_metric

PRESETS = Path(__file__).parent / "presets"
_LONGEST_FILE_NAME = 255  # bytes, of the usual file systems
_LARGEST_SEED = 2**31 - 1  # LightGBM takes no larger one
_MOST_FOLDS = 1000

Item = TypeVar("Item")


def _refuse_empty(values: tuple[Item, ...]) -> tuple[Item, ...]:
    if not values:
        raise ValueError("expected at least one but found none")
    return values


Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0, le=_LARGEST_SEED)]
Seconds = Annotated[float, Field(gt=0)]
Several = Annotated[tuple[Item, ...], Field(strict=False)]  # TOML and JSON have lists
Some = Annotated[Several[Item], AfterValidator(_refuse_empty)]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class Data(_Part):
    """The data: a known data set by name, a folder laid out like one, files, or one file per part."""

    name: str | None = None
    folder: str | None = None
    files: Several[str] = ()
    train: str | None = None
    valid: str | None = None
    test: str | None = None

    @model_validator(mode="after")
    def _refuse_two_sources(self) -> Self:
        sources = [self.name, self.files, self.train or self.valid or self.test, self.folder and not self.name]
        if sum(map(bool, sources)) != 1:
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

    trials: Count = 20
    seconds: Seconds | None = None


class ModelSpec(_Part):
    """One model of an experiment: what the lab does with it, and its settings."""

    kind: str
    about: str = ""
    refit: Literal["train", "train+valid"] = "train"
    early_stopping_rounds: Count | None = None
    space: dict[str, Any] = {}
    by_fold: dict[str, dict[str, Any]] = {}
    trials: Count | None = None
    seconds: Seconds | None = None
    sampler: Literal["auto", "optuna", "random"] = "auto"
    seeds: Some[Seed] | None = None
    metrics: Several[str] = ()
    members: Several[str] = ()  # of a "pick"
    settings: dict[str, Any] = {}

    def to_plain(self) -> dict[str, Any]:
        """As it is written: without defaults, and settings beside the other keys."""
        return self.model_dump(mode="json", exclude_defaults=True, exclude={"settings"}) | self.settings


OPTIONS = tuple(name for name in ModelSpec.model_fields if name not in ("settings", "members"))
"""Keys of a model that are the lab's and not settings of the model."""


class Published(_Part):
    """A table of other people's results, printed beside ours: one value per fold and metric."""

    title: str
    model: str  # ours, of this experiment
    policy: str
    part: Literal["test", "valid"] = "test"  # the part that the values are of
    source: str = ""
    values: dict[str, Several[float]]
    mean: dict[str, float] = {}


class Experiment(_Part):
    """An experiment: data, folds, models, metrics, policies, budget and seeds; checked when it is made.

    >>> Experiment(name="small", data={"files": ["train.txt"]}, models={"LambdaMART": {"max_leaf_nodes": 7}}).seeds
    (0,)
    """

    name: str
    title: str = ""
    data: Data
    folds: FoldRules = FoldRules()
    models: dict[str, ModelSpec]
    metrics: Some[str] = ("ndcg@10", "map")
    policies: Some[str] = ("standard",)
    criterion: str = ""  # what is maximised on validation data; or else the first metric
    baseline: str | None = None
    budget: Budget = Budget()
    seeds: Some[Seed] = (0,)
    on: Literal["test", "valid"] = "test"
    published: Several[Published] = ()

    def __init__(self, /, *, source: str = "", **values: Any) -> None:
        """source: the file it comes from, for messages. `shared` has settings that models take over by `like`."""
        models, shared = values.get("models"), values.pop("shared", {})
        problems = [*_shared_problems(models, shared), *_name_problems(models)] if isinstance(models, Mapping) else []
        if isinstance(models, Mapping) and not problems:
            values["models"] = {name: _split(name, _with_shared(spec, shared)) for name, spec in models.items()}
        try:
            if not problems:
                super().__init__(**values)
                problems = list(self._problems()) or list(_unwritable(self.to_plain(), ""))
        except ValidationError as error:
            problems = list(map(_sentence, error.errors()))
        if problems:
            where = f"{source}: " if source else ""
            raise ValueError("\n".join(f"{where}{problem}" for problem in problems))

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
        return self.model_dump(mode="json", exclude={"models"}) | {
            "models": {name: spec.to_plain() for name, spec in self.models.items()}
        }

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
        for number, table in enumerate(self.published):
            for metric, row in table.values.items():
                if len(row) != len(names):
                    path = f"published[{number}].values.{metric}"
                    problems.append(f"{path}: expected one number per fold, {len(names)}, but found {len(row)}.")
        if problems:
            raise ValueError("\n".join(problems))

    def _problems(self) -> Iterator[str]:
        from podium.lab.experiments.making import problems_of

        if not self.name or set(self.name) & set("/\\\0"):
            yield f"name: expected the name of a folder, without / and \\; got {self.name!r}."
        elif len(f"lab-{self.name}".encode(errors="surrogatepass")) > _LONGEST_FILE_NAME:
            yield f"name: {_too_long(self.name)}"
        if self.data.name is not None:
            yield from _choice_problem("data.name", "data set", self.data.name.lower(), DATASETS)
        for key in ("metrics", "policies", "seeds"):
            yield from _repeated(key, getattr(self, key))
        for name, spec in self.models.items():
            yield from _repeated(f"models.{name}.seeds", spec.seeds or ())
        for number, metric in enumerate(self.metrics):
            yield from _metric_problem(f"metrics[{number}]", metric)
        for part in self.criterion.split("+") if self.criterion else ():
            yield from _metric_problem("criterion", part)
        for number, policy in enumerate(self.policies):
            yield from _choice_problem(f"policies[{number}]", "policy", policy, POLICIES)
        if not self.models:
            yield "models: expected at least one model but found none. Add a table such as [models.LambdaMART]."
        if self.baseline is not None:
            yield from _choice_problem("baseline", "model", self.baseline, self.models)
        for number, table in enumerate(self.published):
            yield from _choice_problem(f"published[{number}].model", "model", table.model, self.models)
            yield from _choice_problem(f"published[{number}].policy", "policy", table.policy, self.policies)
            for key, metric in (*(("values", one) for one in table.values), *(("mean", one) for one in table.mean)):
                known = self.metrics_of(table.model) if table.model in self.models else (metric,)
                yield from _choice_problem(f"published[{number}].{key}", "metric", metric, known)
        for name, spec in self.models.items():
            for number, metric in enumerate(spec.metrics):
                yield from _metric_problem(f"models.{name}.metrics[{number}]", metric)
            yield from problems_of(self, name)


def read_experiment(path: str | os.PathLike[str]) -> tuple[Experiment, Path]:
    """An experiment from a TOML file, or a preset by its name; and the folder that its files are relative to."""
    file = find_file(path)
    text = file.read_bytes()
    try:
        content = tomllib.loads(text.decode())
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ValueError(f"{path}: expected TOML but found {error}. Correct the file.") from None
    return Experiment(source=str(path), **content), file.parent


def find_file(path: str | os.PathLike[str]) -> Path:
    """The file of an experiment: one of the user's, or a preset."""
    file = Path(path)
    if file.is_file():
        return file
    if file.suffix == "" and file.name == os.fspath(path):
        preset = PRESETS / f"{file.name}.toml"
        if preset.is_file():
            return preset
        guess = did_you_mean(file.name, presets())
        raise FileNotFoundError(f"{path}: no such file, and no such preset.{guess} {_listed(presets(), 'Presets')}")
    raise FileNotFoundError(f"{path}: no such file. Write one, or begin with: podium lab show mq2008 > {path}")


def presets() -> list[str]:
    return sorted(file.stem for file in PRESETS.glob("*.toml"))


# --- words ---------------------------------------------------------------------------------------------------------


def _with_shared(spec: Any, shared: Mapping[str, Any]) -> Any:
    """A model with the settings that it takes over; those of the model win."""
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
    for number, value in enumerate(values):
        if value in values[:number]:
            yield f"{path}[{number}]: {value!r} is there twice. Give each once."


def _unwritable(value: Any, path: str) -> Iterator[str]:
    """Where a plain value has something that results, which are JSON, cannot hold."""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _unwritable(str(key), path)
            yield from _unwritable(one, f"{path}.{key}".lstrip("."))
    elif isinstance(value, (list, tuple)):
        for number, one in enumerate(value):
            yield from _unwritable(one, f"{path}[{number}]")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path}: expected a finite number but found {value}."
    elif isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
        yield f"{path or 'experiment'}: expected Unicode but found {value!r}."
    elif not isinstance(value, (str, int, float, bool, type(None))):
        yield f"{path}: expected text, a number, true or false, or a list but found {type(value).__name__}."


def _shared_problems(models: Mapping[str, Any], shared: Any) -> Iterator[str]:
    if not isinstance(shared, Mapping) or not all(isinstance(settings, Mapping) for settings in shared.values()):
        yield "shared: expected tables of settings, such as [shared.nets]."
        return
    for name, spec in models.items():
        if isinstance(spec, Mapping) and "like" in spec:
            yield from _choice_problem(f"models.{name}.like", "table of shared settings", spec["like"], shared)


def _split(name: str, spec: Any) -> Any:
    """Settings of the model apart from the keys of the lab."""
    if not isinstance(spec, Mapping):
        return spec
    options = {key: value for key, value in spec.items() if key in OPTIONS or key == "settings"}
    options.setdefault("kind", name.lower())
    settings = {key: value for key, value in spec.items() if key not in OPTIONS and key != "settings"}
    if str(options["kind"]).lower() == "pick" and "members" in settings:
        options["members"] = settings.pop("members")
    return {**options, "settings": {**options.get("settings", {}), **settings}}


_PARTS: dict[Any, type[BaseModel]] = {"data": Data, "folds": FoldRules, "budget": Budget, "published": Published}


def _sentence(error: Any) -> str:
    """What pydantic reports as `path: what is wrong. Did you mean ...?`"""
    kind, path, value = error["type"], _path(error["loc"]), error["input"]
    message, guess = str(error["msg"]).removeprefix("Value error, ").replace("valid tuple", "list"), ""
    if kind == "extra_forbidden":
        *parts, key = error["loc"]
        known = [*_PARTS[parts[0]].model_fields] if parts else [*Experiment.model_fields, "shared"]
        return f"{path}: unknown key.{did_you_mean(key, known) or ' ' + _listed(known)}"
    if kind == "missing":
        return f"{path}: expected a value but found none. Add it."
    if kind == "value_error":
        return f"{path}: {message}."
    if kind == "literal_error":
        guess = did_you_mean(value, re.findall("'(.*?)'", error["ctx"]["expected"]))
    return f"{path}: {message[0].lower()}{message[1:]}; got {value!r}.{guess}"


def _path(parts: Sequence[str | int]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text.replace(".settings.", ".") or "experiment"


def _metric_problem(path: str, metric: str) -> Iterator[str]:
    try:
        parse_metric(metric)
    except ValueError as error:
        yield f"{path}: {error}"


def _choice_problem(path: str, what: str, name: str, known: Any) -> Iterator[str]:
    if name not in list(known):
        yield f"{path}: unknown {what} {name!r}.{did_you_mean(name, known) or ' ' + _listed(known)}"


def _listed(names: Any, what: str = "Known") -> str:
    return f"{what}: {', '.join(names)}."


# --- folds ---------------------------------------------------------------------------------------------------------


def _folds(data: Data, rules: FoldRules, base: Path, *, test: bool) -> Folds:
    known = DATASETS.get(data.name.lower()) if data.name else None
    has_test = known is None or known.has_test
    if data.name is not None and data.folder is None:
        layout: GivenFolds | None = find_dataset(data.name, test=test).folds
    elif data.folder is not None:
        folder = base / data.folder
        if not folder.is_dir():
            raise FileNotFoundError(f"data.folder: {folder} is no folder.")
        layout = layout_of(folder, "" if known is None else known.prefix, test=test and has_test)
        if layout is None:
            raise ValueError(f"{folder}: expected S1 to S5, Fold1 to Fold5, or train, vali and test, but found none.")
    else:
        layout = None
    if layout is not None:
        if not has_test:
            _refuse_kind(rules.kind, "k-fold", f"the test part of {data.name} has no labels")
        if rules.kind == "k-fold" or not has_test:
            return QueryFolds(layout.files_read(test=has_test), rules.k, rules.seed)
        return GivenFolds(layout.folds, rules.seed)
    if data.train is not None and data.test is not None:
        _refuse_kind(rules.kind, "given", "train and test are files")
        valid = () if data.valid is None else (base / data.valid,)
        return GivenFolds((FoldFiles("1", (base / data.train,), valid, (base / data.test,)),), rules.seed)
    files = tuple(base / file for file in data.files)
    if rules.kind == "rotation":
        return rotation(files, rules.seed)
    _refuse_kind(rules.kind, "k-fold", "files are the whole data")
    return QueryFolds(files, rules.k, rules.seed)


def _refuse_kind(kind: str | None, right: str, why: str) -> None:
    if kind not in (None, right):
        raise ValueError(f"folds.kind: expected {right!r}, because {why}, but found {kind!r}.")
