"""What the timeline of the page draws: rows of events over one grid of bins."""
