"""The simulated machine: a second kernel with the same files as Linux, not a mock."""
