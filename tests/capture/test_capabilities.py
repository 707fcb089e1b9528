"""The flags of an nsys are read from its help."""

from pathlib import Path

import pytest
from capture_fixtures import executable, fake_nsys

from nsyswrap.base.errors import CaptureError
from nsyswrap.capture.locate import Nsys, capabilities_of, flags_in, traces_in

__all__ = ["fake_nsys"]

HELP = """
usage: nsys profile [<args>] [application] [<application args>]

\t-b, --backtrace=

\t   Possible values are 'lbr', 'fp', 'dwarf', or 'none'.
\t   --not-a-flag is named in a sentence.

\t(Experimental) --nic-metrics=

\t--pytorch=

\t   Possible values are 'autograd-nvtx', 'none'.

\t-t, --trace=

\t   Possible values are 'cuda', 'cuda-hw', 'nvtx',
\t   'cublas-verbose' or 'none'.
\t   If '<api>-annotations' is selected, the API 'other' is traced too.

\t--wait=
"""


def test_flags_are_read_where_they_are_defined() -> None:
    """A flag is at the start of its line, possibly after its short form or a word in brackets."""
    assert flags_in(HELP) >= {"--backtrace", "--nic-metrics", "--pytorch", "--trace", "--wait"}


def test_only_values_of_trace_are_traces() -> None:
    """Values of other flags and words in later sentences are ignored."""
    assert traces_in(HELP) == {"cuda", "cuda-hw", "nvtx", "cublas-verbose", "none"}


def test_the_real_nsys_has_all_flags_of_a_default_capture(nsys: Nsys) -> None:
    """This reads the help of the nsys on this machine."""
    can = capabilities_of(nsys)
    assert {"cuda", "nvtx", "osrt", "cublas", "cudnn"} <= can.traces
    assert {"--trace", "--sample", "--cpuctxsw", "--cuda-graph-trace", "--output", "--wait"} <= can.profile_flags
    assert {"--type", "--output", "--force-overwrite"} <= can.export_flags


def test_an_nsys_without_help_is_an_error(tmp_path: Path) -> None:
    """Such a program may be another program with the name nsys."""
    odd = Nsys(executable(tmp_path / "nsys", "#!/bin/sh\necho hello\n"), (1,), "test")
    with pytest.raises(CaptureError, match="profile --help names no flags"):
        capabilities_of(odd)


def test_an_nsys_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    """It may have been removed since it was found."""
    with pytest.raises(CaptureError, match="--help fails"):
        capabilities_of(Nsys(tmp_path / "gone", (1,), "test"))
