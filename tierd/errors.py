"""The errors of tierd, by who must act. Each has an exit code and a hint."""

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of all commands. Scripts and units rely on them."""

    ok = 0
    failed = 1
    usage = 2
    not_running = 3
    unknown = 4
    degraded = 5
    unsupported = 69
    busy = 75
    not_permitted = 77
    config = 78


class TierdError(Exception):
    """A failure in words for a person: what happened, and in `hint` what to do about it."""

    exit_code = ExitCode.failed

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint

    def with_hint(self) -> str:
        """Return all of it as one line."""
        return f"{self}. {self.hint}" if self.hint else str(self)


class ConfigError(TierdError):
    """The configuration is wrong. Its author must act."""

    exit_code = ExitCode.config


class Unsupported(TierdError):
    """This machine or kernel lacks what the task needs."""

    exit_code = ExitCode.unsupported


class Conflict(TierdError):
    """Somebody else uses what the task needs."""

    exit_code = ExitCode.busy


class NotRunning(TierdError):
    """The daemon does not run."""

    exit_code = ExitCode.not_running
