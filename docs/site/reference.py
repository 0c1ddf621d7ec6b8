"""The reference of the Python interface: what is public, from signatures, docstrings and declared parameters."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from docstrings import as_markdown, escaped, first_sentence, signature_of, text_of

from podium.models.frame.parameters import attributes_of, parameters_of
from podium.models.frame.ranker import Ranker
from podium.models.registry import MODELS, find_model

# Page: (title, names). A name that ends in a dot is a module, of which everything public is shown.
GROUPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "data": (
        "Data",
        (
            "podium.RankingData",
            *(f"podium.{verb}_{kind}" for kind in ("data", "letor", "qrels", "run") for verb in ("read", "write")),
            *("podium.read_pairs", "podium.Qrels", "podium.Run", "podium.check", "podium.formats."),
        ),
    ),
    "ranker": ("What every model has", ("podium.models.Ranker", "podium.load")),
    "training": (
        "Choosing, and models of your own",
        ("podium.cross_validate", "podium.yahoo_blend", "podium.models."),
    ),
    "objectives": ("Objectives", ("podium.parse_objective", "podium.objectives.")),
    "metrics": (
        "Metrics and evaluation",
        (
            *("podium.evaluate", "podium.evaluate_run", "podium.evaluation.evaluating.Evaluation", "podium.compare"),
            *("podium.evaluation.comparison.Comparison", "podium.parse_metric", "podium.Metric", "podium.Policy"),
            "podium.metrics.",
        ),
    ),
    "runs": ("Runs", ("podium.fuse", "podium.runs.")),
    "search": ("Search", ("podium.Cascade", "podium.Stage", "podium.search.")),
    "explain": ("Explain", ("podium.explain.",)),
    "distributed": ("More than one machine", ("podium.distributed.",)),
    "exchange": ("Models of other programs", ("podium.import_model", "podium.exchange.")),
    "serving": ("Client of a service", ("podium.Client",)),
    "lab": ("Lab", ("podium.lab.",)),
}
FAMILIES = {
    "trees": "Trees",
    "linear": "Linear models",
    "svm": "Support vector machines",
    "boosting": "Boosting",
    "estimators": "Estimators of scikit-learn",
    "nets": "Neural networks",
    "ensembles": "Models made of models",
}
CALLED = ("fit", "predict", "rank", "score", "scorer", "save")  # of models, by users
# Every model has these, and one page tells of them.
HOOKS = {name for name in dir(Ranker) if not name.startswith("_")}
# Called by the frames that fit, combine and load models.
HOOKS |= {"auto_parameters", "auto_values", "resolved_for", "resolved_state", "restore_resolved", "with_resolved"}
HOOKS |= {"check_member", "combined", "finish", "keep_weights", "linear_function", "member_weights", "normalization"}
HOOKS |= {"watch"}


def pages() -> dict[str, str]:
    """{file: text}: an index, a page per model and a page per group."""
    models = {f"models/{name}.md": model_page(kind) for name, kind in MODELS.items()}
    return {"index.md": index(), **models, **{f"{name}.md": group_page(name) for name in GROUPS}}


def index() -> str:
    lines = ["# Python reference", "", "Everything public, from the docstrings of the code.", "", "## Models", ""]
    for family, title in FAMILIES.items():
        named = [name for name in MODELS if find_model(name).family == family]
        lines += [f"### {title}", "", *(_row(f"models/{name}.md", name, MODELS[name]) for name in named), ""]
    lines += ["## Functions and classes", ""]
    for page, (title, _) in GROUPS.items():
        names = ", ".join(f"`{name.removeprefix('podium.')}`" for name, _ in members(page))
        lines += [f"**[{title}]({page}.md)**: {names}", ""]
    listed = [*(f"models/{name}" for name in MODELS), *GROUPS]
    return "\n".join([*lines, "```{toctree}", ":hidden:", "", *listed, "```", ""])


def _row(page: str, name: str, kind: type) -> str:
    return f"- [`{name}`]({page}): {first_sentence(text_of(kind))}"


# --- groups ------------------------------------------------------------------------------------------------------


def members(page: str) -> list[tuple[str, Any]]:
    """(address, thing) of a group, each thing once in the reference."""
    earlier = list(GROUPS)[: list(GROUPS).index(page)]
    seen = {id(thing) for other in earlier for _, thing in _named(other)} | {id(kind) for kind in MODELS.values()}
    found = {id(thing): (address, thing) for address, thing in reversed(list(_named(page))) if id(thing) not in seen}
    return list(reversed(found.values()))


def _named(page: str) -> Iterator[tuple[str, Any]]:
    for name in GROUPS[page][1]:
        if not name.endswith("."):
            owner, _, last = name.rpartition(".")
            yield name, getattr(import_module(owner), last)
            continue
        module = import_module(name[:-1])
        for public in public_names(module):
            yield f"{name}{public}", getattr(module, public)


def public_names(module: Any) -> list[str]:
    """`__all__`, or the names of this project that stand in a module, without modules."""
    listed = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    own = [name for name in listed if not inspect.ismodule(getattr(module, name)) and name != "__version__"]
    return [name for name in own if getattr(getattr(module, name), "__module__", "podium").startswith("podium")]


def group_page(page: str) -> str:
    title, parts = f"# {GROUPS[page][0]}", []
    for address, thing in members(page):
        parts += [f"## {address.rpartition('.')[2]}", "", described(address, thing), ""]
    return "\n".join([title, "", *parts])


def described(address: str, thing: Any) -> str:
    if inspect.isclass(thing):
        return directive("class", f"{address}{signature_of(thing)}", as_markdown(text_of(thing)), *class_parts(thing))
    if inspect.isroutine(thing):
        return directive("function", address + signature_of(thing), as_markdown(text_of(thing)))
    names = ", ".join(f"`{name}`" for name in thing)
    return directive("data", address, as_markdown(text_of(type(thing))), f"It has {names}.")


def class_parts(kind: type, left_out: set[str] = frozenset()) -> list[str]:
    """The public properties and methods that a class has from this project."""
    owners = [owner for owner in kind.__mro__ if owner.__module__.startswith("podium")]
    names = dict.fromkeys(name for owner in owners for name in vars(owner) if not name.startswith("_"))
    parts = []
    for name in names:
        if name in left_out:
            continue
        value = next(vars(owner)[name] for owner in owners if name in vars(owner))
        parts += [_attribute(name, value)] if _is_property(value) else _method(kind, name, value)
    return parts


def _is_property(value: Any) -> bool:
    return isinstance(value, property) or type(value).__name__ == "once"


def _attribute(name: str, value: Any) -> str:
    return directive("property", name, as_markdown(text_of(getattr(value, "fget", None) or value)))


def _method(kind: type, name: str, value: Any) -> list[str]:
    if not isinstance(value, (classmethod, staticmethod)) and not inspect.isfunction(value):
        return []
    bound = getattr(kind, name)
    text = as_markdown(inspect.getdoc(bound) or "")
    role = {classmethod: "classmethod", staticmethod: "staticmethod"}.get(type(value), "method")
    return [directive(role, name + signature_of(bound), text)] if text else []


def directive(role: str, header: str, *body: str) -> str:
    """A directive of Sphinx's Python domain: an address and a row of the search for what it describes."""
    text = "\n\n".join(part for part in body if part)
    longest = max((len(line) - len(line.lstrip("`")) for line in text.split("\n")), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{{py:{role}}} {header}\n\n{text}\n{fence}"


# --- models ------------------------------------------------------------------------------------------------------


def model_page(kind: type[Ranker]) -> str:
    name = kind.__name__
    entry = find_model(name)
    about = [f"Learner: {entry.learner}. Objective: {entry.objective}. On the command line: `{entry.name}`."]
    extra = 'Training needs the extra `neural`: `pip install "podium[neural]"`.' if entry.family == "nets" else ""
    parts = [
        f"# {name}",
        directive("class", f"podium.{name}{_short_signature(kind)}", as_markdown(text_of(kind)), *about, extra),
        "## Parameters",
        parameter_list(kind),
        "## Attributes of a fitted model",
        attribute_list(kind),
        "## Methods",
        "`fit`, `predict`, `rank`, `score`, `save` and all else that every model has are in "
        "[What every model has](../ranker.md).",
        *_prefixed(kind),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _short_signature(kind: type[Ranker]) -> str:
    """Only what can be given by position; the list of parameters has the rest."""
    known = inspect.signature(kind).parameters.values()
    return f"({', '.join([*(one.name for one in known if one.kind is one.POSITIONAL_OR_KEYWORD), '**parameters'])})"


def parameter_list(kind: type[Ranker]) -> str:
    parts = []
    for one in parameters_of(kind).values():
        allowed = escaped(one.declaration.allowed)
        parts.append(f"`{one.name}` = `{one.default!r}`: {allowed}\n: {escaped(one.declaration.about)}")
    return "\n\n".join(parts)


def attribute_list(kind: type[Ranker]) -> str:
    return "\n\n".join(f"`{name}`\n: {escaped(about)}" for name, about in attributes_of(kind).items())


def _prefixed(kind: type[Ranker]) -> list[str]:
    """Methods of this model only."""
    fitted = set(attributes_of(kind))
    changed = {name for name in CALLED if signature_of(getattr(kind, name)) != signature_of(getattr(Ranker, name))}
    parts = class_parts(kind, (HOOKS | fitted) - changed)
    return [part.replace("} ", f"}} podium.{kind.__name__}.", 1) for part in parts]
