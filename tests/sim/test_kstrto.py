"""Numbers and words as the kernel's kstrto*() read them."""

from errno import EINVAL, ERANGE

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tierd.sim import kstrto
from tierd.sim.file_tree import Refused

ULONG_MAX = 2**64 - 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("12", 12),
        ("12\n", 12),
        ("+12", 12),
        ("0x10", 16),
        ("0X1f", 31),
        ("010", 8),
        ("18446744073709551615", ULONG_MAX),
    ],
)
def test_ulong(text: str, value: int) -> None:
    assert kstrto.ulong(text) == value


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", EINVAL),
        (" 5", EINVAL),
        ("5 ", EINVAL),
        ("5\n\n", EINVAL),
        ("08", EINVAL),
        ("0x", EINVAL),
        ("-1", EINVAL),
        ("-0", EINVAL),
        ("5,6", EINVAL),
        ("18446744073709551616", ERANGE),
        # A number that is too large is found before a wrong character after it.
        ("99999999999999999999x", ERANGE),
    ],
)
def test_ulong_refused(text: str, code: int) -> None:
    with pytest.raises(Refused) as caught:
        kstrto.ulong(text)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "value"), [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1), ("-0x10", -16)]
)
def test_integer(text: str, value: int) -> None:
    assert kstrto.integer(text) == value


@pytest.mark.parametrize(
    ("text", "code"), [("2147483648", ERANGE), ("-2147483649", ERANGE), ("-+5", EINVAL)]
)
def test_integer_refused(text: str, code: int) -> None:
    with pytest.raises(Refused) as caught:
        kstrto.integer(text)
    assert caught.value.code == code


@pytest.mark.parametrize("text", ["Y", "yep", "1", "true", "on", "ON\n", "T"])
def test_true(text: str) -> None:
    assert kstrto.boolean(text)


@pytest.mark.parametrize("text", ["N", "no", "0", "0x1", "false", "off", "f"])
def test_false(text: str) -> None:
    assert not kstrto.boolean(text)


@pytest.mark.parametrize("text", ["", "o", "2", "x", " 1", "-1"])
def test_no_boolean(text: str) -> None:
    with pytest.raises(Refused):
        kstrto.boolean(text)


@given(st.integers(0, ULONG_MAX), st.sampled_from(("{}", "{:#x}", "{:#X}")))
def test_every_ulong_is_read_as_it_was_printed(value: int, form: str) -> None:
    assert kstrto.ulong(form.format(value)) == value


@given(st.integers(0, ULONG_MAX))
def test_a_leading_zero_is_octal(value: int) -> None:
    assert kstrto.ulong(f"0{value:o}") == value


@given(st.integers(-(2**40), 2**40))
def test_an_integer_fits_or_is_out_of_range(value: int) -> None:
    if -(2**31) <= value < 2**31:
        assert kstrto.integer(str(value)) == value
    else:
        with pytest.raises(Refused) as caught:
            kstrto.integer(str(value))
        assert caught.value.code == ERANGE
