"""Kernel menus of libraries, and the source of each menu."""

from __future__ import annotations

from ..graph import user_error

__all__ = ["BY_RULES", "SOURCES", "kernels"]

_LARGE = 1e18
_TILES = [(128, 128), (128, 256), (256, 128), (64, 256), (128, 64), (64, 128), (64, 64), (64, 32), (32, 64), (16, 64)]
_LANES = [(128, 128), (128, 64), (64, 64), (128, 32), (32, 128), (32, 32)]
_REGISTERS = [(96, 64), (48, 64), (24, 64), (12, 32), (6, 16), (48, 8), (16, 4), (1, 64)]  # narrow: OpenBLAS at edges
_BLOCK_SCALED = [(128, 64), (128, 128), (128, 256), (256, 128), (256, 256)]
_LIBRARY = [(m, n, 64, 16, 0, _LARGE, 0, _LARGE) for m, n in _TILES]


def _vector(most_m: float, columns: float = 1, most_n: float = _LARGE) -> tuple[float, ...]:
    return (0, columns, 1, 1, 0, most_m, 0, most_n)


# Menus by name. Row: tile m, n, k, most splits of k, least and most m, least and most n; tile m 0: matrix-vector.
_MENUS: dict[str, list[tuple[float, ...]]] = {
    # cuBLAS and similar libraries: tiles of NVIDIA's CUTLASS profiler, split-K up to 16, matrix-vector for one row
    "library": [*_LIBRARY, _vector(1)],
    # the same, chosen by heuristics: cuBLAS on Ampere and Ada (on Hopper persistent kernels even out the last wave)
    "library-rules": [*_LIBRARY, _vector(1)],
    # libraries with special matrix-vector kernels up to four rows (TensorRT-LLM: smooth-quant, weight-only, fp8)
    "library-vector4": [*_LIBRARY, _vector(4)],
    # TensorRT-LLM's weight-only kernels on Ampere: always 128 columns of weights, up to seven splits, and matrix-vector
    # kernels of eight columns a block for few rows; a profiler chooses
    "trtllm-weight-only": [
        *[(m, 128, 64, 7, 0, _LARGE, 0, _LARGE) for m in (128, 64, 32, 16)],
        _vector(4, 8),
        _vector(8, 8, 3072),
    ],
    # vLLM's fixed table for fp8 on Hopper (CUTLASS 3; the measured version chooses by m alone, without split-K)
    "vllm-fp8-sm90": [
        (64, 64, 128, 1, 0, 64, 0, _LARGE),
        (64, 128, 128, 1, 65, 128, 0, _LARGE),
        (128, 128, 128, 1, 129, _LARGE, 0, _LARGE),
    ],
    # vLLM's fixed table for fp8 on RTX Blackwell
    "vllm-fp8-sm120": [
        (16, 64, 128, 1, 0, 16, 0, _LARGE),
        (32, 64, 128, 1, 17, 32, 0, _LARGE),
        (64, 64, 128, 1, 33, 256, 0, _LARGE),
        (128, 128, 128, 1, 257, _LARGE, 0, _LARGE),
    ],
    # CUTLASS kernels for block-scaled 4-bit floats: k-tiles of 128 bytes, 128 rows at least, no split of k (CUTLASS's
    # example 72 and its sm100 builder; those of TensorRT-LLM are timed beforehand)
    "fp4-sm100": [(m, n, 256, 1, 0, _LARGE, 0, _LARGE) for m, n in _BLOCK_SCALED],
    # the kernel that TensorRT-LLM runs without its autotuner, as AIConfigurator's collector does (fp4Gemm.cpp)
    "fp4-sm100-untuned": [(128, 256, 256, 1, 0, _LARGE, 0, _LARGE)],
    # the same kernels for RTX Blackwell, whose shared memory holds half as much of k (CUTLASS's example 79)
    "fp4-sm120": [(m, n, 128, 1, 0, _LARGE, 0, _LARGE) for m, n in [(128, 128), (256, 128)]],
    # single-precision kernels on vector lanes
    "simt": [
        *[(m, n, 8, 16, 0, _LARGE, 0, _LARGE) for m, n in _LANES],
        _vector(4),
    ],
    # cuBLAS's batched products, one call per column block of one or two small tiles
    "simt-batched": [(64, n, 8, 4, 0, _LARGE, 0, _LARGE) for n in (64, 128)],
    # one large tile and no split of k (int8 through torch's integer product on T4)
    "simt-whole": [(128, 128, 8, 1, 0, _LARGE, 0, _LARGE)],
    # one large tile without a split, and a kernel for up to four columns, four rows to a block (int8 of cuBLAS 10.1 on
    # vector lanes: inferred from the 35 DeepBench rows, where 35 x 1500 x 2048 takes as long as 128 rows would)
    "simt-thin": [(128, 128, 8, 1, 0, _LARGE, 0, _LARGE), _vector(4, 4)],
    # implicit products of convolutions: 128 outputs, no split
    "conv-simt": [(128, n, 8, 1, 0, _LARGE, 0, _LARGE) for n in (64, 32)],
    # register tiles of a CPU library, blocks of k that fit the first cache; weights are packed beyond one row
    "cpu": [(m, n, 8, 1, 0, _LARGE, 0, _LARGE) for m, n in _REGISTERS] + [_vector(1)],
    # the same with packed weights, which a product of few rows reads once
    "cpu-packed": [(m, n, 8, 1, 0, _LARGE, 0, _LARGE) for m, n in _REGISTERS] + [_vector(16)],
}  # fmt: skip


# Libraries that choose by heuristics; the others time all kernels in advance or have only one.
BY_RULES = {"library-rules", "simt"}


def kernels(name: str) -> list[tuple[float, ...]]:
    """Returns the kernels of a menu, one row each."""
    if (edge := name.removeprefix("array-")) != name and edge.isdecimal():
        # systolic arrays: n and k are the array's edge, m counts streamed rows; large arrays take 8 at once
        rows = (512, 256, 128, 8) if int(edge) >= 128 else (512, 128, 32, 8, 2, 1)
        return [(m, int(edge), int(edge), 1, 0, _LARGE, 0, _LARGE) for m in rows]
    if name not in _MENUS:
        raise user_error("unknown menu of kernels", value=f"'{name}'", allowed=", ".join([*_MENUS, "array-<edge>"]))
    return _MENUS[name]


_FILLED = "assumption without measurements"
# Sources of menus. "rows": inferred from measured times, so that choosing the menu is also a fit.
SOURCES: dict[str, str] = {
    "library": "tiles of NVIDIA's CUTLASS profiler",
    "library-rules": "as library; the rule is inferred from the 1200 bf16 rows of A100, and holds on those of L40S",
    "library-vector4": "as library; up to four rows: inferred from the rows of A100 (sq) and L40S (fp8), 1200 each",
    "trtllm-weight-only": "TensorRT-LLM's sources (tiles, splits up to seven); up to four rows, and eight up to 3072 "
    "columns: inferred from 2400 rows of A100 (int8_wo, int4_wo)",
    "vllm-fp8-sm90": "vLLM's sources (dispatch by m); 1200 rows of H100 agree that k is not split",
    "vllm-fp8-sm120": "vLLM's sources; no rows",
    "fp4-sm100": "CUTLASS's examples; no rows",
    "fp4-sm100-untuned": "TensorRT-LLM's and the collector's sources; no rows",
    "fp4-sm120": "CUTLASS's examples; no rows",
    "simt": "tiles of CUTLASS's profiler; up to four rows in one pass: assumption without measurements",
    "simt-batched": "inferred from 600 rows of T4 (NeuSight, batched): one of 25 menus with the least error on "
    "held-out halves",
    "simt-whole": "assumption that agrees with eight rows of T4 (mlsim, int8)",
    "simt-thin": "inferred from 35 rows of T4 (DeepBench, int8): one tile of 128 by 128 without a split, and a special "
    "kernel for up to four columns, used where it is faster",
    "conv-simt": "inferred from 300 rows of T4 (NeuSight): tiles of 128 outputs by 32 or 64 filters, no split; one of "
    "16 menus with the least error on held-out halves",
    "cpu": "OpenBLAS's sources (register tiles and edges)",
    "cpu-packed": "as cpu; up to sixteen rows in one pass over packed weights: " + _FILLED,
    "array-128": "edge of the array (likewise for other edges); rows per block: " + _FILLED,
}
