"""Write the files that are made from code: completion, man pages, schemas."""

import json
from pathlib import Path

import shtab

from tierd.configuration import configschema
from tierd.console import documentschema, manual
from tierd.console.arguments import parser

ROOT = Path(__file__).resolve().parent.parent

COMPLETION = {
    "bash": "completion/tierd.bash",
    "zsh": "completion/_tierd",
    "fish": "completion/tierd.fish",
}


def texts() -> dict[str, str]:
    """Each file below the root of the project, and its text."""
    made = {path: shtab.complete(parser(), shell) for shell, path in COMPLETION.items()}
    made["man/tierd.8"] = manual.command_page(parser())
    made["man/tierd.yaml.5"] = manual.config_page()
    made["schema/tierd.schema.json"] = json.dumps(configschema.schema(), indent=2) + "\n"
    for one in documentschema.PUBLISHED:
        made[one.path] = json.dumps(documentschema.of(one), indent=2) + "\n"
    return made


if __name__ == "__main__":
    for name, text in texts().items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")
