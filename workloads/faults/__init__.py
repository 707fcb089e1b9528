"""Faults planted one by one: small programs, each with one fault and a switch that fixes it.

They are started from the folder above, so that they find what all workloads share::

    cd workloads
    python -m faults.few_workers              with the fault
    python -m faults.few_workers --fixed     the same work without it

Each begins with a docstring that says what it shows, and with EXPECTS: for the options "" and "--fixed", the rules
that a profile of it on a GPU must find, the one of the fault first. On a CPU they run in small, and show nothing.
"""
