"""Fixtures for all tests."""

import os
from math import inf
from pathlib import Path

import llvmlite.binding
import numpy as np
import pytest
from hypothesis import settings

from podium._runtime.kernels.cache import cache_folder
from podium._runtime.kernels.compiling import announce_nothing

# The suite draws the same examples every time, so that it fails because of a change and never by chance.
# `make explore` draws new ones.
settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("explore", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))

# What commands write to standard error does not depend on what was compiled before.
announce_nothing()

# Programs of JAX are kept beside the kernels, so that no other process and no later run compiles them again.
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / f"jax-{llvmlite.binding.get_host_cpu_name()}"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of real data sets, named by PODIUM_DATA; tests that need it are skipped without it."""
    folder = os.environ.get("PODIUM_DATA")
    if not folder:
        pytest.skip("PODIUM_DATA is not set: no real data sets here")
    return Path(folder)


@pytest.fixture(scope="module")
def large_sizes():
    """For tests of how trees grow, on small data: "auto" is what it is for large data, exact splits of all features."""
    from podium.models.trees import sizes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sizes, "SIZES", {inf: sizes.SIZES[inf]})
        patch.setattr(sizes, "LEAST_LEAVES", 1)
        yield


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20_260)


@pytest.fixture(scope="session")
def splits():
    """Training, validation and test parts of the embedded data set, made small."""
    from podium.demo.letor import demo_splits

    return demo_splits(n_queries=80)
