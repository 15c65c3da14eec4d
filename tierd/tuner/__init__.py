"""How much is to move now: what is sensed, asked for and told to the kernel."""
