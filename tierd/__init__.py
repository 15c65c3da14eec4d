"""tierd: keep hot memory on fast nodes and cold memory on slow ones, by driving DAMON."""

__version__ = "0.1.0"
