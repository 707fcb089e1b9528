"""Adds NVTX ranges to an unchanged PyTorch program: its steps, and what it does in them. It replaces nothing there.

``injection`` runs in nsyswrap: it prepares the program's environment and reads the status files of its processes. The
other modules are loaded in these processes, by file path, because nsyswrap need not be installed there. So they import
only each other, relatively, and the standard library; they get torch as an argument.
"""
