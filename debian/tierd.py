#!/usr/bin/python3
from tierd.cli import main

raise SystemExit(main())
