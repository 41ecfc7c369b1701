// The typed description of a chip, and its closed-form view.
//
// Every setting is declared once (settings.hpp): path, unit, range, default, description. That declaration gives the
// parser, the JSON schema and the documentation table. Numbers in a machine file carry a source: {"value": "940 MHz",
// "source": "..."} or a plain value when the file's "sources" object names the path.
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

/// A row of multipliers that skips zeros. docs/explanation/compute_and_fusion.md describes the cost of a placement, a
/// column and a row.
struct SparseSpec {
  std::int64_t multipliers = 0;  ///< 0: the array is dense. inner: a power of two
  std::int64_t read_ports = 1;   ///< inner: divides multipliers; each serves a block of adjacent ones
  std::int64_t write_ports = 1;  ///< number of output lines
  SparseFlow dataflow = SparseFlow::inner;
  /// outer: lanes for elements of a column of a and of a row of b; 0: any pairs, up to the number of multipliers.
  std::int64_t lanes_a = 0, lanes_b = 0;
  /// outer: block of the result whose sums stay in the adders; 0: sums are merged through the write ports.
  std::int64_t tile_m = 0, tile_n = 0;
  /// outer without a tile, row: sums that fit on chip; further ones are spilled to memory. 0: all.
  std::int64_t accumulators = 0;
  /// row: elements per part in which a row of b is fetched; each part costs a cycle even if empty. 0: full rows; an
  /// empty row costs none.
  std::int64_t segment = 0;
  bool present() const { return multipliers > 0; }
  void check() const;  ///< throws UserError
};
/// Throws UserError with a suggestion.
SparseFlow sparse_flow_named(std::string_view name);
std::string_view flow_name(SparseFlow flow);

struct ArraySpec {
  std::int64_t count = 1;   ///< arrays per core
  std::int64_t rows = 128;  ///< rows: the contracted dimension in weight stationary
  std::int64_t columns = 128;
  Dataflow dataflow = Dataflow::weight_stationary;
  /// Dtypes that the array multiplies, with products per cell and cycle (1, or 0.5 when two passes are needed, 2 when
  /// packed).
  std::map<DType, double> rates;
  Numerics numerics;                       ///< rounding of float operands, accumulator
  std::int64_t weight_rows_per_cycle = 1;  ///< weight-stationary: rows of the weight tile loaded per cycle
  bool weight_double_buffer = true;        ///< next weights load while the current ones are used
  SparseSpec sparse;                       ///< multipliers that skip zeros replace rows and columns
  /// 2:4 weights: of eight adjacent weights along the contraction the cells use the four values, and select the
  /// matching elements of the other operand: a product of twice the depth in the same time.
  bool two_of_four = false;
  bool separate_accumulator = false;  ///< partial sums are in the accumulator memory instead of the scratchpad
};

struct VectorSpec {
  std::int64_t lanes = 128;
  std::int64_t sublanes = 8;  ///< 32-bit elements per lane and operation
  std::int64_t issue = 1;     ///< operations of a register (lanes x sublanes) issued per cycle
  std::int64_t latency = 4;   ///< cycles from operands to result of a simple operation
  double simple = 1, multiply = 1, divide = 8,
         transcendental = 4;         ///< cycles per register and operation on 32-bit elements
  bool packs_narrow = false;         ///< a 32-bit element holds 2 or 4 elements of 16 or 8 bits
  std::int64_t reduce_latency = 16;  ///< extra cycles of a reduction across lanes
  std::map<DType, bool> dtypes;  ///< supported types; others are converted (an operation of class simple) or rejected
};

struct CrossLaneSpec {
  std::int64_t bytes_per_cycle = 512;
  std::int64_t latency = 16;
};

/// The unit that adds partial sums; by_memory: the arrays if they have a memory for it, else the vector unit.
enum class Accumulates : std::uint8_t { by_memory, vector, array };

/// The core at instruction level; 0: derived from the units. Closed forms use the ports and the accumulating unit.
struct IsaSpec {
  std::int64_t vlen = 0;                         ///< bits of a vector register; 0: 32 × lanes × sublanes
  std::int64_t width = 8;                        ///< instructions per cycle
  std::int64_t dispatch = 8;                     ///< vector instructions per cycle
  std::int64_t queue = 16;                       ///< entries in the queue of each kind of pipe
  std::int64_t loads = 1, stores = 1;            ///< number of scratchpad ports
  std::int64_t port_bytes = 0;                   ///< per port and cycle; 0: a register
  std::int64_t load_latency = 4;                 ///< cycles to the first beat of a vector load
  std::int64_t input_rows = 0, result_rows = 0;  ///< entries before and after an array; 0: 2 × (rows + columns)
  Accumulates accumulates = Accumulates::by_memory;
  UserInstructions functions;  ///< user-defined instructions that kernels use
};

struct ScratchpadSpec {
  std::int64_t bytes = 16 << 20;
  std::int64_t accumulator_bytes = 0;  ///< 0: partial sums are in the scratchpad
};

/// Whether arrays add partial sums in a separate memory, without ports and vector unit.
inline bool sums_in_arrays(const IsaSpec& isa, const ScratchpadSpec& scratchpad) {
  return isa.accumulates == Accumulates::array ||
         (isa.accumulates == Accumulates::by_memory && scratchpad.accumulator_bytes > 0);
}

struct DmaSpec {
  std::int64_t load_queues = 1;
  std::int64_t store_queues = 1;
  std::int64_t bytes_per_cycle = 1024;       ///< of the core's port
  std::int64_t issue_cycles = 0;             ///< per transfer, in its queue
  std::int64_t latency_cycles = 0;           ///< per transfer, beyond network and memory
  std::int64_t outstanding_bytes = 1 << 20;  ///< most bytes in flight per queue; others wait
  std::int64_t queue_entries = 64;           ///< tile operations per queue
  std::string priority = "none";             ///< first at the core's network ports: none | loads | stores
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
  bool kernel_barrier = false;            ///< a kernel starts only when all operations of the previous one are complete
  IsaSpec isa;
};

/// Cores of one type among several that share network and memory: settings are those of the machine's `core`, except
/// for `changes`.
struct CoreSort {
  std::string name;
  std::map<std::string, Json> changes;  ///< setting path ("core.array.rows") -> value as in a file
  CoreSpec core;                        ///< resolved; `count` is that of this type
};

/// The network between cores and memory channels. "simple" uses the first four numbers, routers use the others.
struct NetworkSpec {
  std::string kind = "simple";  ///< simple | crossbar | mesh | torus | ring | tree | cmesh, with sizes, | a file
  Clock clock{1000000000};
  std::int64_t latency_cycles = 10;          ///< one way
  std::int64_t port_bytes_per_cycle = 1024;  ///< per core
  std::int64_t buffer_bytes = 1 << 16;       ///< per port; a full buffer applies back-pressure
  std::int64_t ports_per_core = 1;           ///< nodes per core; channel c answers at port c modulo this
  std::int64_t flit_bytes = 32;              ///< per cycle and link
  std::int64_t packet_bytes = 0;             ///< most data in a packet; 0: one burst
  std::int64_t control_bytes = 8;            ///< bytes of a read request, or of a write acknowledgement
  std::int64_t header_bytes = 0;             ///< added to packets with data
  std::int64_t virtual_channels = 4;         ///< per router port: half for requests, half for answers and sends
  std::int64_t virtual_channel_flits = 8;    ///< buffer depth of each
  std::int64_t switch_cycles = 1, credit_cycles = 1;
  bool multicast = false;                      ///< a send to several cores passes the sender's port once
  std::int64_t region_latency_cycles = 0;      ///< added one way between regions of the memory (chiplets)
  std::int64_t region_bytes_per_cycle = 1024;  ///< per link between regions and direction
};

/// A cache or shared level before the memory channels: one slice per channel, in cycles of the network's clock.
struct CacheSpec {
  std::int64_t sets = 0;  ///< per slice; 0: without a cache
  std::int64_t ways = 16;
  std::int64_t line_bytes = 128, sector_bytes = 32;  ///< tags are kept per line, data is fetched by sectors
  std::int64_t hit_cycles = 1;                       ///< from a request to its data, or to its memory request
  std::int64_t ports = 1;                            ///< requests per cycle and slice, each of a sector at most
  std::int64_t bytes_per_cycle = 0;                  ///< per port; 0: a sector
  std::int64_t mshrs = 64;                           ///< sectors being fetched; further misses and later requests wait
  std::int64_t mshr_targets = 8;                     ///< requests waiting per sector; more wait before the cache
  bool write_back = true;                            ///< false: every write goes through to memory
  bool write_allocate = true;                        ///< a write that misses allocates a line
  bool software = false;                             ///< holds only the tensors of a residency plan; others bypass it

  std::int64_t bytes() const { return sets * ways * line_bytes; }  ///< per slice
};

struct MemorySpec {
  std::string kind = "simple";  ///< fidelity: ideal | simple | bank
  std::string part;             ///< DRAM part of each channel, of fidelity bank; empty: unknown
  std::int64_t channels = 16;
  std::int64_t bytes_per_second = 0;  ///< peak of all channels together
  double efficiency = 1.0;            ///< achieved share of the peak (refresh, turn-round, row misses), in (0, 1]
  std::int64_t latency_ps = 100000;
  std::int64_t burst_bytes = 32;
  std::int64_t interleave_bytes = 256;  ///< consecutive bytes on one channel
  std::string channel_hash = "none";    ///< none | skew | ipoly: strides spread over channels
  std::string mapping;  ///< of fidelity bank: fields of an address, "row bank column offset"; empty: the part's
  std::string bank_hash = "none";  ///< of fidelity bank: none | xor | ipoly: strides spread over banks
  std::int64_t capacity_bytes = 0;
  std::int64_t buffer_bytes = 1 << 16;  ///< waiting requests per channel, in bytes; a full queue applies back-pressure
  /// Equal groups of channels and cores (chiplets): cores 0..n/regions-1 with the first channels, and so on.
  std::int64_t regions = 1;
  /// Placement of tensors without one: "interleaved" over all regions, or "local": each page in the region of the core
  /// that accesses it first.
  std::string placement = "interleaved";
  CacheSpec cache;
};

/// The host, for operations that the chip cannot run, and the link to it.
struct HostSpec {
  std::string device = "desktop-avx512";        ///< name of a device file: its closed form gives the host's time
  std::int64_t bytes_per_second = 14400000000;  ///< per direction of the link
  std::int64_t latency_ps = 10000000;           ///< per transfer: start and completion
};

/// Layout of tensors in off-chip memory: the two minor dimensions are padded to `tile` (empty: dense).
struct LayoutSpec {
  Shape tile;  ///< {8, 128} on TPUs
};

struct EnergySpec {  ///< femtojoules per event; 0: unknown (reported as such)
  std::int64_t mac = 0, vector_op = 0, scratchpad_byte = 0, memory_byte = 0, network_byte = 0;
  std::int64_t static_microwatts = 0;
};

/// Choices of a real chip's compiler, by family of kernels. Generic rules replace a missing section.
struct LoweringProfile {
  struct Fusion {
    bool resident_rows = true;  ///< rows stay on chip between stages (otherwise each reduction is a pass over memory)
    bool merge_sibling_reductions = true;  ///< reductions of the same operand share a pass
    bool product_prologue = false;         ///< elementwise producers are recomputed as the operand of a product
    bool reduce_epilogue = false;          ///< a row reduction may end a product kernel
    bool narrow_for_products = false;      ///< tensors that only products read are stored in the array's operand type
    bool keep_affine_apart = false;        ///< scale and shift of a normalization run as separate kernels
    std::string reason;
  };
  struct Product {
    std::int64_t panel_bytes = 8 << 20;   ///< most bytes of the stationary left operand
    std::int64_t window_columns = 256;    ///< columns of the streaming right operand per window
    std::int64_t split_rows_above = 512;  ///< rows from which a large panel is split by rows instead of its contraction
    std::string reason;
  };
  struct Convolution {
    std::int64_t images = 8;       ///< images per window of full planes
    bool copy_few_images = false;  ///< fewer images in torch's order are first copied to channels-minor order
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
  CoreSpec core;                ///< common to all cores; `count`: of all types; its clock counts the machine's cycles
  std::vector<CoreSort> sorts;  ///< types of consecutive cores from 0 on; empty: all cores are equal
  NetworkSpec network;
  MemorySpec memory;
  LayoutSpec layout;
  EnergySpec energy;
  HostSpec host;
  LoweringProfile lowering;
  std::map<std::string, std::string> sources;  ///< setting path -> source of the number

  static Machine from_json(const Json& json);
  static Machine read_file(const std::string& path);
  Json to_json() const;  ///< with every setting resolved; reading it gives an equal machine
  /// A copy with settings replaced: path ("core.array.count") -> value as in a file.
  Machine replace(const std::map<std::string, Json>& changes) const;
  std::string hash() const;
  /// Of core number `core`.
  const CoreSpec& core_at(std::int64_t core) const;
  /// The machine with the cores of one type only, and their numbers in this one. UserError for an unknown type.
  Machine only(const std::string& sort) const;
  std::vector<std::int64_t> cores_of(const std::string& sort) const;
};

/// A device for closed forms: the data that a roofline needs.
struct Device {
  std::string name;
  double matrix_flops_per_second(DType dtype) const;  ///< 0: unsupported
  double vector_flops_per_second(DType dtype) const;  ///< of simple operations
  double memory_bytes_per_second = 0;                 ///< peak: an upper limit of all bounds
  double kernel_seconds = 0;
  std::map<DType, double> matrix_rates, vector_rates;
  static Device from_machine(const Machine& machine);
};

}  // namespace tilesim
