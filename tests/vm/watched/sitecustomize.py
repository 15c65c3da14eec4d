"""Python runs this first in each process that tests start, so that the guard watches it too."""

from tests.vm.guard import watch

watch()
