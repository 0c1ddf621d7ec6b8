"""Pipelines: models made of models. Bagged, Blend and Stack, each a model like any other, saved as one file."""

from podium.pipelines.bagged import Bagged as Bagged
from podium.pipelines.blend import Blend as Blend
from podium.pipelines.blend import yahoo_blend as yahoo_blend
from podium.pipelines.stack import Stack as Stack
