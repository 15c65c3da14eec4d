#!/usr/bin/python3
import sys

sys.path.insert(0, "/usr/share/tierd")

from tierd.cli import main

raise SystemExit(main())
