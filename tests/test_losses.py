"""The summary lists lost guests."""

import pytest

from tests.fixtures import inner_run


def test_only_guests_that_were_lost_without_being_asked_to_are_told(
    request: pytest.FixtureRequest, pytester: pytest.Pytester
) -> None:
    inner_run.prepare(request, pytester)
    pytester.makepyfile(
        "import pytest\n"
        "from tests.vm import guest\n"
        "def test_before(): guest.log.warning('lost before')\n"
        "@pytest.mark.usefixtures('losses_expected')\n"
        "def test_on_purpose(caplog):\n"
        "    guest.log.warning('lost on purpose')\n"
        "    assert caplog.messages == ['lost on purpose']\n"
        "def test_after(): guest.log.warning('lost after')\n"
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines(["*2 guests lost*", "lost before", "lost after"])
    result.stdout.no_fnmatch_line("lost on purpose")
