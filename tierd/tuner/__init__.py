"""The tuner: what sensors count, how much should move, and what the kernel is told."""
