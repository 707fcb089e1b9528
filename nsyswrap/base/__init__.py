"""The ground of all packages, without a domain: errors, units, time intervals, patterns, privacy and text files."""
