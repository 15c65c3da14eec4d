"""Makes text of others harmless in HTML: what stands in it is shown, and never acts."""

from tierd.views.visible import visible

# html.escape() is not used: its package loads the names of 2,231 characters, 300 KiB in a daemon
# that may use 32 MiB.
_ENTITIES = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#x27;"},
)


def escaped(text: object) -> str:
    """Return the text for use between tags, or in an attribute that stands in quotes.

    Characters that are not printable are escaped too: some of them turn the text around.
    """
    return visible(str(text)).translate(_ENTITIES)


def coded(text: str) -> str:
    """Return the text with its commands, which stand in backquotes, as code."""
    parts = escaped(text).split("`")
    return "".join(f"<code>{one}</code>" if n % 2 else one for n, one in enumerate(parts))
