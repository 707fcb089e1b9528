"""Programs of kinds that people know, each as it is often first written, and fixed.

Start them from the folder above, so that they find the modules that all workloads share::

    cd workloads
    python -m known.nanogpt              as first written
    python -m known.nanogpt --fixed      after the advice of its report

Weights and data are random, so a program needs no files. On a CPU the programs run with small sizes.
tools/known_programs.py has the whole list, with those of other folders, and profiles both forms.
"""
