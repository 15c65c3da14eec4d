"""What can go wrong in a benchmark, as a sentence."""


class BenchError(Exception):
    """This cell cannot be measured, and why."""
