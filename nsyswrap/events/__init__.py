"""What happened: operations, API calls, thread states, counters, Python stacks and lost events."""
