"""Doing it: all that changes a kernel, and all that undoes it."""
