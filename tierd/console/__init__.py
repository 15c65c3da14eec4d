"""The commands that a person types, and the files that ship with tierd."""
