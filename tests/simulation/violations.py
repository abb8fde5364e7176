"""The error of every simulation: the program under test broke one of its guarantees."""


class PropertyViolated(AssertionError):
    """A guarantee of the program did not hold in one run."""
