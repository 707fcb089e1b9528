"""The sections of the report, one file a section, with its findings and advice."""
