// The pipeline of a machine's core: its units as classes of instructions.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/pipeline/timing.hpp"

namespace tilesim::isa {

namespace {

using TC = TimingClass;

std::uint32_t register_bits(const Machine& machine) {
  const VectorSpec& vector = machine.core.vector;
  const std::int64_t stated = machine.core.isa.vlen, bits = stated > 0 ? stated : 32 * vector.lanes * vector.sublanes;
  if (bits < 128 || bits > 65536 || !std::has_single_bit(static_cast<std::uint64_t>(bits)))
    throw UserError(
        {"the bits of a vector register must be a power of two",
         machine.name + ": " + (stated > 0 ? "core.isa.vlen" : "32 × core.vector.lanes × core.vector.sublanes"),
         std::to_string(bits), "128 to 65,536", "set core.isa.vlen"});
  return static_cast<std::uint32_t>(bits);
}

/// Ticks per beat by width for 32-bit cost `cost`: narrow elements take a lane each unless the unit packs them.
std::array<Ticks, 4> costs(const VectorSpec& vector, double cost) {
  const Ticks one = std::max<Ticks>(1, ticks(cost));
  if (vector.packs_narrow) return {one, one, one, one};
  return {4 * one, 2 * one, one, one};
}

void unit_classes(const Machine& machine, CoreTiming& core) {
  const VectorSpec& vector = machine.core.vector;
  const CrossLaneSpec& crossing = machine.core.cross_lane;
  const auto give = [&](TC c, double cost, Ticks latency) {
    ClassTiming& timing = core.classes[static_cast<std::size_t>(c)];
    timing.cost = costs(vector, cost), timing.latency = latency;
  };
  const Ticks latency = vector.latency * cycle;
  for (std::size_t i = 0; i < timing_classes; ++i) give(static_cast<TC>(i), vector.simple, latency);
  for (const TC c : {TC::multiply, TC::multiply_add, TC::widening_multiply, TC::widening_multiply_add, TC::floating,
                     TC::float_fused, TC::float_widening_fused, TC::fixed_multiply})
    give(c, vector.multiply, latency);
  for (const TC c : {TC::divide, TC::divide_scalar, TC::float_divide, TC::float_divide_scalar, TC::float_root})
    give(c, vector.divide, latency);
  give(TC::special, vector.transcendental, latency);
  // beats count elements of the wide operand, one per lane
  for (const TC c : {TC::widening, TC::narrowing, TC::extend, TC::float_widening_convert, TC::float_narrowing}) {
    ClassTiming& timing = core.classes[static_cast<std::size_t>(c)];
    timing.cost.fill(std::max<Ticks>(1, ticks(vector.simple)));
  }
  // used bytes of registers pass the cross-lane unit at its rate
  const Ticks passing = ticks(1024 / static_cast<double>(crossing.bytes_per_cycle));
  for (const TC c : {TC::permutation, TC::iota, TC::slide_up, TC::slide_down, TC::slide_up_one, TC::slide_down_one,
                     TC::gather_one, TC::gather, TC::compress}) {
    ClassTiming& timing = core.classes[static_cast<std::size_t>(c)];
    timing.cost.fill(0), timing.passing = passing, timing.latency = crossing.latency * cycle;
  }
  for (const TC c : {TC::reduction, TC::reduction_logic, TC::reduction_widening, TC::float_reduction, TC::float_sum,
                     TC::float_sum_widening}) {
    ClassTiming& timing = core.classes[static_cast<std::size_t>(c)];
    timing.cost.fill(0), timing.passing = passing;
    timing.latency = vector.reduce_latency * cycle, timing.at_end = true;
  }
  for (const TC c : {TC::float_sum_ordered, TC::float_sum_ordered_widening}) {
    ClassTiming& timing = core.classes[static_cast<std::size_t>(c)];
    timing.cost.fill(0), timing.element = latency, timing.latency = latency, timing.at_end = true;
  }
  for (const TC c : {TC::memory, TC::load, TC::load_segment, TC::load_strided, TC::store, TC::store_segment,
                     TC::store_strided, TC::matrix}) {
    ClassTiming& timing = core.classes[static_cast<std::size_t>(c)];
    timing.cost.fill(cycle), timing.latency = cycle;
  }
  // strided elements: one per lane and cycle
  for (const TC c : {TC::load_strided, TC::load_segment, TC::store_strided, TC::store_segment}) {
    ClassTiming& timing = core.classes[static_cast<std::size_t>(c)];
    timing.cost.fill(0), timing.element = std::max<Ticks>(1, cycle / vector.lanes);
  }
  for (const TC c : {TC::to_scalar, TC::mask_to_scalar}) core.classes[static_cast<std::size_t>(c)].at_end = true;
}

void arrays_of(const Machine& machine, CoreTiming& core) {
  const ArraySpec& array = machine.core.array;
  core.array.rows = array.rows, core.array.columns = array.columns;
  for (const auto& [dtype, rate] : array.rates)
    if (rate > 0) core.array.row[static_cast<std::size_t>(dtype)] = std::max<Ticks>(1, ticks(1 / rate));
  core.array.weight_row = std::max<Ticks>(1, cycle / array.weight_rows_per_cycle);
  core.array.double_buffer = array.weight_double_buffer;
  core.array.accumulates = sums_in_arrays(machine.core.isa, machine.core.scratchpad);
  const IsaSpec& isa = machine.core.isa;
  core.array.input_rows = isa.input_rows > 0 ? isa.input_rows : 2 * (array.rows + array.columns);
  core.array.result_rows = isa.result_rows > 0 ? isa.result_rows : 2 * (array.rows + array.columns);
  const bool weights = array.dataflow != Dataflow::output_stationary && !array.sparse.present();
  const auto count = static_cast<std::uint8_t>(weights ? std::min<std::int64_t>(array.count, 8) : 0);
  core.pipes[static_cast<std::size_t>(PipeKind::matrix)] = count;
  core.pipes[static_cast<std::size_t>(PipeKind::results)] = count;
}

void moves_of(const Machine& machine, CoreTiming& core) {
  const DmaSpec& dma = machine.core.dma;
  const MemorySpec& memory = machine.memory;
  const auto hertz = static_cast<double>(machine.core.clock.hertz);
  constexpr double mebi = 1 << 20;
  MoveTiming& moves = core.moves;
  moves.load_queues = static_cast<unsigned>(dma.load_queues);
  moves.store_queues = static_cast<unsigned>(dma.store_queues);
  moves.entries = dma.queue_entries, moves.bytes_per_cycle = dma.bytes_per_cycle;
  moves.issue = dma.issue_cycles * cycle, moves.latency = dma.latency_cycles * cycle;
  if (memory.kind == "ideal") return;
  const double way =
      static_cast<double>(machine.network.latency_cycles) * hertz / static_cast<double>(machine.network.clock.hertz);
  const double answer = static_cast<double>(memory.latency_ps) * 1e-12 * hertz;
  moves.trip[0] = ticks(answer + 2 * way), moves.trip[1] = ticks(answer + way);
  // splits transfers into requests as the engine does
  const std::int64_t whole = std::max<std::int64_t>(moves.chunk, memory.interleave_bytes * memory.channels);
  moves.chunk = std::max<std::int64_t>(1, std::min(whole, dma.outstanding_bytes));
  moves.window = std::clamp<std::int64_t>(dma.outstanding_bytes / moves.chunk, 1, 64);
  if (memory.bytes_per_second > 0)
    moves.memory = ticks(mebi * hertz / (static_cast<double>(memory.bytes_per_second) * memory.efficiency));
}

/// Adds the units of user-defined instructions.
void custom_units(const Machine& machine, CoreTiming& core) {
  for (const auto& [function, one] : machine.core.isa.functions) {
    if (!one.custom) continue;
    const CustomUnit unit{one.custom->name, static_cast<unsigned>(one.custom->queue),
                          static_cast<unsigned>(one.custom->pipes)};
    const auto known = std::find_if(core.units.begin(), core.units.end(),
                                    [&](const CustomUnit& other) { return other.name == unit.name; });
    const std::string place = machine.name + ": core.isa.functions: " + std::string(info(function).name);
    if (known == core.units.end())
      core.units.push_back(unit);
    else if (known->queue != unit.queue || known->pipes != unit.pipes)
      throw UserError({"two units have one name", place, unit.name, "one queue and as many pipes as the other", {}});
  }
}

}  // namespace

CoreTiming core_of(const Machine& machine) {
  const IsaSpec& isa = machine.core.isa;
  CoreTiming core = read_core(Json::parse(
      R"({"schema": "tilesim.core", "version": 1, "name": "", "vlen": 128, "scalar": {"mispredicted": 0}})", "core"));
  core.name = machine.name;
  core.vlen = core.dlen = register_bits(machine);
  core.width = static_cast<unsigned>(isa.width), core.dispatch = static_cast<unsigned>(isa.dispatch);
  core.queue = static_cast<unsigned>(isa.queue);
  core.pipes[0] = static_cast<std::uint8_t>(std::min<std::int64_t>(machine.core.vector.issue, 8));
  core.pipes[1] = static_cast<std::uint8_t>(isa.loads), core.pipes[2] = static_cast<std::uint8_t>(isa.stores);
  core.pipes[static_cast<std::size_t>(PipeKind::cross_lane)] = 1, core.reduces_across = true;
  core.port_bytes = static_cast<unsigned>(isa.port_bytes > 0 ? isa.port_bytes : core.dlen / 8);
  core.port_beat = std::max<Ticks>(1, cycle * core.dlen / 8 / core.port_bytes);
  core.load_latency = isa.load_latency * cycle;
  unit_classes(machine, core);
  arrays_of(machine, core);
  moves_of(machine, core);
  custom_units(machine, core);
  return core;
}

NpuSpec npu_spec(const Machine& machine, const CoreTiming& core) {
  NpuSpec spec;
  spec.lanes = static_cast<unsigned>(machine.core.vector.lanes);
  spec.arrays = core.pipes[static_cast<std::size_t>(PipeKind::matrix)];
  spec.rows = static_cast<unsigned>(core.array.rows), spec.columns = static_cast<unsigned>(core.array.columns);
  spec.scratchpad_bytes = static_cast<std::uint64_t>(machine.core.scratchpad.bytes);
  spec.accumulator_bytes = static_cast<std::uint64_t>(machine.core.scratchpad.accumulator_bytes);
  constexpr std::uint64_t unstated = std::uint64_t{1} << 36;
  const std::int64_t capacity = machine.memory.capacity_bytes;
  spec.off_chip_bytes = capacity > 0 ? static_cast<std::uint64_t>(capacity) : unstated;
  spec.load_queues = core.moves.load_queues, spec.store_queues = core.moves.store_queues;
  spec.numerics = machine.core.array.numerics;
  Ticks fastest = cycle;
  for (const Ticks row : core.array.row)
    if (row > 0) fastest = std::min(fastest, row);
  spec.result_rows = static_cast<unsigned>(core.array.under_way(fastest));
  return spec;
}

}  // namespace tilesim::isa
