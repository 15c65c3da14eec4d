"""Chromium is installed where CI requires it, and nowhere else."""

from pathlib import Path

import pytest

from tests import browser
from tests.needed import REQUIRE_VARIABLE

# Replaces the set-up: "installs" what it is told to, beside itself.
SET_UP = """#!/bin/sh
set -e
cd "${0%/*}"
for word; do echo "#!/bin/sh" >"$word"; /bin/chmod +x "$word"; done
"""


@pytest.fixture
def bare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the one folder of programs, in which there is only the set-up."""
    set_up = tmp_path / "set-up"
    set_up.write_text(SET_UP)
    set_up.chmod(0o755)
    monkeypatch.setattr(browser, "SET_UP", set_up)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def test_ci_installs_it(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(REQUIRE_VARIABLE, "1")
    assert browser.find() == bare / "chromium"


def test_elsewhere_the_reason_says_how_to_install_it(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(REQUIRE_VARIABLE, raising=False)
    assert "tools/setup-debian chromium" in str(browser.find())
    assert [one.name for one in bare.iterdir()] == ["set-up"]


def test_where_nothing_can_be_installed_there_is_a_reason(
    bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(REQUIRE_VARIABLE, "1")
    (bare / "set-up").write_text("#!/bin/sh\n")
    assert str(browser.find()).startswith("no Chromium")
