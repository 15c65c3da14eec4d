"""The loop of the daemon, its files, and its messages to systemd and the journal."""
