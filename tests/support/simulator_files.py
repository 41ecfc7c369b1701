"""Small files in the forms of SCALE-Sim, Timeloop and ASTRA-sim."""

TOPOLOGY = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 12, 11, 3, 4, 5, 6, 2,
,,,,,,,,
DP2, 9, 9, 3, 3, 4, 2, 1,
FC, 1, 1, 1, 1, 20, 30, 1,
"""
PRODUCTS = "Layer,M,N,K\nscores,24,20,16\nvalues,24,16,20\n"
CONFIGURATION = """[general]
run_name = small
[architecture_presets]
ArrayHeight:    16
ArrayWidth:     8
IfmapSramSzkB:   32
FilterSramSzkB:  32
OfmapSramSzkB:   16
IfmapOffset:    0
Dataflow : ws
Bandwidth : 4
[layout]
IfmapCustomLayout: False
[run_presets]
InterfaceBandwidth: USER
"""

PROBLEM = """problem:
  version: 0.4
  shape:
    name: layer
    dimensions: [C, M, R, S, N, P, Q]
    coefficients:
    - {name: Wstride, default: 1}
    - {name: Hstride, default: 1}
    - {name: Wdilation, default: 1}
    - {name: Hdilation, default: 1}
    data_spaces:
    - {name: Weights, projection: [[[C]], [[M]], [[R]], [[S]]]}
    - name: Inputs
      projection: [[[N]], [[C]], [[R, Wdilation], [P, Wstride]], [[S, Hdilation], [Q, Hstride]]]
    - {name: Outputs, projection: [[[N]], [[M]], [[Q]], [[P]]], read_write: true}
  instance: {C: 3, M: 4, R: 3, S: 2, N: 2, P: 5, Q: 6, Wstride: 2, Hdilation: 3, densities: {}}
"""
GEMM = """problem:
  shape:
    name: gemm
    dimensions: [M, N, K, B]
    data-spaces:
    - {name: A, projection: [[[B]], [[M]], [[K]]]}
    - {name: W, projection: [[[B]], [[N]], [[K]]]}
    - {name: Z, projection: [[[B]], [[M]], [[N]]], read-write: True}
  M: 10
  N: 12
  K: 14
  B: 3
"""
ARCHITECTURE = """architecture:
  version: 0.4
  nodes:
  - !Container
    name: chip
    attributes: {technology: 40nm, global_cycle_seconds: 2e-9}
  - !Component
    name: main
    class: DRAM
    attributes: {width: 64, datawidth: 8, shared_bandwidth: 16}
  - !Container
    name: tile
    spatial: {meshX: 2}
  - !Parallel
    nodes:
    - !Component
      name: inputs
      class: SRAM
      attributes: {depth: 1024, width: 64, n_banks: 4}
    - !Component
      name: weights
      class: SRAM
      attributes: {depth: 512, width: 64}
  - !Container
    name: PE
    spatial: {meshX: 8, meshY: 4}
    constraints: {spatial: {factors: [N=1]}}
  - !Component
    name: register
    class: regfile
    attributes: {depth: 1, width: 8}
  - !Component
    name: mac
    class: intmac
    attributes: {multiplier_width: 8}
"""
OLDER = """architecture:
  version: 0.2
  subtree:
  - name: system
    local:
    - {name: DRAM, class: DRAM, attributes: {width: 64, word-bits: 16}}
    subtree:
    - name: chip
      local:
      - {name: buffer, class: smartbuffer_SRAM, attributes: {memory_depth: 1024, memory_width: 64}}
      - {name: "dummy[0..7]", class: dummy_storage, attributes: {depth: 16, width: 16, meshX: 8}}
      subtree:
      - name: PE[0..31]
        local:
        - {name: spad, class: smartbuffer_RF, attributes: {memory_depth: 12, memory_width: 16, meshX: 8}}
        - {name: mac, class: intmac, attributes: {datawidth: 16, meshX: 8}}
"""

NETWORK = (
    "topology: [Ring, Switch]\nnpus_count: [4, 2]\nbandwidth: [200.0, 50.0]  # GB/s\nlatency: [50.0, 500.0]  # ns\n"
)
SYSTEM = """{"scheduling-policy": "LIFO", "endpoint-delay": 10, "preferred-dataset-splits": 4,
 "all-reduce-implementation": ["ring"], "all-gather-implementation": ["direct4"], "collective-optimization": "baseline",
 "roofline-enabled": 1, "peak-perf": 100, "local-mem-bw": 1000}
"""
