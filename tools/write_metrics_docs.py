"""Write the table in docs/metrics.md from the metrics that there are."""

from pathlib import Path

from tierd.serving import metrics

PATH = Path(__file__).resolve().parent.parent / "docs/metrics.md"
BEGIN = "<!-- the table: tools/write_metrics_docs.py -->\n"
END = "<!-- the end of the table -->\n"


def written(text: str) -> str:
    """Return the text with the table of today's metrics in it."""
    before, _, rest = text.partition(BEGIN)
    after = rest.partition(END)[2]
    return f"{before}{BEGIN}{metrics.table()}{END}{after}"


if __name__ == "__main__":
    PATH.write_text(written(PATH.read_text(encoding="utf-8")), encoding="utf-8")
