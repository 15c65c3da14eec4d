"""The setting `promoter`: which other settings it does not go with."""

import pytest

from tierd.configuration import configfile
from tierd.configuration.configfile import ConfigErrors

HINTED = "promoter: numa-balancing\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("promoter: numa\n", "expected one of damon, numa-balancing, auto"),
        (f"{HINTED}tuner: kernel\n", "only the tuner demand makes room"),
        (f"{HINTED}tuner: emulated\n", "promoter numa-balancing and tuner emulated"),
        (f"{HINTED}shares: {{a: {{paths: [/a]}}}}\n", "every cgroup alike"),
    ],
)
def test_what_does_not_go_together_is_an_error(text: str, said: str) -> None:
    with pytest.raises(ConfigErrors) as caught:
        configfile.parse([("t.yaml", text)])
    assert said in caught.value.lines[0]


@pytest.mark.parametrize("text", [HINTED, f"{HINTED}tuner: demand\n", "promoter: auto\n"])
def test_what_goes_together(text: str) -> None:
    assert configfile.parse([("t.yaml", text)]).config.promoter != "damon"
