"""Measurements, made by `make bench`; nothing here is a test."""
