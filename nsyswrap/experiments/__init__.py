"""Runs without nsys: changes made from outside and measured (`nsyswrap try`), and the same work proved (`verify`).

``changes`` has one file for each change, ``tried`` what runs in the program's process. Both are loaded there by file
path, as ``nsyswrap.capture.annotate`` is: they import only each other, relatively, and the standard library, and get
torch as an argument. So is ``work_record``, for `verify`. The other modules start the runs and judge what they measure.
"""
