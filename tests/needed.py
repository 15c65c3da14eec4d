"""Programs that a machine may lack: the test is skipped, or fails where CI requires them."""

import os
from typing import TypeVar

import pytest

T = TypeVar("T")

# As for virtual machines: if this is 1, a missing program is a failure and not a skip.
REQUIRE_VARIABLE = "TIERD_REQUIRE_VM"


def needed(found: T | str) -> T:
    """Return what was found. If it is a reason instead, skip the test or let it fail."""
    if not isinstance(found, str):
        return found
    if os.environ.get(REQUIRE_VARIABLE) == "1":
        pytest.fail(found, pytrace=False)
    pytest.skip(found)
