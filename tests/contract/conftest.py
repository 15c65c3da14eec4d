"""One guest for each series, booted when it is needed, and a summary at the end."""

from collections import Counter
from collections.abc import Callable

import pytest

from tests.contract.guests import Seen, observe
from tests.vm.errors import VmError

SEEN = pytest.StashKey[dict[str, Seen | VmError]]()


@pytest.fixture
def kernel(request: pytest.FixtureRequest) -> Callable[[str], Seen]:
    """The results of one guest per series; a guest that failed is not booted again."""
    known = request.config.stash.setdefault(SEEN, {})

    def seen(series: str) -> Seen:
        if series not in known:
            try:
                known[series] = observe(series)
            except VmError as error:
                known[series] = error
        found = known[series]
        if isinstance(found, VmError):
            pytest.fail(str(found), pytrace=False)
        return found

    return seen


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how many behaviours were compared, and on which kernels."""
    checked = Counter(
        (dict(report.user_properties)["kernel"], outcome)
        for outcome in ("passed", "failed")
        for report in terminalreporter.stats.get(outcome, ())
        if "kernel" in dict(report.user_properties)
    )
    if not checked:
        return
    releases = {
        f"real {series}": seen.release
        for series, seen in config.stash.get(SEEN, {}).items()
        if isinstance(seen, Seen)
    }
    terminalreporter.section("contract checks")
    for kernel_name in sorted({name for name, _ in checked}):
        passed, failed = checked[kernel_name, "passed"], checked[kernel_name, "failed"]
        release = f" ({releases[kernel_name]})" if kernel_name in releases else ""
        terminalreporter.line(f"{kernel_name}{release}: {passed} as the table says, {failed} not")
