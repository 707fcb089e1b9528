"""Why the GPU was idle: each idle nanosecond with its cause, root cause, phase, thread and line, worked out once."""
