"""Programs that a test needs and a machine may lack: a skip, or a failure where CI wants them."""

import os
from typing import TypeVar

import pytest

T = TypeVar("T")

# As for virtual machines: with this set to 1, what cannot be had is a failure and not a skip.
REQUIRE_VARIABLE = "TIERD_REQUIRE_VM"


def needed(found: T | str) -> T:
    """What was found; else the test ends with the sentence that says why there is nothing."""
    if not isinstance(found, str):
        return found
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(found, pytrace=False)
    pytest.skip(found)
