#!/bin/bash
# Run nsyswrap gate on NEW and AGAINST, two shell patterns, with OPTIONS; write gate.md, and its exit code for later steps.
#
# The exit code of this script is 0 where gate.md was written: a later step decides by the code, after the comment.
set -u

code=0
rm -f gate.md
# Patterns and options are split into words here, on purpose.
# shellcheck disable=SC2086
if compgen -G "${AGAINST%% *}" > gate.base; then
  nsyswrap gate $NEW --against $AGAINST ${OPTIONS:-} -o gate.md || code=$?
else
  printf '%s\n' '<!-- nsyswrap gate -->' '### nsyswrap gate: cannot tell' '' 'There are no runs of the base yet.' > gate.md
  code=3
fi
rm -f gate.base
if [ -n "${GITHUB_OUTPUT:-}" ] && [ -f gate.md ]; then echo "code=$code" >> "$GITHUB_OUTPUT"; fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ] && [ -f gate.md ]; then cat gate.md >> "$GITHUB_STEP_SUMMARY"; fi
echo "$code" > gate.code
if [ -f gate.md ]; then exit 0; fi
exit "$code"
