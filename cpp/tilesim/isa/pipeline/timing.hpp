// The pipeline parameters of a core, as its file states them.
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

/// Time inside the pipeline: 1/256 cycle, so that an observer does no floating point.
using Ticks = std::int64_t;
inline constexpr Ticks cycle = 256;
/// Cycles as a file states them, to the nearest tick.
Ticks ticks(double cycles);

/// What an instruction of a class costs. It holds its pipe for
///   max(minimum, start + each·registers + cost·beats + bits·beats·SEW + element·elements + square·registers² +
///   tree·log2(elements of a beat) + fold·log2(beats) + ⌈passing·bytes / 1,024⌉);
/// beats and bytes are those of the widest operand.
struct ClassTiming {
  std::array<Ticks, 4> cost{cycle, cycle, cycle, cycle};  ///< a beat, by SEW 8, 16, 32, 64
  Ticks bits = 0;
  Ticks start = 0;
  Ticks each = 0;  ///< a register of the group, parts by their beats
  Ticks minimum = cycle;
  Ticks element = 0;
  Ticks square = 0;
  Ticks tree = 0;
  Ticks fold = 0;
  Ticks passing = 0;         ///< of 1,024 bytes through a unit that takes so many a cycle
  Ticks latency = cycle;     ///< from a beat's start until a consumer may start on its result; at_end: after the whole
  bool at_end = false;       ///< results appear when all of it is over
  bool merges = false;       ///< depends on the destination's old bits
  bool by_vl = true;         ///< as the core; false: always the whole group
  std::uint8_t pipes = 255;  ///< how many of its kind's pipes can do it
};

/// When a younger instruction may write a register that an older one writes.
enum class WriteOrder : std::uint8_t {
  ordered,  ///< after it, beat by beat
  waits,    ///< it starts only when the older result is there, beat by beat
};

/// Kinds of pipes; each has a queue.
enum class PipeKind : std::uint8_t { arithmetic, load, store, special, cross_lane, matrix, results, count };
inline constexpr std::size_t pipe_kinds = static_cast<std::size_t>(PipeKind::count);
const char* pipe_name(PipeKind kind);

/// A unit that instructions of the user's name: pipes of one kind behind a separate queue.
struct CustomUnit {
  std::string name;
  unsigned queue = 4, pipes = 1;
};

inline constexpr std::size_t dividers = 2;  ///< of integers, of floats

/// Scalar instructions by their timing word.
struct ScalarTiming {
  std::array<Ticks, 32> latency{};         ///< by `scalar_class`
  std::array<Ticks, dividers> interval{};  ///< from a division to the next; as the latency unless stated
  Ticks taken = 0;                         ///< after a taken branch
  Ticks mispredicted = 0;                  ///< after one that static prediction (backward: taken) had wrong; returns
  Ticks vset = 0;                          ///< a vector instruction after a change of vl or vtype
  /// From 1 on; 0: the class does not divide.
  static std::uint8_t divider_of(std::uint8_t scalar_class);
};
std::uint8_t scalar_class(const std::string& timing);

/// The arrays of a core, all alike; no standard core has any.
struct ArrayTiming {
  std::int64_t rows = 0, columns = 0;
  std::array<Ticks, 32> row{};                   ///< a row of operands, by the number of their type; 0: not multiplied
  Ticks weight_row = cycle;                      ///< a row of weights
  bool double_buffer = true;                     ///< weights load while others are in use
  bool accumulates = false;                      ///< sums are added in the array's own memory, by `mx.add`
  std::int64_t input_rows = 0, result_rows = 0;  ///< places in the queues before and behind an array
  /// Rows between the first and the last cell, and results that wait, where a row takes so long.
  std::int64_t under_way(Ticks each) const {
    return result_rows + (rows + columns - 2) * cycle / std::max<Ticks>(each, 1);
  }
};

/// DMA as a machine states it; no standard core has any.
struct MoveTiming {
  unsigned load_queues = 0, store_queues = 0;
  std::int64_t entries = 64;                ///< transfers that wait in a queue
  std::int64_t bytes_per_cycle = 1;         ///< of a queue
  Ticks issue = 0, latency = 0;             ///< of a transfer
  Ticks trip[2] = {};                       ///< of a request: of loads with the way back, of stores without
  Ticks memory = 0;                         ///< of a MiB at memory's rate
  std::int64_t chunk = 16384, window = 64;  ///< bytes of a request, and how many of a queue are under way
};

struct CoreTiming {
  std::string name;
  std::uint32_t vlen = 256, dlen = 128;
  std::uint32_t join = 64;  ///< bits that trees of reductions join in any case; wider beats may come half by half
  unsigned width = 1, dispatch = 1, queue = 8;
  std::array<std::uint8_t, pipe_kinds> pipes{1, 1, 1, 0, 0, 0, 0};  ///< 0: its work goes to the arithmetic ones
  bool decoupled = true;  ///< a queue for each kind of pipe; else one in program order
  bool chaining = true, by_vl = true;
  WriteOrder write_order = WriteOrder::ordered;
  unsigned mask_pipes = 255;  ///< arithmetic pipes that take a mask or make one, while it fits one beat
  Ticks delay = cycle;        ///< from dispatch to the earliest start
  Ticks bubble = 0;           ///< what a taken branch costs a busy vector unit
  Ticks load_latency = 0;     ///< of vector loads, to their first beat
  Ticks port_beat = cycle;    ///< a beat at a memory port
  unsigned port_bytes = 16, memory_ports = 1;
  bool reduces_across = false;  ///< reductions take the cross-lane pipe, not an arithmetic one
  ArrayTiming array;
  MoveTiming moves;
  ScalarTiming scalar;
  std::vector<CustomUnit> units;
  std::array<ClassTiming, timing_classes> classes;

  const ClassTiming& timing_of(TimingClass c) const { return classes[static_cast<std::size_t>(c)]; }
};

/// The core of a machine, from its units and `core.isa`; UserError where its registers have no legal length.
CoreTiming core_of(const Machine& machine);

/// What its hart has beside a standard one.
NpuSpec npu_spec(const Machine& machine, const CoreTiming& core);

/// Reads schema `tilesim.core`, version 1; UserError with the place, and the nearest name for a key that is not there.
CoreTiming read_core(const Json& file);

}  // namespace tilesim::isa
