"""Programs with two or three faults at once, each with a switch: they check plans of several changes.

Start them from the folder above, so that they find the modules that all workloads share::

    cd workloads
    python -m combined.pictures                                    with all faults
    python -m combined.pictures --fix workers                      with one of them fixed
    python -m combined.pictures --fix workers --fix optimizer      with none left

Each begins with a docstring that says what it shows, and with constants. SHAPE says in what kind of program the faults
sit. LIBRARY names the library whose training loop runs, where it is not the program's own. FAULTS holds the rule of
each fault by the name of its switch. On a CPU the programs run with small sizes, and do not show the faults.
"""
