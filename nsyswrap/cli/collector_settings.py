"""Settings of Python's garbage collector that make a command start and end sooner."""

import gc

# Python looks for garbage after each 700 new objects, and now and then among all of them. Loading the libraries makes
# some 400,000 objects that stay, and a report has no cycles to speak of.
NEW_OBJECTS = 100_000


def tune_collector() -> None:
    """Make Python look for garbage less often."""
    gc.set_threshold(NEW_OBJECTS)
