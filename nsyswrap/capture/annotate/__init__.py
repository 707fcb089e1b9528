"""NVTX phases put into an unedited PyTorch program.

``injection`` runs in nsyswrap: it prepares the environment of the program and reads what its processes answered. All
else is loaded in the processes of the program, by its file and not as a part of nsyswrap, which need not be installed
there: these modules import one another relatively, and nothing but the standard library. torch they are given.
"""
