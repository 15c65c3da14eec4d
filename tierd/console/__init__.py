"""The verbs: what a person types, and what comes with tierd."""
