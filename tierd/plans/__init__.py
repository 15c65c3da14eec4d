"""Plans: schemes as values, the writes that build them, and the smallest change between two."""
