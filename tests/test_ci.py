"""What CI runs: a failure on the bare machine counts, the summary comes last, any text prints."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.test_tidy import ROOT

# Replaces make: prints its targets, and fails at the given one.
MAKE = """#!/bin/sh
for word; do case $word in bare|test) what=$word;; esac; done
echo "summary of $what, $*"
test "$what" != "$FAILING"
"""


def ran(tmp_path: Path, failing: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci/run", tmp_path / ".ci")
    make = tmp_path / "bin/make"
    make.parent.mkdir()
    make.write_text(MAKE)
    make.chmod(0o755)
    path = f"{make.parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        [str(tmp_path / ".ci/run")],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, "FAILING": failing, **environ},
    )


def test_the_summary_of_the_tests_comes_last(tmp_path: Path) -> None:
    done = ran(tmp_path, "")
    assert done.returncode == 0
    assert [line.split()[2] for line in done.stdout.splitlines()[1:]] == ["bare,", "test,"]


@pytest.mark.parametrize("failing", ["bare", "test"])
def test_either_part_fails_the_whole_and_both_are_run(tmp_path: Path, failing: str) -> None:
    done = ran(tmp_path, failing)
    assert done.returncode != 0
    assert "summary of bare" in done.stdout
    assert "summary of test" in done.stdout


def test_the_suite_can_be_chosen(tmp_path: Path) -> None:
    assert "SUITE=trixie" in ran(tmp_path, "", SUITE="trixie").stdout


def test_what_a_test_logged_may_be_any_text(
    request: pytest.FixtureRequest, pytester: pytest.Pytester
) -> None:
    pytester.makeconftest(
        f"import sys; sys.path.insert(0, {str(request.config.rootpath)!r})\n"
        "from tests.conftest import pytest_report_to_serializable  # noqa\n"
    )
    pytester.makepyfile(
        "import logging\n"
        "def test_name(): logging.warning('name \\udcff')\n"
        "def test_failing(): assert 'wanted' == 'name \\udcff'\n"
    )
    result = pytester.runpytest_subprocess("-n", "1", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1)
