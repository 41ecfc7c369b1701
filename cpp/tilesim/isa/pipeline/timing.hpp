// The pipeline parameters of a core, as its file gives them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "tilesim/base/json/json.hpp"
#include "tilesim/isa/pipeline/classes.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/machine/machine.hpp"

namespace tilesim::isa {

/// Ticks per cycle: the pipeline counts in 1/256 cycle, so that an observer needs no floating point.
using Ticks = std::int64_t;
inline constexpr Ticks cycle = 256;
/// Converts cycles in a file to the nearest tick.
Ticks ticks(double cycles);

/// Cost of an instruction of a class, which occupies its pipe for
///   max(minimum, start + each·registers + cost·beats + bits·beats·SEW + element·elements + square·registers² +
///   tree·log2(elements of a beat) + fold·log2(beats) + ⌈passing·bytes / 1,024⌉);
/// beats and bytes are those of the widest operand.
struct ClassTiming {
  std::array<Ticks, 4> cost{cycle, cycle, cycle, cycle};  ///< per beat, by SEW 8, 16, 32, 64
  Ticks bits = 0;
  Ticks start = 0;
  Ticks each = 0;  ///< per register of the group; fractional groups by their beats
  Ticks minimum = cycle;
  Ticks element = 0;
  Ticks square = 0;
  Ticks tree = 0;
  Ticks fold = 0;
  Ticks passing = 0;         ///< per 1,024 bytes that pass a unit of this rate
  Ticks latency = cycle;     ///< from a beat's start to the start of a consumer; at_end: after the whole instruction
  bool at_end = false;       ///< results are ready after the whole instruction
  bool merges = false;       ///< reads the destination's old bits
  bool by_vl = true;         ///< as the core; false: all elements of the group
  std::uint8_t pipes = 255;  ///< number of pipes of its kind that execute it
};

/// When a younger instruction may write a register after an older write.
enum class WriteOrder : std::uint8_t {
  ordered,  ///< after the older write, beat by beat
  waits,    ///< only after the older result is ready, beat by beat
};

/// Kinds of pipes; each has a queue.
enum class PipeKind : std::uint8_t { arithmetic, load, store, special, cross_lane, matrix, results, count };
inline constexpr std::size_t pipe_kinds = static_cast<std::size_t>(PipeKind::count);
const char* pipe_name(PipeKind kind);

/// A unit of user-defined instructions: pipes of one kind with a separate queue.
struct CustomUnit {
  std::string name;
  unsigned queue = 4, pipes = 1;
};

inline constexpr std::size_t dividers = 2;  ///< one for integers, one for floats

/// Timing of scalar instructions, by their timing word.
struct ScalarTiming {
  std::array<Ticks, 32> latency{};         ///< by `scalar_class`
  std::array<Ticks, dividers> interval{};  ///< between divisions; by default the latency
  Ticks taken = 0;                         ///< cost of a taken branch
  Ticks mispredicted = 0;                  ///< cost of a branch mispredicted statically (backward: taken); returns
  Ticks vset = 0;                          ///< delay of a vector instruction after a change of vl or vtype
  /// Number of the divider of a class, from 1 on; 0: the class does not divide.
  static std::uint8_t divider_of(std::uint8_t scalar_class);
};
std::uint8_t scalar_class(const std::string& timing);

/// The equal arrays of a core; standard cores have none.
struct ArrayTiming {
  std::int64_t rows = 0, columns = 0;
  std::array<Ticks, 32> row{};                   ///< ticks per row of operands, by type number; 0: unsupported
  Ticks weight_row = cycle;                      ///< ticks per row of weights
  bool double_buffer = true;                     ///< weights load while another set is in use
  bool accumulates = false;                      ///< `mx.add` adds to sums in the array's memory
  std::int64_t input_rows = 0, result_rows = 0;  ///< entries of the queues before and after an array
  /// Rows in the array and results that wait, if a row takes `each` ticks.
  std::int64_t under_way(Ticks each) const {
    return result_rows + (rows + columns - 2) * cycle / std::max<Ticks>(each, 1);
  }
};

/// DMA as in a machine; standard cores have no DMA.
struct MoveTiming {
  unsigned load_queues = 0, store_queues = 0;
  std::int64_t entries = 64;                ///< entries per queue
  std::int64_t bytes_per_cycle = 1;         ///< per queue
  Ticks issue = 0, latency = 0;             ///< ticks per transfer
  Ticks trip[2] = {};                       ///< ticks per request: loads including the return, stores without it
  Ticks memory = 0;                         ///< ticks per MiB at the memory's rate
  std::int64_t chunk = 16384, window = 64;  ///< bytes per request, and requests in flight per queue
};

struct CoreTiming {
  std::string name;
  std::uint32_t vlen = 256, dlen = 128;
  std::uint32_t join = 64;  ///< bits that reduction trees always join; wider beats may be split in halves
  unsigned width = 1, dispatch = 1, queue = 8;
  std::array<std::uint8_t, pipe_kinds> pipes{1, 1, 1, 0, 0, 0, 0};  ///< 0: arithmetic pipes execute its instructions
  bool decoupled = true;  ///< one queue per pipe kind; false: one queue in program order
  bool chaining = true, by_vl = true;
  WriteOrder write_order = WriteOrder::ordered;
  unsigned mask_pipes = 255;  ///< arithmetic pipes that read or write masks of one beat
  Ticks delay = cycle;        ///< from dispatch to the earliest start
  Ticks bubble = 0;           ///< cost of a taken branch to a busy vector unit
  Ticks load_latency = 0;     ///< latency of vector loads to the first beat
  Ticks port_beat = cycle;    ///< per beat at a memory port
  unsigned port_bytes = 16, memory_ports = 1;
  bool reduces_across = false;  ///< reductions use the cross-lane pipe, not an arithmetic one
  ArrayTiming array;
  MoveTiming moves;
  ScalarTiming scalar;
  std::vector<CustomUnit> units;
  std::array<ClassTiming, timing_classes> classes;

  const ClassTiming& timing_of(TimingClass c) const { return classes[static_cast<std::size_t>(c)]; }
};

/// The core of a machine, from its units and `core.isa`. Throws UserError if the register length is illegal.
CoreTiming core_of(const Machine& machine);

/// The features of the core's hart beyond a standard one.
NpuSpec npu_spec(const Machine& machine, const CoreTiming& core);

/// Reads schema `tilesim.core`, version 1. Throws UserError with the place, and for an unknown key the nearest name.
CoreTiming read_core(const Json& file);

}  // namespace tilesim::isa
