"""A profiler library that logs its calls, with the interface of the NVTX headers, in place of that of nsys."""

import subprocess
from pathlib import Path

LOG_VARIABLE = "LISTENER_LOG"

# The log is opened for each line: the program may close all files, clear its environment, or name another log.
_SOURCE = """
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
typedef void (*Function)(void);
typedef struct { size_t size; int (*table)(int, Function ***, unsigned int *); } Callbacks;
typedef struct { uint16_t version, size; uint32_t category; int32_t color_type; uint32_t color; int32_t payload_type,
                 reserved; uint64_t payload; int32_t message_type; const char *message; } Attributes;
static char own;
static char path[4096];
static void note(const char *line, int size) {
  const char *now = getenv("LISTENER_LOG");
  if (now) snprintf(path, sizeof path, "%s", now);
  int log = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (log < 0) return;
  if (write(log, line, size) < size) perror("listener");
  close(log);
}
static void *create(const char *name) {
  char line[300];
  note(line, snprintf(line, sizeof line, "domain %s\\n", name));
  return &own;
}
/* Numbers of ranges have 64 bits. */
static uint64_t started;
static uint64_t start(void *domain, const Attributes *a) {
  char line[300];
  note(line, snprintf(line, sizeof line, "start %.200s %08x %d %d %d\\n", a->message, a->color, a->version, a->size,
                      domain == &own));
  return ++started << 32;
}
static void end(void *domain, uint64_t number) {
  char line[300];
  note(line, snprintf(line, sizeof line, "end %d %d\\n", (int)(number >> 32), domain == &own));
}
int InitializeInjectionNvtx2(const void *(*tables)(uint32_t)) {
  const Callbacks *callbacks = tables(1);
  Function **table;
  unsigned int size;
  if (getenv("LISTENER_REFUSES")) return 0;
  if (tables(2) != NULL || tables(3) == NULL || callbacks->table(9, &table, &size)) return 0;
  if (!callbacks->table(5, &table, &size) || size < 16) return 0;
  if (getenv("LISTENER_DEAF")) return 1;
  *table[2] = (Function)start;
  *table[3] = (Function)end;
  *table[12] = (Function)create;
  return 1;
}
"""


def build_listener(folder: Path) -> Path:
    """Compile the library in a folder, and return its path.

    A process that loads it appends each call to the file in the variable ``LISTENER_LOG``.

    Raises:
        FileNotFoundError: There is no C compiler.
    """
    source, library = folder / "listener.c", folder / "liblistener.so"
    source.write_text(_SOURCE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", library, source], capture_output=True, check=True)
    return library
