"""Loads what the analysis of a capture needs while nsys still exports the capture, since a core is idle then."""

import importlib
import threading
from contextlib import suppress

# The modules that `profile` needs between the export and the page; they load pandas and the rest.
NEEDED = (
    "nsyswrap.trace.load",
    "nsyswrap.report",
    "nsyswrap.render.json_report",
    "nsyswrap.render.report_document",
    "nsyswrap.render.html_writer",
    "nsyswrap.render.text_writer",
)


def load_in_background() -> threading.Thread:
    """Begin to load the modules of the analysis in another thread, and return it.

    A module that cannot be loaded fails again where it is used, and is reported there.
    """

    def load() -> None:
        with suppress(Exception):
            for name in NEEDED:
                importlib.import_module(name)

    thread = threading.Thread(target=load, name="load the analysis")
    thread.start()
    return thread
