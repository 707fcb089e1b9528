"""The ranks of a job: who they are, one clock for all, their collectives, and which rank the others wait for."""
