"""What is to be done: schemes as values, as writes, and the smallest change between two."""
