"""Whether this machine is as tierd needs it, and the report for a bug tracker."""
