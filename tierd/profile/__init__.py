"""What a machine's memory is like: who records it, what a record holds, what follows from it."""
