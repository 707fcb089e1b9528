#!/usr/bin/env bash
# One step of setting up a checkout; the Makefile calls them in order and stamps those that are done.
#
#   tools/setup.sh venv      make .venv
#   tools/setup.sh base      nsyswrap itself, and what it runs on
#   tools/setup.sh dev       what its tests and checks run on
#   tools/setup.sh torch     PyTorch and nvtx, for workloads/
#   tools/setup.sh trainers  what trains in tests of recorded steps
#   tools/setup.sh site      what builds the site
#   tools/setup.sh browser   a Chromium and a Firefox for the tests of the HTML report
#
# Each step may be run again. Only `apt-get install` of a missing package leaves the checkout, and only as root.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv
python=${PYTHON:-python3}
torch=${TORCH:-auto}

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
  say "$*"
  exit 1
}

can_apt() { [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; }

# apt_install PACKAGE...: whether they are installed now
apt_install() {
  export DEBIAN_FRONTEND=noninteractive
  say "installing $* with apt-get"
  apt-get update -qq >/dev/null && apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# A lock names every package, so pip resolves nothing: --no-deps. With hashes, it refuses a newer release of what another
# package wants with an extra, such as coverage[toml], although the lock pins an older one.
pip_install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input "$@"; }

make_venv() {
  command -v "$python" >/dev/null || fail "there is no $python here: install Python 3.11 or newer, or name one with make PYTHON=..."
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" -V 2>&1): nsyswrap needs 3.11 or newer; name one with make PYTHON=..."
  # A virtual environment that works is kept, whoever made it.
  if [ -x "$venv/bin/python" ] && "$venv/bin/python" -m pip --version >/dev/null 2>&1; then return; fi
  say "making the virtual environment $venv"
  if has_ensurepip; then
    "$python" -m venv "$venv"
  elif can_apt && apt_install "python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" && has_ensurepip; then
    "$python" -m venv "$venv"
  elif "$python" -m pip --version >/dev/null 2>&1; then
    # pip can fill a virtual environment from outside, so it works without Debian's ensurepip.
    "$python" -m venv --without-pip "$venv"
    "$python" -m pip --python "$venv/bin/python" install --quiet --disable-pip-version-check --no-input pip
  else
    fail "$python cannot make virtual environments: run 'sudo apt-get install python3-venv' and then make again"
  fi
}

# Debian keeps ensurepip in a package of its own, and without it `python -m venv` leaves half an environment behind.
has_ensurepip() { "$python" -c 'import ensurepip, venv' 2>/dev/null; }

install_base() {
  say "installing nsyswrap and the pinned packages it runs on"
  pip_install --no-deps --require-hashes --requirement requirements/base.lock
  # The build backend is pinned in base.lock too: nothing is fetched to build with.
  pip_install --no-deps --no-build-isolation --editable .
}

install_dev() {
  say "installing the pinned packages that the tests and checks run on"
  pip_install --no-deps --require-hashes --requirement requirements/dev.lock
}

has_nvidia_driver() {
  [ -e /proc/driver/nvidia/version ] || { command -v nvidia-smi >/dev/null && nvidia-smi -L 2>/dev/null | grep -q '^GPU '; }
}

install_torch() {
  case "$torch" in
    auto) if has_nvidia_driver; then torch=cuda; else torch=cpu; fi ;;
    cpu | cuda) ;;
    *) fail "TORCH is '$torch': it is auto, cpu or cuda" ;;
  esac
  if [ "$torch" = cpu ]; then
    say "installing PyTorch's CPU build for the workloads"
    if try_cpu_torch; then return; fi
    say "pip's configured places have no CPU build of PyTorch for this Python, so the CUDA build is taken, several GB;" \
      "for the small one install torch from PyTorch's CPU index into $venv, with pip's --index-url, and run make again"
  else
    say "installing PyTorch's CUDA build for the workloads, several GB"
  fi
  pip_install --requirement requirements/torch-cuda.lock
}

# Whether the CPU build is installed now; any other failure than its absence ends the step.
try_cpu_torch() {
  local output
  if output=$(pip_install --requirement requirements/torch-cpu.lock 2>&1); then return 0; fi
  if grep -q 'No matching distribution found for torch==' <<<"$output"; then return 1; fi
  printf '%s\n' "$output" >&2
  exit 1
}

install_trainers() {
  say "installing the pinned packages that train in tests"
  pip_install --no-deps --require-hashes --requirement requirements/trainers.lock
}

install_site() {
  say "installing the pinned packages that build the site"
  pip_install --no-deps --require-hashes --requirement requirements/site.lock
}

# has_one_of NAME...: whether one of these programs is installed
has_one_of() {
  local name
  for name in "$@"; do
    if command -v "$name" >/dev/null; then return; fi
  done
  return 1
}

install_browser() {
  local missing=() shell=chromium-headless-shell
  # The shell draws no window, so tests of pages take two thirds of the time that they take in a whole Chromium.
  if ! has_one_of "$shell" chromium chromium-browser google-chrome google-chrome-stable ||
    { ! has_one_of "$shell" && can_apt && apt-cache show "$shell" >/dev/null 2>&1; }; then
    missing+=("$shell")
  fi
  has_one_of firefox-esr firefox || missing+=(firefox-esr)
  if [ "${#missing[@]}" -eq 0 ] || { can_apt && apt_install "${missing[@]}"; }; then return; fi
  say "these browsers are missing, so tests that open pages in them are skipped or slower;" \
    "for them run 'sudo apt-get install ${missing[*]}'"
}

case "${1:-}" in
  venv) make_venv ;;
  base) install_base ;;
  dev) install_dev ;;
  torch) install_torch ;;
  trainers) install_trainers ;;
  site) install_site ;;
  browser) install_browser ;;
  *) fail "usage: tools/setup.sh venv | base | dev | torch | trainers | site | browser" ;;
esac
