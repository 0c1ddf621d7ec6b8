"""Output that a page or an example promises, compared with what is printed."""

import platform
import re

import pytest
from llvmlite.binding import get_host_cpu_features

NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")

# Processors of one family give the same model bytes; the pages were written on one of this family.
SAME_FAMILY = platform.machine() in ("x86_64", "AMD64") and get_host_cpu_features().get("avx512f", False)


def assert_alike(printed, shown, trained):
    """Word for word. On processors of another family, which add up in another order, trained numbers within 2 %."""
    if SAME_FAMILY or not trained:
        assert printed == shown
        return
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", shown)
    for own, expected in zip(NUMBER.findall(printed), NUMBER.findall(shown)):
        assert float(own.replace(",", "")) == pytest.approx(float(expected.replace(",", "")), rel=0.02, abs=0.01)


def promised(code):
    """What the comments `# -> ...` of Python code say is printed."""
    return "\n".join(re.findall(r"^(?:.*\S  |[ ]*)# ->(?: (.*))?$", code, re.MULTILINE))
