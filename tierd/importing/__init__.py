"""Policies of other tools as a configuration of tierd."""
