"""Attribute idle GPU time: each idle nanosecond has a cause, a root cause, a phase, a thread and a line of Python."""
