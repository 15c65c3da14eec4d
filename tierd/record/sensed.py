"""Turn sensed bytes into bytes of data. DAMON counts free memory too."""

# A headroom that is short by less than this share is normal: each allocation takes some.
SHORT_SHARE = 0.1


def is_headroom_short(free_bytes: int, target_bytes: int) -> bool:
    """Return whether headroom is missing. `status` and `history` both use this."""
    return free_bytes < target_bytes * (1 - SHORT_SHARE)


def cold_used_bytes(size_bytes: int, free_bytes: int, cold_bytes: int) -> int:
    """Return how much cold memory is in use.

    The sensor also counts free memory, and memory that the kernel reserves.
    """
    return min(size_bytes - free_bytes, max(0, cold_bytes - free_bytes))


def hot_used_bytes(size_bytes: int, free_bytes: int, hot_bytes: int) -> int:
    """Return how much hot memory may be in use. A region counts whole, with free memory in it."""
    return min(size_bytes - free_bytes, hot_bytes)
