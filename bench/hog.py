"""Takes memory and never touches it again: `python3 -m bench.hog BYTES` in a guest.

It prints a line when it has the memory, and holds it until it is killed.
"""

import ctypes
import mmap
import signal
import sys


def main() -> int:
    memory = mmap.mmap(-1, int(sys.argv[1]), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    # Pages of zeroes are not there until somebody writes to them.
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    ctypes.memset(address, 1, len(memory))
    print("taken", flush=True)
    signal.pause()
    return 0


if __name__ == "__main__":
    sys.exit(main())
