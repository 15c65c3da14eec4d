"""Reads the machine: nodes, tiers, features of the kernel, and other programs that use DAMON."""
