"""Linux calls that C libraries make behind printf, perror, assert, realloc: as under qemu-user."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

import tilesim.isa as isa
from support import riscv_tools

STREAMS = r"""
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void said(FILE *to, const char *form, ...) { va_list a; va_start(a, form); vfprintf(to, form, a); va_end(a); }
int main(int argc, char **argv) {
  errno = ENOENT; perror("perror");
  fprintf(stderr, "%s: %d\n", strerror(EACCES), errno);
  int copy = dup(1);
  dprintf(copy, "dup %d\n", copy > 2);
  FILE *again = fdopen(dup(2), "w");
  said(again, "%-8.3e|%+a|%*d|%s\n", 12345.678, 1.0 / 3, 7, 42, "text");
  fclose(again);
  int high = fcntl(1, F_DUPFD, 20);
  dprintf(high, "at %d, mode %d\n", high, (fcntl(high, F_GETFL) & O_ACCMODE) != O_RDONLY);
  close(high), close(copy);
  printf("closed: %zd %d\n", write(high, "x", 1), errno == EBADF);
  fflush(stdout);
  int one = dup3(2, 17, 0);
  dprintf(one, "dup3 %d %d\n", dup3(17, 17, 0), errno == EINVAL);
  printf("bad: %d %d %d\n", dup(99), dup3(98, 5, 0), fcntl(97, F_GETFD)); fflush(stdout);
  close(0);
  printf("lowest %d\n", dup(1)); fflush(stdout);
  size_t size = 1000; unsigned char *p = malloc(size); unsigned sum = 0;
  memset(p, 1, size);
  while (size < 40u << 20) { p = realloc(p, size * 3); memset(p + size, (int)(size & 255), size * 2); size *= 3; }
  for (size_t i = 0; i < size; i += 997) sum += p[i];
  p = realloc(p, 70000);
  printf("%u %u\n", sum, p[69999]); free(p);
  fflush(stdout);
  if (argc > 1 && !strcmp(argv[1], "assert")) assert(argc > 5 && "too few");
  if (argc > 1 && !strcmp(argv[1], "abort")) abort();
  close(1);
  return printf("lost\n") > 0 && fflush(stdout) != 0 ? 3 : 4;
}
"""

FILES = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(void) {
  char line[50] = "";
  FILE *f = freopen("/out.txt", "w", stdout);
  if (!f) return 1;
  printf("into the file\n"); fflush(stdout);
  int copy = dup(fileno(stdout));
  if (write(copy, "twice\n", 6) != 6) return 2;
  fclose(stdout);
  if (write(copy, "thrice\n", 7) != 7) return 3;   /* another descriptor of the same file stays open */
  f = fopen("/out.txt", "r");
  while (fgets(line, 50, f)) fputs(line, stderr);
  return 0;
}
"""


def under_qemu(file: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    qemu = shutil.which("qemu-riscv64")
    if qemu is None:
        pytest.skip("qemu-riscv64 is not installed (Debian: qemu-user)")
    return subprocess.run([qemu, str(file), *arguments], input=b"", capture_output=True, timeout=120, check=False)


def test_streams_and_memory(tmp_path: Path) -> None:
    file = riscv_tools.linux_gcc(tmp_path, STREAMS, "-O1", "-D_GNU_SOURCE")
    theirs = under_qemu(file)
    ours = isa.run(file, input=b"")
    assert ours.trap is None, ours.trap
    assert (ours.output, ours.errors, ours.exit_status) == (theirs.stdout, theirs.stderr, theirs.returncode)
    assert b"perror: No such file" in ours.errors and ours.exit_status == 3
    # behind abort there is nobody to catch the signal: the trap names it, and what was written before stays
    for how in ("assert", "abort"):
        theirs, ours = under_qemu(file, how), isa.run(file, how, input=b"")
        assert ours.trap is not None and "abort" in str(ours.trap["detail"])
        assert ours.output == theirs.stdout
        assert ours.errors == theirs.stderr.split(b"qemu: uncaught")[0]
    assert b"too few" in isa.run(file, "assert").errors


def test_a_stream_goes_to_a_file(tmp_path: Path) -> None:
    file = riscv_tools.linux_gcc(tmp_path, FILES, "-O1")
    root = tmp_path / "root"
    root.mkdir()
    ours = isa.run(file, root=root)
    assert (ours.exit_status, ours.trap) == (0, None)
    assert ours.errors == (root / "out.txt").read_bytes() == b"into the file\ntwice\nthrice\n"
