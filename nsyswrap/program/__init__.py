"""The program as it runs alone: the recorded run without the profiler, calibrated by steps that were not recorded."""
