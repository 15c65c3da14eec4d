"""Everything that changes a kernel, and everything that undoes these changes."""
