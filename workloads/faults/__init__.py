"""Faults planted one by one: small programs, each with one fault and a switch that fixes it.

Start them from the folder above, so that they find the modules that all workloads share::

    cd workloads
    python -m faults.few_workers              with the fault
    python -m faults.few_workers --fixed      the same work without it

Each begins with a docstring that says what it shows, and with constants. SHAPE says in what kind of program the fault
sits. LIBRARY names the library whose training loop runs, where it is not the program's own. EXPECTS holds, for the
options "" and "--fixed", the rules that a profile on a GPU must find, the planted one first. On a CPU the programs run
with small sizes, and do not show the faults. ``held_out`` has several programs in one module.
"""
