"""What tierd knows and keeps: the snapshot of a tick, totals, history, and their files."""
