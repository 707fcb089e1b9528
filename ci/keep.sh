#!/bin/bash
# Keep the results of NEW, a shell pattern of result folders, in main/: report.json and run.json of the newest 30 runs.
set -eu

# The pattern is split into words here, on purpose.
# shellcheck disable=SC2086
for run in $NEW; do
  target="main/$(date -u +%Y%m%dT%H%M%S%N)-$(basename "$run")"
  mkdir -p "$target"
  cp "$run/report.json" "$run/run.json" "$target"
done
# Names begin with the time, so the oldest come first.
find main -mindepth 1 -maxdepth 1 -type d | sort | head -n -30 | while read -r old; do rm -r "$old"; done
