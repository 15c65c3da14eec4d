"""Escapes characters that are not printable: names of others must not control a terminal.

All output goes through here once: in `cli`, in `top`, and before it is logged.
"""

from typing import Protocol

# `surrogateescape` turns the bytes of a name that is not UTF-8 into these characters.
_BYTES_FROM, _BYTES_TO = "\udc80", "\udcff"
_BETWEEN_WORDS = "\n\t"


class Say(Protocol):
    """A function that prints a text. With `painted`, words for states and results are coloured."""

    def __call__(self, text: str, *, painted: bool = False) -> None: ...


def visible(text: str, kept: str = _BETWEEN_WORDS) -> str:
    """Return the text with each character that is not printable, but for those in `kept`, escaped.

    Unicode defines what is printable. Not printable are control characters (an escape sequence
    begins with one), characters that change the direction of text, and bytes that are not UTF-8.
    Escapes are written as in JSON, so that JSON stays JSON.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else _escape(one) for one in text)


def _escape(one: str) -> str:
    code = ord(one)
    if _BYTES_FROM <= one <= _BYTES_TO:
        return f"\\x{code & 0xFF:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
