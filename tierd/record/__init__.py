"""What is known and kept: the snapshot of a tick, totals, history, and where on disk they are."""
