"""Training on several ranks in which one rank is late, each time for another reason."""
