"""Which Python tests look at a room of the C++ core, those that fail soonest first."""

from __future__ import annotations

#: Beginning of a path below cpp/tilesim, to files below tests. The longest beginning counts.
TESTS: dict[str, list[str]] = {
    "base": ["unit/test_base.py", "unit/test_expressions.py", "unit/test_dtypes.py", "unit/test_schemas.py",
             "badinput/test_machine_settings.py", "badinput/test_files.py", "unit/test_graph.py"],
    "graph": ["unit/test_graph.py", "unit/test_graph_costs.py", "unit/test_views.py", "unit/test_models.py",
              "functional/test_dimensions.py", "functional/test_lowerings.py", "unit/test_workloads.py", "badinput/test_junk.py"],
    "graph/patterns": ["functional/test_recognition.py", "functional/test_recognition_near_misses.py", "unit/test_models.py",
                       "functional/test_recognition_mutants.py", "functional/test_torch_layers.py"],
    "graph/passes": ["unit/test_graph.py", "unit/test_quantize.py", "functional/test_random_chains.py",
                     "functional/test_torch_layers.py", "functional/test_onnx.py", "unit/test_models.py"],
    "machine": ["unit/test_devices.py", "unit/test_schemas.py", "badinput/test_machine_settings.py", "badinput/test_files.py",
                "timing/test_unit_rates.py", "docs/test_settings.py", "functional/test_reasons.py"],
    "report": ["timing/test_counts.py", "timing/test_bottlenecks.py", "badinput/test_results.py", "timing/test_program_time.py",
               "unit/test_picture.py", "functional/test_figures_by_hand.py", "badinput/test_store.py"],
    "kernels": ["unit/test_kernels.py", "unit/test_kernels_elementwise.py", "unit/test_kernels_composite.py",
                "unit/test_kernels_torch.py", "unit/test_kernels_of_front_ends.py", "functional/test_integer_functions.py",
                "functional/test_torch_special.py", "functional/test_complex.py", "functional/test_linear_algebra.py"],
    "tile": ["functional/test_programs.py", "functional/test_tiled_equals_reference.py", "unit/test_tile_latencies.py",
             "functional/test_packed_contraction.py", "functional/test_lowerings.py", "timing/test_unit_rates.py"],
    "program": ["functional/test_programs.py", "functional/test_verify.py", "functional/test_verify_exact.py",
                "functional/test_verify_calls.py", "functional/test_verify_source.py", "functional/test_data_sources.py",
                "functional/test_tiled_equals_reference.py", "badinput/test_compiled_files.py", "functional/test_compiled_file.py",
                "functional/test_sub_tiles.py", "functional/test_orders_and_loops.py", "timing/test_replay.py"],
    "analytic": ["unit/test_closed_forms.py", "unit/test_analytic_gemm.py", "unit/test_analytic_models.py",
                 "unit/test_analytic_terms.py", "unit/test_analytic_monotone.py", "unit/test_family_labels.py",
                 "unit/test_analytic_control.py", "badinput/test_analytic_cli.py", "reference/test_gpu_tables.py",
                 "reference/test_samples.py"],
    "engine": ["timing/test_engine.py", "timing/test_hashes.py", "timing/test_chip.py", "timing/test_counts.py",
               "functional/test_figures_by_hand.py", "timing/test_program_time.py", "timing/test_bottlenecks.py",
               "timing/test_more_of_a_resource.py"],
    "engine/dram": ["timing/test_dram.py", "reference/test_dram.py", "timing/test_channel_bytes.py", "timing/test_hashes.py",
                    "badinput/test_dram.py", "reference/test_samples.py"],
    "engine/noc": ["reference/test_noc.py", "timing/test_region_networks.py", "timing/test_chip.py", "timing/test_hashes.py",
                   "unit/test_network.py", "timing/test_multicast_division.py", "timing/test_engine.py"],
    "engine/cache": ["timing/test_cache.py", "unit/test_cache_lines.py", "timing/test_cached_simulation.py",
                     "timing/test_hashes.py"],
    "engine/memory": ["timing/test_bank_memory.py", "timing/test_network_memory.py", "timing/test_channel_bytes.py",
                      "timing/test_regions.py", "timing/test_region_networks.py", "timing/test_dma.py", "timing/test_hashes.py",
                      "timing/test_layouts.py", "timing/test_dram.py", "timing/test_chip.py", "timing/test_engine.py"],
    "engine/jobs": ["timing/test_jobs.py", "timing/test_hashes.py", "timing/test_engine.py", "timing/test_sorts_of_cores.py"],
    "engine/results": ["timing/test_counts.py", "timing/test_bottlenecks.py", "timing/test_engine.py", "timing/test_hashes.py",
                       "timing/test_jobs.py", "timing/test_program_time.py", "functional/test_figures_by_hand.py"],
}


def python_tests(path: str) -> list[str]:
    """Files below `tests` for a source below cpp/tilesim; of no room known, none."""
    known = [room for room in TESTS if path.startswith(room + "/")]
    return [f"tests/{name}" for name in TESTS[max(known, key=len)]] if known else []
