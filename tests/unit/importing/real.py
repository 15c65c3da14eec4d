"""The files of policies/real: what the real damo and HMSDK's real generator wrote."""

from pathlib import Path

# Those that are started in a guest, whose addresses are the ones in these files.
ORIGINALS = (
    "hmsdk-4.0-demote-promote.yaml",
    "hmsdk-4.0-demote.yaml",
    "hmsdk-4.0-promote-global.yaml",
    "hmsdk-4.0-migrate-pieces.yaml",
    "hmsdk-3.0-global.yaml",
    "damo-2.6.3-fixed.json",
    "damo-2.8.9-fixed.json",
    "damo-2.8.9-tuned.yaml",
    "damo-3.4.3-fixed.yaml",
    "damo-3.4.3-tuned.json",
    "damo-3.4.3-new.json",
)


def folder() -> Path:
    return Path(__file__).parent / "policies" / "real"
