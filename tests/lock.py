"""Read requirements-dev.txt: packages for development, each with its hashes."""

import re
from pathlib import Path

FILE = Path(__file__).parent.parent / "requirements-dev.txt"


def entries(text: str) -> dict[str, str]:
    """Return the lines of each package, by its name in the file."""
    found: dict[str, str] = {}
    # All lines of an entry but the last end with a backslash.
    for entry in re.split(r"(?<!\\)\n", text):
        name = re.match(r"[A-Za-z0-9._-]+(?===)", entry)
        if name:
            found[name[0]] = f"{entry}\n"
    return found


def requirement(name: str) -> str:
    """Return the lines of one package, for its own requirements file."""
    return entries(FILE.read_text())[name]
