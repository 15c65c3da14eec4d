"""What keeps a real kernel from running here, and what can happen to one that does."""


class VmError(Exception):
    """No virtual machine, for the reason that the sentence gives."""


class Missing(VmError):
    """This machine lacks something: installing it, or the network, would help."""


class Endless(VmError):
    """A program did not end within its bound."""


class LostGuest(VmError):
    """The guest gave no sign of life within its bound, or ended without a verdict."""


class Panicked(VmError):
    """The guest's kernel panicked: that is a result, and trying again would hide it."""
