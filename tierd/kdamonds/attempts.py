"""Steps of which each is tried whether or not the others fail, and what has failed."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tierd.kdamonds.kernel import StepFailed

T = TypeVar("T")


@dataclass(slots=True)
class Attempts:
    """The failures so far: the reason by the path of the file."""

    failed: dict[str, str] = field(default_factory=dict)

    def run(self, step: Callable[[], T]) -> T | None:
        """What the step returns; None if it failed, which is noted."""
        try:
            return step()
        except StepFailed as error:
            self.failed[error.path] = str(error)
            return None

    @property
    def reasons(self) -> str:
        return "; ".join(dict.fromkeys(self.failed.values()))
