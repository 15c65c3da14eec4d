"""How much of what a sensor counts can be data: DAMON sees frames of memory, full or free."""


def cold_used_bytes(size_bytes: int, free_bytes: int, cold_bytes: int) -> int:
    """How much of what nobody accesses is data: the sensor counts free memory as well, and what
    the kernel keeps for itself."""
    return min(size_bytes - free_bytes, max(0, cold_bytes - free_bytes))


def hot_used_bytes(size_bytes: int, free_bytes: int, hot_bytes: int) -> int:
    """How much of what is sensed as hot can be: a region counts whole, free memory in it too."""
    return min(size_bytes - free_bytes, hot_bytes)
