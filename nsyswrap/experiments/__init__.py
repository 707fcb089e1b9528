"""Changes that nsyswrap makes to a program from outside, and measures: the runs of `nsyswrap try`.

``changes`` has one file for each change, ``tried`` what runs in the program's process. Both are loaded there by file
path, as ``nsyswrap.capture.annotate`` is: they import only each other, relatively, and the standard library, and get
torch as an argument. The other modules start the runs and judge what they measured.
"""
