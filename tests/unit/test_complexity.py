"""The script that counts how much a reader has to follow."""

from pathlib import Path

from tools.complexity import Private, private_functions, trace_loop

SOURCE = '''
def _long():
    """Used once."""
    one = 1
    two = 2
    three = 3
    four = 4
    return one + two + three + four

def _short():
    """Used once."""
    return 1

def _often():
    return 2

def public():
    return _long() + _short() + _often() + _often()

class Thing:
    def __init__(self):
        self._field = 3
'''


def test_private_functions_are_counted_by_their_uses_and_their_lines(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text(SOURCE)
    assert private_functions(tmp_path) == Private(3, 2, 1)


def test_a_tick_is_traced_without_the_simulation() -> None:
    traced = trace_loop()
    for _name, trace, _times in traced.rows:
        assert not any("/sim/" in file for file in trace.files)
        assert 0 < trace.state_reads < trace.reads
        assert len(trace.files) <= len(trace.functions) <= trace.calls
        assert trace.depth_max > 1
