// The description of a chip, and its closed-form view.
//  settings.hpp declares every setting once: path, unit, range, default, description. The parser, the JSON schema and
// the documentation table follow from this declaration. A number in a machine file has a source: {"value": "940 MHz",
// "source": "..."}, or a plain value if the file's "sources" object has an entry for the path.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tilesim/base/json/json.hpp"
#include "tilesim/base/numerics.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/base/units.hpp"
#include "tilesim/machine/user_instruction.hpp"

namespace tilesim {

enum class Dataflow : std::uint8_t { weight_stationary, output_stationary, input_stationary };

enum class SparseFlow : std::uint8_t { inner, outer, row };

/// A row of multipliers that skips zeros. docs/explanation/compute_and_fusion.md describes the cost of each dataflow.
struct SparseSpec {
  std::int64_t multipliers = 0;  ///< 0: the array is dense; inner: a power of two
  std::int64_t read_ports = 1;   ///< inner: divides multipliers; each port serves a block of them
  std::int64_t write_ports = 1;  ///< number of output lines
  SparseFlow dataflow = SparseFlow::inner;
  /// outer: numbers of elements of a column of a and of a row of b per cycle; 0: any pairs, up to `multipliers`.
  std::int64_t lanes_a = 0, lanes_b = 0;
  /// outer: size of the block of the result whose sums stay in the adders; 0: sums are merged through the write ports.
  std::int64_t tile_m = 0, tile_n = 0;
  /// outer without a block, and row: number of sums that fit on chip; further sums are spilled to memory. 0: all fit.
  std::int64_t accumulators = 0;
  /// row: number of elements in a segment in which rows of b are fetched; every segment costs a cycle, also an empty
  /// one. 0: rows are fetched as a whole; an empty row costs nothing.
  std::int64_t segment = 0;
  bool present() const { return multipliers > 0; }
  void check() const;  ///< throws UserError
};
/// Throws UserError with a suggestion.
SparseFlow sparse_flow_named(std::string_view name);
std::string_view flow_name(SparseFlow flow);

struct ArraySpec {
  std::int64_t count = 1;   ///< arrays per core
  std::int64_t rows = 128;  ///< the contracted dimension if weight stationary
  std::int64_t columns = 128;
  Dataflow dataflow = Dataflow::weight_stationary;
  /// The dtypes that the array multiplies, with products per cell and cycle (0.5 if a product needs two passes, 2 if
  /// packed).
  std::map<DType, double> rates;
  Numerics numerics;                       ///< rounding of float operands; type of the accumulator
  std::int64_t weight_rows_per_cycle = 1;  ///< weight stationary: rows of weights loaded per cycle
  bool weight_double_buffer = true;        ///< the next weights load while the array uses the current ones
  SparseSpec sparse;                       ///< if present, replaces rows and columns
  /// Whether the array supports 2:4 weights: cells use four of eight adjacent weights along the contraction and select
  /// the matching elements of the other operand. A product of twice the depth takes the same time.
  bool two_of_four = false;
  bool separate_accumulator = false;  ///< partial sums are in the accumulator memory, not the scratchpad
};

struct VectorSpec {
  std::int64_t lanes = 128;
  std::int64_t sublanes = 8;  ///< number of 32-bit elements per lane and operation
  std::int64_t issue = 1;     ///< operations on a register (lanes x sublanes) per cycle
  std::int64_t latency = 4;   ///< cycles from operands to result of a simple operation
  double simple = 1, multiply = 1, divide = 8,
         transcendental = 4;         ///< cycles per register and operation on 32-bit elements
  bool packs_narrow = false;         ///< a 32-bit element contains 2 (4) elements of 16 (8) bits
  std::int64_t reduce_latency = 16;  ///< additional cycles of a reduction across lanes
  std::map<DType, bool> dtypes;      ///< types that the unit computes on; empty: all
};

struct CrossLaneSpec {
  std::int64_t bytes_per_cycle = 512;
  std::int64_t latency = 16;
};

/// The unit that adds partial sums. by_memory: the arrays if there is an accumulator memory, else the vector unit.
enum class Accumulates : std::uint8_t { by_memory, vector, array };

/// The core at instruction level. 0: derived from the other settings. Closed forms use the ports and `accumulates`.
struct IsaSpec {
  std::int64_t vlen = 0;                         ///< bits of a vector register; 0: 32 × lanes × sublanes
  std::int64_t width = 8;                        ///< instructions per cycle
  std::int64_t dispatch = 8;                     ///< vector instructions per cycle
  std::int64_t queue = 16;                       ///< queue entries per kind of pipe
  std::int64_t loads = 1, stores = 1;            ///< number of scratchpad ports
  std::int64_t port_bytes = 0;                   ///< bytes per port and cycle; 0: a register
  std::int64_t load_latency = 4;                 ///< cycles until the first beat of a vector load
  std::int64_t input_rows = 0, result_rows = 0;  ///< entries in front of and behind an array; 0: 2 × (rows + columns)
  Accumulates accumulates = Accumulates::by_memory;
  UserInstructions functions;  ///< user-defined instructions for elementwise functions in kernels
};

struct ScratchpadSpec {
  std::int64_t bytes = 16 << 20;
  std::int64_t accumulator_bytes = 0;  ///< 0: partial sums are in the scratchpad
};

/// Whether arrays add partial sums in their own memory, without scratchpad ports and vector unit.
inline bool sums_in_arrays(const IsaSpec& isa, const ScratchpadSpec& scratchpad) {
  return isa.accumulates == Accumulates::array ||
         (isa.accumulates == Accumulates::by_memory && scratchpad.accumulator_bytes > 0);
}

struct DmaSpec {
  std::int64_t load_queues = 1;
  std::int64_t store_queues = 1;
  std::int64_t bytes_per_cycle = 1024;       ///< bytes per cycle of the core's port
  std::int64_t issue_cycles = 0;             ///< cycles per transfer, in its queue
  std::int64_t latency_cycles = 0;           ///< cycles per transfer in addition to network and memory
  std::int64_t outstanding_bytes = 1 << 20;  ///< most bytes in flight per queue; further pieces wait
  std::int64_t queue_entries = 64;           ///< entries per queue, in tile operations
  std::string priority = "none";             ///< served first at the core's network ports: none | loads | stores
};

struct CoreSpec {
  std::int64_t count = 1;
  Clock clock{1000000000};
  std::int64_t contexts = 1;
  ArraySpec array;
  VectorSpec vector;
  CrossLaneSpec cross_lane;
  ScratchpadSpec scratchpad;
  DmaSpec dma;
  std::int64_t kernel_launch_cycles = 0;  ///< fixed cost of starting a kernel
  bool kernel_barrier = false;            ///< a kernel starts only after all operations before it have completed
  IsaSpec isa;
};

/// One of several core types, which share network and memory. Its settings are those of the machine's `core`, replaced
/// by `changes`.
struct CoreSort {
  std::string name;
  std::map<std::string, Json> changes;  ///< setting path ("core.array.rows") -> value as in a file
  CoreSpec core;                        ///< the resolved settings; `count`: cores of this type
};

/// The network between cores and memory channels. "simple" uses the first four numbers, router networks the others.
struct NetworkSpec {
  std::string kind = "simple";  ///< simple | crossbar | mesh | torus | ring | tree | cmesh with sizes | a file
  Clock clock{1000000000};
  std::int64_t latency_cycles = 10;          ///< one way
  std::int64_t port_bytes_per_cycle = 1024;  ///< per core
  std::int64_t buffer_bytes = 1 << 16;       ///< bytes per port; a full buffer applies back-pressure
  std::int64_t ports_per_core = 1;           ///< nodes per core; channel c uses port c modulo this number
  std::int64_t flit_bytes = 32;              ///< bytes per cycle and link
  std::int64_t packet_bytes = 0;             ///< most data bytes per packet; 0: one burst
  std::int64_t control_bytes = 8;            ///< bytes of a read request or write acknowledgement
  std::int64_t header_bytes = 0;             ///< bytes added to packets with data
  std::int64_t virtual_channels = 4;         ///< per router port: half for requests, half for answers and sends
  std::int64_t virtual_channel_flits = 8;    ///< buffer depth of each virtual channel
  std::int64_t switch_cycles = 1, credit_cycles = 1;
  bool multicast = false;                      ///< a send to several cores crosses the sender's port once
  std::int64_t region_latency_cycles = 0;      ///< added one way between memory regions (chiplets)
  std::int64_t region_bytes_per_cycle = 1024;  ///< per direction of a link between regions
};

/// A cache in front of the memory channels, with one slice per channel. Cycles are those of the network's clock.
struct CacheSpec {
  std::int64_t sets = 0;  ///< per slice; 0: no cache
  std::int64_t ways = 16;
  std::int64_t line_bytes = 128, sector_bytes = 32;  ///< tags are per line; data is fetched by sectors
  std::int64_t hit_cycles = 1;                       ///< from a request to its data, or to its request to memory
  std::int64_t ports = 1;                            ///< requests per cycle and slice, each for at most one sector
  std::int64_t bytes_per_cycle = 0;                  ///< per port; 0: a sector
  std::int64_t mshrs = 64;        ///< most sectors in flight; further misses, and all requests after them, wait
  std::int64_t mshr_targets = 8;  ///< most requests per sector in flight; more wait in front of the cache
  bool write_back = true;         ///< false: every write also goes to memory
  bool write_allocate = true;     ///< whether a write that misses allocates a line
  bool software = false;          ///< contains only the tensors of a residency plan; others bypass it

  std::int64_t bytes() const { return sets * ways * line_bytes; }  ///< per slice
};

struct MemorySpec {
  std::string kind = "simple";  ///< fidelity: ideal | simple | bank
  std::string part;             ///< DRAM part of each channel, for fidelity bank; empty: none
  std::int64_t channels = 16;
  std::int64_t bytes_per_second = 0;  ///< peak of all channels together
  double efficiency = 1.0;            ///< achievable share of the peak, in (0, 1]: refresh, turnaround, row misses
  std::int64_t latency_ps = 100000;
  std::int64_t burst_bytes = 32;
  std::int64_t interleave_bytes = 256;  ///< number of consecutive bytes on one channel
  std::string channel_hash = "none";    ///< none | skew | ipoly; spreads strides over channels
  std::string mapping;                  ///< bank: address fields, "row bank column offset"; empty: the part's
  std::string bank_hash = "none";       ///< bank: none | xor | ipoly; spreads strides over banks
  std::int64_t capacity_bytes = 0;
  std::int64_t buffer_bytes = 1 << 16;  ///< size of a channel's request queue in bytes; if full, back-pressure
  /// Number of equal groups of channels and cores (chiplets): the first region has the first cores and channels, ...
  std::int64_t regions = 1;
  /// Placement of tensors that have no own placement: "interleaved" over all regions, or "local": a page is in the
  /// region of the core that first accesses it.
  std::string placement = "interleaved";
  CacheSpec cache;
};

/// The host, which runs operations that the chip does not support, and the link between host and chip.
struct HostSpec {
  std::string device = "desktop-avx512";        ///< name of a device file; its closed form gives the host's time
  std::int64_t bytes_per_second = 14400000000;  ///< per direction of the link
  std::int64_t latency_ps = 10000000;           ///< per transfer, for start and completion
};

/// Layout of tensors in off-chip memory: the two minor axes are padded to multiples of `tile`. Empty: dense.
struct LayoutSpec {
  Shape tile;  ///< {8, 128} on TPUs
};

struct EnergySpec {  ///< femtojoules per event; 0: not given
  std::int64_t mac = 0, vector_op = 0, scratchpad_byte = 0, memory_byte = 0, network_byte = 0;
  std::int64_t static_microwatts = 0;
};

/// The choices of a real chip's compiler, per family of kernels. A missing section means generic rules.
struct LoweringProfile {
  struct Fusion {
    bool resident_rows = true;             ///< rows stay on chip between stages (else each reduction reads memory)
    bool merge_sibling_reductions = true;  ///< reductions of the same operand share one pass
    bool product_prologue = false;         ///< recompute elementwise producers as the operand of a product
    bool reduce_epilogue = false;          ///< a row reduction may end a product kernel
    bool narrow_for_products = false;      ///< store tensors that only products read in the array's operand type
    bool keep_affine_apart = false;        ///< scale and shift of a normalization are separate kernels
    std::string reason;
  };
  struct Product {
    std::int64_t panel_bytes = 8 << 20;   ///< most bytes of the stationary left operand
    std::int64_t window_columns = 256;    ///< columns of the streaming right operand per window
    std::int64_t split_rows_above = 512;  ///< larger panels are split by rows instead of contraction
    std::string reason;
  };
  struct Convolution {
    std::int64_t images = 8;       ///< number of images per window of full planes
    bool copy_few_images = false;  ///< copy fewer images from torch's order to channels-minor order first
    std::string reason;
  };
  std::optional<Fusion> fusion;
  std::optional<Product> product;
  std::optional<Convolution> convolution;
  std::string reason;
};

struct Machine {
  std::string name;
  std::string description;
  CoreSpec core;  ///< settings common to all cores; `count`: cores of all types; the clock counts machine cycles
  std::vector<CoreSort> sorts;  ///< core types of consecutive cores from 0 on; empty: all cores are equal
  NetworkSpec network;
  MemorySpec memory;
  LayoutSpec layout;
  EnergySpec energy;
  HostSpec host;
  LoweringProfile lowering;
  std::map<std::string, std::string> sources;  ///< setting path -> source of the number

  static Machine from_json(const Json& json);
  static Machine read_file(const std::string& path);
  Json to_json() const;  ///< contains every setting; reading the JSON gives an equal machine
  /// A copy with some settings replaced: path ("core.array.count") -> value as in a file.
  Machine replace(const std::map<std::string, Json>& changes) const;
  std::string hash() const;
  /// Settings of core number `core`.
  const CoreSpec& core_at(std::int64_t core) const;
  /// `only`: the machine with the cores of one type only. `cores_of`: their numbers in this machine. UserError for an
  /// unknown type.
  Machine only(const std::string& sort) const;
  std::vector<std::int64_t> cores_of(const std::string& sort) const;
};

/// A device for closed forms: the rates that a roofline needs.
struct Device {
  std::string name;
  double matrix_flops_per_second(DType dtype) const;  ///< 0: unsupported
  double vector_flops_per_second(DType dtype) const;  ///< rate of simple operations
  double memory_bytes_per_second = 0;                 ///< peak; a limit in all bounds
  double kernel_seconds = 0;
  std::map<DType, double> matrix_rates, vector_rates;
  static Device from_machine(const Machine& machine);
};

}  // namespace tilesim
