"""A profiler library that logs its calls, for the tests of marks."""

import subprocess
from pathlib import Path

import pytest

LISTENER = """
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
typedef void (*Function)(void);
typedef struct { size_t size; int (*table)(int, Function ***, unsigned int *); } Callbacks;
typedef struct { uint16_t version, size; uint32_t category; int32_t color_type; uint32_t color; int32_t payload_type,
                 reserved; uint64_t payload; int32_t message_type; const char *message; } Attributes;
static FILE *out;
static void *create(const char *name) { fprintf(out, "domain %s\\n", name); fflush(out); return out; }
static uint64_t number;
static uint64_t start(void *domain, const Attributes *a) {
  fprintf(out, "start %s %08x %d %d %d\\n", a->message, a->color, a->version, a->size, domain == out);
  fflush(out);
  return ++number;
}
static void end(void *domain, uint64_t ended) {
  fprintf(out, "end %d %d\\n", (int)ended, domain == out);
  fflush(out);
}
int InitializeInjectionNvtx2(const void *(*tables)(uint32_t)) {
  const Callbacks *callbacks = tables(1);
  Function **table;
  unsigned int size;
  if (getenv("LISTENER_REFUSES")) return 0;
  if (tables(2) != NULL || tables(3) == NULL || callbacks->table(9, &table, &size)) return 0;
  if (!callbacks->table(5, &table, &size) || size < 16) return 0;
  out = fopen(getenv("LISTENER_LOG"), "a");
  if (getenv("LISTENER_DEAF")) return 1;
  *table[2] = (Function)start;
  *table[3] = (Function)end;
  *table[12] = (Function)create;
  return 1;
}
"""


@pytest.fixture(scope="session")
def listener(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile a profiler library that logs its calls, with the interface of the NVTX headers."""
    folder = tmp_path_factory.mktemp("listener")
    source, library = folder / "listener.c", folder / "liblistener.so"
    source.write_text(LISTENER)
    built = subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], capture_output=True, check=False)
    if built.returncode:
        pytest.skip("there is no C compiler")
    return library
