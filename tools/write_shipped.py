"""Write the files that are made from code: completion, man pages, schemas.

python -m tools.write_shipped
"""

import argparse
import json
from pathlib import Path

import shtab

from tierd.configuration import configtext
from tierd.console.arguments import parser
from tools import document_schemas, man_pages

ROOT = Path(__file__).resolve().parent.parent

COMPLETION = {
    "bash": "completion/tierd.bash",
    "zsh": "completion/_tierd",
    "fish": "completion/tierd.fish",
}

# The nodes of this machine, for `tierd why`. A glob is fast, so that completion does not wait.
NODES = "/sys/devices/system/node/node[0-9]*"
OFFERED = {
    "bash": "_tierd_nodes",
    "zsh": "_tierd_nodes",
    "fish": "(_tierd_nodes)",
    "preamble": {
        "bash": f"""\
_tierd_nodes() {{
  local nodes=({NODES})
  compgen -W "${{nodes[*]##*/}}" -- "$1"
}}
""",
        "zsh": f"""\
_tierd_nodes() {{
  local -a nodes=({NODES}(N:t))
  compadd -a nodes
}}
""",
        "fish": f"""\
function _tierd_nodes
  for node in {NODES}
    string replace -r '.*/' '' -- $node
  end
end
""",
    },
}


def completed() -> argparse.ArgumentParser:
    """Return the parser, with what a shell should offer."""
    made = parser()
    for action in man_pages.actions(man_pages.verbs(made)["why"], common=False):
        if action.dest == "node":
            vars(action)["complete"] = OFFERED
    return made


def texts() -> dict[str, str]:
    """Return the text of each file, by its path below the root of the project."""
    made = {path: shtab.complete(completed(), shell) for shell, path in COMPLETION.items()}
    made["man/tierd.8"] = man_pages.command_page(parser())
    made["man/tierd.yaml.5"] = man_pages.config_page()
    made["schema/tierd.schema.json"] = json.dumps(configtext.schema(), indent=2) + "\n"
    made["schema/profile.schema.json"] = json.dumps(document_schemas.of_profile(), indent=2) + "\n"
    for one in document_schemas.PUBLISHED:
        made[one.path] = json.dumps(document_schemas.of(one), indent=2) + "\n"
    return made


if __name__ == "__main__":
    for name, text in texts().items():
        (ROOT / name).parent.mkdir(exist_ok=True)
        (ROOT / name).write_text(text, encoding="utf-8")
