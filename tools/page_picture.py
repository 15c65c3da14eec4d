"""Take a picture of tierd's page, for the documentation. Needs Chromium.

    python -m tools.page_picture docs/page.png [--url http://127.0.0.1:19100/]
    python -m tools.page_picture docs/page-phone.png --width 390 --height 1080 --scheme dark

The picture shows the upper part of the page, as a window of this size would.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from tests import browser

WIDTH, HEIGHT = 1280, 900


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("file", type=Path)
    arguments.add_argument("--url", default="http://127.0.0.1:19100/")
    arguments.add_argument("--scheme", choices=("light", "dark"), default="light")
    arguments.add_argument("--width", type=int, default=WIDTH)
    arguments.add_argument("--height", type=int, default=HEIGHT)
    asked = arguments.parse_args()
    program = browser.find()
    if isinstance(program, str):
        arguments.error(program)
    with tempfile.TemporaryDirectory() as profile, browser.tab(Path(profile)) as tab:
        tab.renew()
        tab.show(asked.width, asked.height, asked.scheme)
        tab.open(asked.url)
        tab.screenshot(asked.file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
