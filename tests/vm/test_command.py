"""The arguments of `python -m tests.vm`."""

import pytest

from tests.vm.__main__ import parsed

COMMAND = ("python3", "-c", "print()", "--", "--slow")


@pytest.mark.parametrize(
    "argv",
    [
        ["--timeout", "600", "--slow", "7.2", "two-tier"],
        ["7.2", "--timeout", "600", "two-tier", "--slow"],
        ["7.2", "two-tier", "--timeout", "600", "--slow"],
    ],
)
@pytest.mark.parametrize("command", [(), COMMAND])
def test_options_stand_before_and_behind_the_machine(
    argv: list[str], command: tuple[str, ...]
) -> None:
    told = parsed([*argv, "--", *command])
    assert (told.kernel, told.machine, told.timeout, told.slow) == ("7.2", "two-tier", 600, True)
    assert told.command == command


def test_without_options_they_are_the_usual_ones() -> None:
    told = parsed(["7.2", "two-tier"])
    assert (told.timeout, told.slow, told.command) == (300, False, ())


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["7.2", "two-tier", "uname", "-r"], "uname"),
        (["7.2", "--", "two-tier"], "machine"),
        (["2.6", "two-tier"], "7.2"),
    ],
)
def test_what_it_does_not_understand_it_refuses(
    argv: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parsed(argv)
    err = capsys.readouterr().err
    assert said in err
    assert "KERNEL MACHINE [-- COMMAND ...]" in err
