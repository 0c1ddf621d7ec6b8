"""Envelopes: the requests whose parts are few, checked by pydantic, which also describes them in /openapi.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_Text = Annotated[str, Field(min_length=1, max_length=1_000)]


class _Envelope(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class SearchRequest(_Envelope):
    """A query to a cascade or an index."""

    q: str = Field(description='Words, "phrases", +must, -not, field:word.')
    system: str | None = Field(None, description="The name of a cascade or an index; without it the first one.")
    k: int = Field(10, description="The number of hits.")
    user: _Text | None = Field(None, description="A session: its requests are answered by the same version.")
    snippets: bool = Field(False, description="With title, address and a part of the text of each hit.")
    features: bool = Field(False, description="With the features of each hit as the model scored them.")


class ExplainRequest(_Envelope):
    """A query to a cascade (q, with the ids of two hits in why), or rows for a model (features, positions in why)."""

    q: str | None = None
    system: str | None = None
    model: str | None = None
    features: list[list[float | int | str | None]] | None = None
    ids: list[str | int] | None = None
    k: int = Field(10, ge=1, le=100, description="How many of the best documents are explained.")
    why: Annotated[list[str | int], Field(min_length=2, max_length=2)] | None = Field(
        None, description="Two documents: why the first is above the second."
    )


class Event(_Envelope):
    """What somebody did with a document that was shown, or thinks of it."""

    kind: Literal["click", "judgement"]
    document: _Text | int
    request: _Text | None = Field(None, description="The id of the answer that showed it.")
    query: _Text | None = None
    position: Annotated[int, Field(ge=1)] | None = Field(None, description="From 1.")
    click: bool | None = Field(None, description="Of a click: false says that it was seen and passed over.")
    label: Annotated[float, Field(ge=0, le=1_000, allow_inf_nan=False)] | None = Field(
        None, description="Of a judgement."
    )
    rater: _Text | None = None
    user: _Text | None = None
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        None, description="Spent on the document."
    )
    model: _Text | None = Field(None, description="The sha256 of the model that made the list.")
    generation: int | None = None
    system: _Text | None = None
    probability: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="With which the list was shown, if it was drawn."
    )
    seed: int | None = Field(None, description="Of that draw.")

    def record(self) -> dict[str, Any]:
        """For the log; what the kind needs is there."""
        if self.kind == "judgement" and (self.label is None or self.query is None):
            raise ValueError("a judgement needs query, document and label")
        if self.kind == "click" and self.request is None and self.query is None:
            raise ValueError("a click needs the request that it belongs to, or the query")
        values = self.model_dump()
        if self.kind == "click":
            values["click"] = self.click is not False
        return values


class FeedbackRequest(_Envelope):
    """Clicks and judgements; all of them are on the disk when they are acknowledged, or none."""

    events: Annotated[list[Event], Field(min_length=1, max_length=1_000)]


class LoadRequest(_Envelope):
    """A version of the configured folder, and what it shall do."""

    version: _Text
    role: str = "live"


class UnloadRequest(_Envelope):
    """Which role is emptied: canary or shadow."""

    role: str
