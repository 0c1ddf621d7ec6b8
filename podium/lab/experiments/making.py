"""Making models: from the words of an experiment to rankers, with references from one model to another.

`"@Linear"` stands for the model that the experiment calls Linear, with the settings chosen for it in the same fold:
as a member of a blend, or as the `init` of a model that starts from the scores of another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from podium._runtime.words import did_you_mean
from podium.lab.experiments.baselines import BASELINES, is_installed
from podium.lab.tuning.spaces import parse_space
from podium.models.frame.init_model import refuse_fitted_inits, refuse_given_scores
from podium.models.frame.nested import MODEL, MODELS, read_model, read_models
from podium.models.frame.parameters import INTEGER, NAMES, NUMBER, SWITCH, Declaration
from podium.models.frame.ranker import Ranker
from podium.models.registry import ModelEntry, catalogue

if TYPE_CHECKING:
    from podium.lab.experiments.experiment import Experiment, ModelSpec

PICK = "pick"
_DECIDED = {"random_state": "the seeds of the experiment are used", "n_jobs": "podium lab run --jobs decides"}
_MEMBERS_APART = 10_000  # between the seeds of two runs, so that bags of consecutive seeds share none
Chosen = Mapping[str, Mapping[str, Any]]
"""Settings that tuning chose, by model."""


def make(experiment: Experiment, name: str, fold: str, chosen: Chosen, seed: int = 0, n_jobs: int | None = 1) -> Ranker:
    """The model of an experiment, unfitted, as are the models inside it; `fit` trains the one that it starts from."""
    return with_seed(_unseeded(experiment, name, fold, chosen), seed, n_jobs)


def _unseeded(experiment: Experiment, name: str, fold: str, chosen: Chosen) -> Ranker:
    spec, entry = experiment.models[name], entry_of(experiment.models[name].kind)

    def look_up(reference: str, parameter: str) -> Ranker:
        return _unseeded(experiment, reference, fold, chosen)

    settings = spec.settings | spec.by_fold.get(fold, {})
    values = {key: read_value(entry, key, value, look_up) for key, value in settings.items()}
    model = entry.kind(**values)
    tuned = {key: _nested_value(entry, key, value, look_up) for key, value in chosen.get(name, {}).items()}
    return model.set_params(**tuned) if tuned else model


def _nested_value(entry: ModelEntry, key: str, value: Any, look_up: Callable[[str, str], Ranker]) -> Any:
    """What tuning chose; JSON has lists where parameters are tuples."""
    if key in entry.parameters:
        return read_value(entry, key, value, look_up)
    return tuple(value) if isinstance(value, list) else value


def with_seed(model: Ranker, seed: int, n_jobs: int | None = 1) -> Ranker:
    """Give a model, and the models inside it, their seed and number of threads; a base model has the same seed."""
    decided = {"random_state": seed, "n_jobs": n_jobs}
    names = model.get_params(deep=False)
    model.set_params(**{key: value for key, value in decided.items() if key in names})
    for name, value in names.items():
        for inner in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(inner, Ranker):
                with_seed(inner, seed if name == "init" else seed * _MEMBERS_APART % 2**63, n_jobs)
    return model


def known_kinds() -> dict[str, ModelEntry]:
    """Models of the registry, those of plugins too, and baselines."""
    return {entry.name: entry for entry in catalogue()} | BASELINES


def entry_of(kind: str) -> ModelEntry:
    return known_kinds()[kind.lower()]


def uses_seed(experiment: Experiment, name: str) -> bool:
    """Whether a seed can change the model, or one that it is made of."""
    spec = experiment.models[name]
    if spec.kind.lower() == PICK:
        return any(uses_seed(experiment, member) for member in spec.members)
    return _draws(_unseeded(experiment, name, "", {}))


def _draws(model: Ranker) -> bool:
    values = model.get_params(deep=False)
    inner = [one for value in values.values() for one in (value if isinstance(value, (list, tuple)) else [value])]
    return "random_state" in values or any(_draws(one) for one in inner if isinstance(one, Ranker))


def needed_by(experiment: Experiment, name: str) -> list[str]:
    """Models of the experiment that this one refers to, directly or through others."""
    spec = experiment.models[name]
    direct = list(spec.members) if spec.kind.lower() == PICK else list(_references(spec.settings))
    needed: dict[str, None] = {}
    for other in direct:
        if other in experiment.models and other != name:
            needed |= dict.fromkeys([*needed_by(experiment, other), other])
    return list(needed)


def members_of(experiment: Experiment, name: str) -> list[str]:
    """The models that a pick picks from, as far as they can be trained here; of other models none."""
    spec = experiment.models[name]
    if spec.kind.lower() != PICK:
        return []
    return [member for member in spec.members if reason_to_leave_out(experiment, member) is None]


def _references(settings: Mapping[str, Any]) -> Iterator[str]:
    for value in settings.values():
        for text in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(text, str) and text.startswith("@"):
                yield text[1:]


def reason_to_leave_out(experiment: Experiment, name: str) -> str | None:
    """Why a model cannot be trained here, because what it needs is not installed."""
    spec = experiment.models[name]
    kind = spec.kind.lower()
    if kind in BASELINES and not is_installed(kind):
        return f"{kind} is not installed. Install it with: pip install {kind}"
    kinds, texts = known_kinds(), [kind, *(str(value) for value in spec.settings.values())]
    for inner in (text.partition("(")[0].strip().lower() for text in texts):
        if inner in kinds and kinds[inner].missing_extra:
            return kinds[inner].missing_extra
    if kind == PICK:
        reasons = [reason_to_leave_out(experiment, member) for member in spec.members]
        return None if None in reasons else f"no member can be trained: {reasons[0]}"
    for other in needed_by(experiment, name):
        reason = reason_to_leave_out(experiment, other)
        if reason is not None:
            return f"it needs {other}: {reason}"
    return None


# --- checks --------------------------------------------------------------------------------------------------------


def _unknown(key: str, entry: ModelEntry, known: Iterable[str]) -> str:
    """The nearest parameter, or where all of them are listed; those of baselines are in their documentation."""
    where = "" if entry.name in BASELINES else f" podium models {entry.name} lists them."
    return f"unknown parameter.{did_you_mean(key, known) or where}"


def problems_of(experiment: Experiment, name: str) -> Iterator[str]:
    """What is wrong with a model of an experiment, as `path: sentence`."""
    spec, path = experiment.models[name], f"models.{name}"
    kind = spec.kind.lower()
    kinds = known_kinds()
    if kind != PICK and kind not in kinds:
        known = [*(entry.class_name for entry in kinds.values()), PICK]
        guess = did_you_mean(spec.kind, [*known, *kinds])
        yield f"{path}.kind: unknown model {spec.kind!r}.{guess or ' Known: ' + ', '.join(known) + '.'}"
        return
    others = list(spec.members) if kind == PICK else list(_references(spec.settings))
    for other in others:
        if other not in experiment.models or other == name:
            guess = did_you_mean(other, [known for known in experiment.models if known != name])
            yield f"{path}: {other!r} is no other model of this experiment.{guess}"
            return
    cycle = _cycle(experiment, name)
    if cycle:
        yield f"{path}: {' -> '.join(cycle)} refer to each other in a circle; a model cannot be made of itself."
        return
    if kind == PICK:
        if not spec.members:
            yield f"{path}.members: expected names of models to pick from but found none."
        for key in (*spec.settings, *spec.space):
            yield f"{path}.{key}: a pick has no settings; it has members."
        return
    yield from _setting_problems(experiment, name, path)


def _setting_problems(experiment: Experiment, name: str, path: str) -> Iterator[str]:
    spec, entry = experiment.models[name], entry_of(experiment.models[name].kind)
    tables = {path: spec.settings} | {f"{path}.by_fold.{fold}": one for fold, one in spec.by_fold.items()}
    values = ((f"{table}.{key}", key, value) for table, settings in tables.items() for key, value in settings.items())
    checked = [(where, _value_problem(entry, key, value)) for where, key, value in values]
    checked += [(f"{path}.space.{key}", _dimension_problem(entry, key, spec)) for key in spec.space]
    problems = [f"{where}: {problem}" for where, problem in checked if problem is not None]
    yield from problems or _model_problems(experiment, name, path)


def _model_problems(experiment: Experiment, name: str, path: str) -> Iterator[str]:
    """What is wrong with a model whose settings are right one by one."""
    spec = experiment.models[name]
    try:
        model = _unseeded(experiment, name, "", {})
        for made in [model, *(_unseeded(experiment, name, fold, {}) for fold in spec.by_fold)]:
            made.check_parameters()
            refuse_fitted_inits(made)
            refuse_given_scores(made)
    except (ValueError, KeyError) as error:
        yield f"{path}: {error}"
        return
    try:
        if spec.space:
            parse_space(model, spec.space)
    except ValueError as error:
        yield f"{path}.space: {error}"


def _dimension_problem(entry: ModelEntry, key: str, spec: ModelSpec) -> str | None:
    if key.partition("__")[0] not in entry.parameters:
        return _unknown(key, entry, entry.parameters)
    if key.split("__")[-1] == "init":
        return "a base model cannot be searched for. Give it as a setting."
    return f"it has a fixed value too, {spec.settings[key]!r}. Give one of them." if key in spec.settings else None


def _value_problem(entry: ModelEntry, key: str, value: Any) -> str | None:
    from podium.lab.experiments.experiment import OPTIONS

    if key in _DECIDED:
        return f"leave it out; {_DECIDED[key]}."
    if key not in entry.parameters:
        return _unknown(key, entry, [*entry.parameters, *OPTIONS])
    try:
        read_value(entry, key, value, lambda *_: entry_of("linear").kind())
    except (ValueError, OSError) as error:
        return str(error)
    return None


def _cycle(experiment: Experiment, name: str) -> list[str]:
    """A path of references that comes back to where it began, or nothing."""

    def walk(path: list[str]) -> list[str]:
        spec = experiment.models[path[-1]]
        for other in spec.members if spec.kind.lower() == PICK else _references(spec.settings):
            if other in path:
                return [*path, other]
            circle = walk([*path, other]) if other in experiment.models else []
            if circle:
                return circle
        return []

    return walk([name])


def read_value(entry: ModelEntry, key: str, value: Any, look_up: Callable[[str, str], Ranker]) -> Any:
    """A value of TOML or Python as the parameter has it; look_up(model, parameter) finds references."""
    declaration = entry.parameters[key].declaration
    try:
        converted = _converted(declaration, key, value, look_up)
    except (ValueError, KeyError, TypeError) as error:
        if declaration.kind in (MODEL, MODELS) or declaration.kind.explains:
            raise ValueError(f"{error}") from None
        raise declaration.refuse(entry.class_name, key, value) from None
    if not declaration.takes(converted):
        raise declaration.refuse(entry.class_name, key, value)
    return converted


def _converted(declaration: Declaration, key: str, value: Any, look_up: Callable[[str, str], Ranker]) -> Any:
    def one(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return look_up(text[1:], key) if text.startswith("@") else read_model(text)

    if isinstance(value, str) and value.lower() == "none" and declaration.optional:
        return None
    if declaration.kind is MODEL or (isinstance(value, str) and value.startswith("@")):
        return one(value)
    if declaration.kind is MODELS:
        return read_models(value) if isinstance(value, str) else [one(text) for text in value]
    if isinstance(value, str):
        return value if declaration.kind in (INTEGER, NUMBER, SWITCH) and value != "inf" else declaration.read(value)
    if isinstance(value, (list, tuple)):
        return tuple(value) if declaration.kind is NAMES or declaration.takes(tuple(value)) else list(value)
    return value
