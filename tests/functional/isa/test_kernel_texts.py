"""Texts that name kernels: what is missing, twice or out of range is said; permutes run under qemu-user too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import tilesim as ts
import tilesim.isa as isa
from support.riscv_tools import under_qemu
from tilesim import _core
from tilesim.isa.assembly import elf_of
from tilesim.isa.elf import read_elf


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("mma", "element type"),
        ("mma bf16", "second element type"),
        ("mma bf16 b1 m8 n8 k8 ko1", "dtype"),
        ("mma bf16 bf16 m8 n8 k8 ko1", "'b' (batch) is missing"),
        ("mma bf16 bf16 b1 n8 k8 ko1", "'m' (rows) is missing"),
        ("mma bf16 bf16 b1 m8 k8 ko1", "'n' (columns) is missing"),
        ("mma bf16 bf16 b1 m8 n8 ko1", "'k' (contraction) is missing"),
        ("mma bf16 bf16 b1 m8 n8 k8", "'ko' (outer contraction) is missing"),
        ("mma bf16 bf16 b1 m8 m9 n8 k8 ko1", "'m' stands twice"),
        ("mma bf16 bf16 b1 m8 n8 k8 ko1 pipelined pipelined", "'pipelined' stands twice"),
        ("mma bf16 bf16 b1 m8 n8 k8 ko1 e5", "unknown field 'e'"),
        ("mma bf16 bf16 b1 m0 n8 k8 ko1", "'m' is a number from 1"),
        ("mma bf16 bf16 b1 m n8 k8 ko1", "'m' has no number"),
        ("mma bf16 bf16 b1 m8x n8 k8 ko1", "'m8x'"),
        ("", "empty"),
        ("mmaa bf16", "unknown kind"),
        ("permute bf16 e8,4 i4,1", "'o' (strides of what is written) is missing"),
        ("permute bf16 e8,4 i4 o1,8", "1 strides of 2 extents"),
        ("permute bf16 e8,4 i4,1 o1,8 i4,1", "'i' stands twice"),
        ("permute bf16 e8,,4 i4,1 o1,8", "'e8,,4'"),
        ("permute bf16 e8,4, i4,1 o1,8", "no number"),
        ("permute bf16 e8,4 i4,-1 o1,8", "from 0"),
        ("permute bf17 e8 i1 o1", "bf16"),
        ("permute u8 e1000000,1000 i1000,1 o1,1000000", "2^28"),
    ],
)
def test_texts_that_say_no_kernel(text: str, said: str) -> None:
    for call in (isa.kernel, isa.kernel_text):
        with pytest.raises(ts.UserError) as raised:
            call(text, "edge-8")
        assert said in str(raised.value), raised.value


PERMUTES = {
    "transpose": ("permute bf16 e24,40 i40,1 o1,24", (24, 40), (1, 0)),
    "rows apart": ("permute i32 e5,33 i33,1 o40,1", (5, 33), None),
    "three dims": ("permute u8 e6,7,20 i140,20,1 o20,120,1", (6, 7, 20), (1, 0, 2)),
    "one": ("permute f32 e1 i1 o1", (1,), None),
}


@pytest.mark.parametrize("name", PERMUTES)
def test_permutes_run_elsewhere(name: str, tmp_path: Path) -> None:
    """The kernel as the ELF file has it, given data and asked for its result, here and under qemu-user."""
    text, shape, order = PERMUTES[name]
    program = read_elf(isa.kernel(text, "edge-8"))
    ((base, code, _, _),) = program.image["segments"]
    start, end = program.address("in"), program.address("out")
    words = text.split()
    dtype = {"bf16": np.uint16, "i32": np.int32, "u8": np.uint8, "f32": np.float32}[words[1]]
    out_strides = [int(stride) for stride in words[4][1:].split(",")]
    x = np.random.default_rng(0).integers(1, 100, shape).astype(dtype)
    size = sum((e - 1) * s for e, s in zip(shape, out_strides, strict=True)) + 1
    wanted = np.zeros(size, dtype)
    for index in np.ndindex(*shape):
        wanted[sum(i * s for i, s in zip(index, out_strides, strict=True))] = x[index]
    if order is not None:
        np.testing.assert_array_equal(wanted.reshape(x.transpose(order).shape), x.transpose(order))
    around = f"""
        li a0, 0\nli a1, {start}\nli a2, {x.nbytes}\nli a7, 63\necall
        call kernel
        li a0, 1\nli a1, {end}\nli a2, {wanted.nbytes}\nli a7, 64\necall
        li a0, 0\nli a7, 93\necall"""
    inside = program.address("kernel") - base
    parts = [".byte " + ", ".join(map(str, part)) for part in (code[:inside], code[inside:])]
    listed = f"{parts[0]}\nkernel: {parts[1]}\n.balign 4\n_start:{around}"
    made, labels = _core.isa_assemble(listed, base)
    elf = elf_of(made, labels, labels["_start"], end + (1 << 20) - base - len(made))
    found = isa.run(elf, input=x.tobytes(), machine="edge-8")
    assert found.exit_status == 0 and found.output == wanted.tobytes(), found.trap
    (tmp_path / "k.elf").write_bytes(elf)
    (tmp_path / "k.elf").chmod(0o755)
    if "xl." in isa.kernel_text(text, "edge-8"):
        return  # an instruction of the core's own
    done = under_qemu(tmp_path / "k.elf", given=x.tobytes(), vlen=isa.Core.from_machine("edge-8").vlen)
    assert done.returncode == 0 and done.stdout == wanted.tobytes(), done.stderr
