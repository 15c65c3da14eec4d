"""How names that others chose are shown in a terminal."""

import json
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from tierd.views.visible import visible

# All texts, also with bytes that were not UTF-8.
TEXTS = st.text(st.characters(categories=None))


def test_printable_text_stays() -> None:
    text = "node0 ▁▂▃ µs Größe 日本\n\tnext"
    assert visible(text) == text


def test_control_characters_are_escaped() -> None:
    assert visible("a\x1b[31mb\x07") == "a\\u001b[31mb\\u0007"
    # C1 has an escape character too. The others change the direction and are invisible.
    assert visible("\x9b31m\u202e\u2066\u200b") == "\\u009b31m\\u202e\\u2066\\u200b"
    assert visible("\U000e0041") == "\\U000e0041"
    assert visible(b"caf\xe9".decode("utf-8", "surrogateescape")) == "caf\\xe9"
    assert visible("\ud800") == "\\ud800"
    assert visible("a\nb\tc", kept="") == "a\\u000ab\\u0009c"


@given(TEXTS)
def test_nothing_unseen_is_left(text: str) -> None:
    seen = visible(text)
    assert not [
        one for one in seen if unicodedata.category(one) in ("Cc", "Cf", "Cs") and one not in "\n\t"
    ]
    assert visible(seen) == seen
    seen.encode()


@given(TEXTS)
def test_json_is_valid_after_escaping(text: str) -> None:
    assert json.loads(visible(json.dumps({"name": text}))) == {"name": text}
