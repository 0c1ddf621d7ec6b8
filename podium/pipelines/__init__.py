"""Pipelines: models made of models. Bagged, Blend and Stack, each a model like any other, saved as one file."""

from podium.pipelines.ensembles.bagged import Bagged as Bagged
from podium.pipelines.ensembles.blend import Blend as Blend
from podium.pipelines.ensembles.blend import yahoo_blend as yahoo_blend
from podium.pipelines.ensembles.stack import Stack as Stack
