"""Fixtures for all tests."""

import os
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, named by PODIUM_DATA; tests that need it are skipped without it."""
    folder = os.environ.get("PODIUM_DATA")
    if not folder:
        pytest.skip("PODIUM_DATA is not set: no real data sets here")
    return Path(folder)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_260)
