"""The version of nsyswrap."""

__version__ = "0.1.0"
