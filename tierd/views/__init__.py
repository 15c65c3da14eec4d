"""How things are said and drawn: text for people and documents for programs, of values."""
