"""Systems: what can be compared. Everything served that searches, and of each cascade its first stage alone."""

from __future__ import annotations

from dataclasses import dataclass

from podium.pipelines.cascades.cascade import Cascade, Scored
from podium.search.reading import Hits
from podium.server.errors import Refusal, unknown, wrong
from podium.server.service import search_traced
from podium.server.versions.registry import Registry
from podium.server.versions.version import Version

MOST_SYSTEMS = 4
_FIRST_STAGE = " (first stage)"  # no name that is served has a blank


@dataclass(frozen=True, eq=False)
class System:
    """A column of the page, with the version that answers now."""

    label: str
    name: str
    version: Version
    is_first_stage: bool = False

    @property
    def key(self) -> tuple[str, str, int | None]:
        """Equal keys give equal answers."""
        return self.label, self.version.digest, self.version.generation

    @property
    def has_model(self) -> bool:
        return self.version.model is not None and not self.is_first_stage

    def search(self, query: str, k: int) -> tuple[Hits, Scored | None]:
        """The k best documents, and what the last model scored. Takes milliseconds; not for the loop."""
        if not self.is_first_stage:
            hits, trace = search_traced(self.version, query, k)
            return hits, trace.scored
        cascade = self.version.searcher
        assert isinstance(cascade, Cascade)
        try:
            return cascade.index.search(query, k, weighting=cascade.weighting, fields=cascade.fields), None
        except ValueError as error:
            raise Refusal(400, f"query: {error}", "query", "words, phrases, +must, -not, field:word") from None


def systems_of(registry: Registry) -> dict[str, System]:
    """By label, in the order in which they are served; first stages come last."""
    searching = [served for served in registry if served.live.searcher is not None]
    systems = {served.name: System(served.name, served.name, served.live) for served in searching}
    for served in searching:
        if isinstance(served.live.searcher, Cascade) and served.live.model is not None:
            label = served.name + _FIRST_STAGE
            systems[label] = System(label, served.name, served.live, is_first_stage=True)
    return systems


def chosen_systems(systems: dict[str, System], labels: list[str]) -> list[System]:
    """The systems of a request, each once; the first one if it names none."""
    labels = list(dict.fromkeys(label for label in labels if label))
    if len(labels) > MOST_SYSTEMS:
        raise wrong("system", f"at most {MOST_SYSTEMS} systems", f"{len(labels)}")
    for label in labels:
        if label not in systems:
            raise unknown("system", "system", label, systems)
    return [systems[label] for label in labels or list(systems)[:1]]


def one_system(systems: dict[str, System], label: str) -> System:
    """The system of this label; the first one without a label."""
    chosen = chosen_systems(systems, [label])
    if not chosen:
        raise Refusal(404, "system: nothing is served that searches.", "system", "a cascade or an index")
    return chosen[0]
