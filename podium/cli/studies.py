"""Studies of features on the command line: the parts of `podium explain` that are about all queries."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from podium.cli.application import show
from podium.cli.inputs import inputs, paths


@dataclass(frozen=True)
class Asked:
    """Which study is asked for, if any."""

    shap: bool
    permutation: bool
    ablation: Path | None
    groups: list[str]
    metric: str | None
    lambdas: bool = False

    @property
    def kinds(self) -> list[str]:
        asked = {"shap": self.shap, "permutation": self.permutation, "ablation": self.ablation is not None}
        return [kind for kind, is_asked in asked.items() if is_asked]

    def refuse_wrong_options(self, query: str | None, documents: Any, top: int | None) -> bool:
        """Whether a study is asked for, and nothing that contradicts it."""
        if len(self.kinds) + (query is not None) != 1:
            raise ValueError("Give one of --query Q, --shap, --permutation and --ablation TRAIN.")
        if query is None and (documents is not None or top is not None or self.lambdas):
            raise ValueError("--documents, --top and --lambdas are about one query. Add --query Q, or leave them out.")
        if self.groups and self.ablation is None:
            raise ValueError("--group is for --ablation TRAIN. Add it, or leave --group out.")
        if self.metric is not None and self.kinds in ([], ["shap"]) and not self.lambdas:
            raise ValueError("--metric is for --permutation, --ablation and --lambdas. Leave it out.")
        return query is None

    def named_groups(self) -> dict[str, list[int | str]] | None:
        """`links=pagerank,inlinks` -> {"links": ["pagerank", "inlinks"]}; numbers are features, counted from 1."""
        groups: dict[str, list[int | str]] = {}
        for text in self.groups:
            name, sign, features = text.partition("=")
            if not (name and sign and features):
                raise ValueError(f"--group must be NAME=FEATURE,FEATURE, such as links=44,45; got {text!r}.")
            groups[name] = [int(one) - 1 if one.isdecimal() else one for one in features.split(",")]
        return groups or None


@dataclass(frozen=True)
class Shown:
    """What `podium inspect` shows of a model: one of its trees, its importances, or what it is."""

    tree: int | None
    depth: int | None
    node: int
    importance: str | None

    def refuse_wrong_options(self, out: Path | None) -> None:
        if self.tree is not None and self.importance is not None:
            raise ValueError("Give --tree N or --importance KIND, not both.")
        if (self.depth is not None or self.node) and (self.tree is None or out is None):
            raise ValueError("--depth and --node are about the drawing of a tree. Add --tree N --out FILE.svg.")

    def show(self, model: Any, out: Path | None, as_json: bool) -> None:
        from podium.explain import drawings

        if self.importance is not None:
            self._show_importance(model, self.importance, out, as_json)
            return
        text = str(model.inspect()) if self.tree is None else self._text(model, self.tree)
        if out is not None and self.tree is not None:
            drawings.draw_tree(model, self.tree, out, depth=self.depth, node=self.node)
        elif out is not None:
            drawings.draw_curves(model, out)
        written = paths(written=out)
        if as_json:
            tree = {} if self.tree is None else {"tree": self.tree, "text": text}
            show(model.inspect().as_dict() | tree | written)
        else:
            show(text)
            show_written(written)

    def _text(self, model: Any, tree: int) -> str:
        from podium.models.frame.inspection import tree_text

        if not hasattr(model, "forest_"):
            raise ValueError(f"--tree {tree}: {type(model).__name__} has no trees. Leave --tree out.")
        return tree_text(model, tree)

    def _show_importance(self, model: Any, kind: str, out: Path | None, as_json: bool) -> None:
        from podium.cli.terminal import console
        from podium.explain import importance

        importances = importance(model, kind)
        written = draw(importances, out)
        if as_json:
            show({"kind": importances.kind, "features": importances.as_dict()} | written)
        else:
            console().print(importances.table())
            show_written(written)


@dataclass(frozen=True)
class Curves:
    """The picture of `podium eval --out`: the first metric over its cutoffs, evaluated along with what is printed."""

    out: Path | None
    names: list[str]

    def refuse_wrong_options(self, sources: list[Path], policy: str, format: str, force: bool) -> None:
        refuse_bad_picture(self.out, sources, force)
        if self.out is not None and (policy == "all" or format != "table"):
            raise ValueError("--out draws one policy beside a table. Leave --policy all and --format out, or --out.")

    def names_asked(self) -> list[str]:
        return self.names if self.out is None else [*self.names, *self._extra()]

    def drawn_of(self, path: Path, evaluations: list[Any]) -> list[Any]:
        return evaluations if self.out is None else [*self.drawn({path.name: evaluations[0]}).values()]

    def drawn(self, evaluations: dict[str, Any]) -> dict[str, Any]:
        """Draw them, and return the evaluations without what only the picture needs."""
        if self.out is None:
            return evaluations
        from podium.explain.cutoffs import CutoffCurves

        CutoffCurves.of(evaluations, self._names_at()).picture(self.out)
        return {name: _without(evaluation, self._extra()) for name, evaluation in evaluations.items()}

    def _names_at(self) -> list[str]:
        from podium.explain.cutoffs import names_at

        return names_at(self.names[0])

    def _extra(self) -> list[str]:
        """What is evaluated for the picture alone."""
        return [name for name in self._names_at() if name not in self.names]


def _without(evaluation: Any, names: list[str]) -> Any:
    parts = {part: getattr(evaluation, part) for part in ("means", "per_query", "bracket", "judged")}
    left = {part: {name: column[name] for name in column if name not in names} for part, column in parts.items()}
    return replace(evaluation, **left)


def print_study(asked: Asked, model: Path, data: Path, out: Path | None, as_json: bool) -> None:
    from podium.cli.terminal import console
    from podium.workflows.explaining import study_file

    options: dict[str, Any] = {"train": asked.ablation, "groups": asked.named_groups(), "metric": asked.metric}
    study = study_file(model, data, asked.kinds[0], locate=inputs.reading, **options)
    written = draw(study, out)
    if as_json:
        show(study.as_dict() | written)
    else:
        show(study.headline())
        console().print(study.table())
        show_written(written)


def refuse_bad_picture(out: Path | None, sources: list[Path], force: bool) -> None:
    """Before any work; what draws is imported only if it is asked for."""
    if out is not None:
        from podium.explain import drawings
        from podium.workflows.outputs import refuse_other_kind
        from podium.workflows.reading import refuse_bad_out

        drawings.refuse_other_suffixes(out)
        refuse_bad_out(out, sources)
        refuse_other_kind("--out", out, out.suffix.lower().removeprefix("."), force)


def draw(explained: Any, out: Path | None) -> dict[str, str]:
    """Draw the picture, if it is asked for; and what to say of it."""
    if out is not None:
        explained.picture(out)
    return paths(written=out)


def show_written(written: dict[str, str]) -> None:
    for path in written.values():
        show(f"{path}: written")
