"""The memory of tierd: the program alone, with a day of history."""

import platform
from pathlib import Path

import pytest

from bench import cost


@pytest.mark.thorough
# Rare tests run one at a time. Beside others the resident set is up to 2 MiB larger.
@pytest.mark.rare
def test_it_weighs_no_more_than_the_bar(tmp_path: Path) -> None:
    """The bar is for this Python. docs/metrics.md has the figures of distributions."""
    assert platform.python_implementation() == "CPython"
    assert cost.weighed(tmp_path) / 2**20 <= cost.BARS["resident set (MiB)"]
