"""Makes text for people and JSON documents for programs, from values that are arguments."""
