"""Python runs this first in every process that the tests start: they are watched like the tests."""

from tests.vm.guard import watch

watch()
