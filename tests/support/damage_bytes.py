"""Damages bytes, whatever they are; texts that are no names, no paths, no text; see `damage`."""

from __future__ import annotations

import random

TEXTS = [
    *("", " ", "\0", "a\0b", "\n", "\\ud800", "é漢\u202e", "\ufeff", "x" * 300, "a" * 100_000, "%s%n", "{0}", "'; --"),
    *(
        ".",
        "..",
        "../../etc/passwd",
        "/etc/passwd",
        "/dev/zero",
        "//",
        "core",
        "main",
        "f32",
        "__class__",
        "<b>",
        "${x}",
    ),
    *("16 EiB", "1 GHz", "9223372036854775807 * 9223372036854775807", "(" * 1000, "read(x, 0)", "-1 B", "1e400 GB/s"),
]
LONGEST = 1 << 21  # bytes of a damaged copy: more only makes the run slow

Choose = random.Random


def bytes_damaged(data: bytes, choose: Choose) -> bytes:
    """Bits flipped, bytes put in, taken out, said again, numbers of 2, 4 and 8 bytes replaced, cut off."""
    copy = bytearray(data)
    for _ in range(choose.choice([1, 1, 2, 4, 16])):
        if not copy:
            break
        at, what = choose.randrange(len(copy)), choose.random()
        if choose.random() < 0.3:
            at = min(at, choose.randrange(64))  # headers
        if what < 0.3:
            copy[at] ^= 1 << choose.randrange(8)
        elif what < 0.45:
            copy[at] = choose.choice([0, 1, 0x7F, 0x80, 0xFF, choose.randrange(256)])
        elif what < 0.65:
            size = choose.choice([2, 4, 8])
            number = choose.choice([0, 1, -1, 1 << 31, 1 << 32, 1 << 61, 1 << 62, 1 << 63, len(copy), len(copy) - 1])
            copy[at : at + size] = (number % (1 << (8 * size))).to_bytes(size, choose.choice(["little", "big"]))
        elif what < 0.75:
            del copy[at : at + choose.choice([1, 2, 8, 100])]
        elif what < 0.85:
            copy[at:at] = copy[at : at + choose.choice([1, 8, 64, 1000])] * choose.choice([1, 1, 30])
        elif what < 0.92:
            copy[at:at] = bytes(choose.randrange(256) for _ in range(choose.choice([1, 4, 16])))
        elif what < 0.96:
            del copy[at:]
        else:
            del copy[len(copy) - choose.randrange(1, 17) :]
    return bytes(copy[:LONGEST])
