"""The errors of virtual machines: why one cannot run here, and how one can fail."""


class VmError(Exception):
    """There is no virtual machine. The text says why."""


class Missing(VmError):
    """This machine lacks something: a package, a permission, or the network."""


class Endless(VmError):
    """A program did not end within its bound."""


class LostGuest(VmError):
    """The guest sent nothing within its bound, or ended without a verdict."""


class Panicked(VmError):
    """The guest's kernel panicked. That is a result, so it is not tried again."""
