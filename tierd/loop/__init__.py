"""Keeping it going: when what happens, and what systemd and the journal hear of it."""
