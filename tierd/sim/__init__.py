"""The simulated machine: another kernel behind the file protocol, not a mock of one."""
