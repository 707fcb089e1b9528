"""The timeline of the page: rows of events over one grid of bins."""
