"""docs/kernel-support.md agrees with the table."""

from tests.contract.behaviour import table
from tests.contract.document import PAGE, page


def test_the_page_is_not_stale() -> None:
    assert PAGE.read_text() == page(table()), "run `python -m tests.contract.document`"
