"""The error of a benchmark."""


class BenchError(Exception):
    """A cell cannot be measured. The text says why."""
