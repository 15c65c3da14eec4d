"""Did it help: two ways of running a machine, compared by what was measured of each."""
