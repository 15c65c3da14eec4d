"""The daemon's loop: when it does what, and what systemd and the journal are told."""
