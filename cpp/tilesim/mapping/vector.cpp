#include "tilesim/mapping/vector.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/vector/moves.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t most_bytes = INT64_MAX / 8;

/// Bytes of the distinct elements that the kernel must read or write.
double compulsory_bytes(const VectorProblem& problem, const VectorOperand& operand) {
  if (operand.use == VectorOperand::Use::scratch || !operand.certain) return 0;
  double elements = 1;
  for (std::size_t i = 0; i < operand.axes.size(); ++i) {
    if (operand.axes[i] < 0) continue;
    const auto axis = static_cast<std::size_t>(operand.axes[i]);
    const std::int64_t reach = !operand.dilation.empty() ? operand.dilation[axis] * (problem.taps[axis] - 1) + 1
                               : operand.reach.empty()   ? 1
                                                         : operand.reach[axis];
    const std::int64_t outside = reach > 1 ? reach - 1 : 0;  // windows may be in the padding at both ends
    const std::int64_t touched = std::min(operand.extents[i], problem.space[axis]) - 2 * outside;
    elements *= static_cast<double>(std::max<std::int64_t>(1, touched));
  }
  return elements * static_cast<double>(bits(operand.dtype)) / 8;
}

/// The error in the sub-tiles of otherwise legal tiles; empty if they are legal.
std::string wrong_pieces(const VectorProblem& problem, const VectorTiles& tiles) {
  const std::size_t rank = problem.space.size();
  if (tiles.sub.empty()) return {};
  if (tiles.sub.size() != rank) return "sub-tiles need " + std::to_string(rank) + " sizes, one per axis";
  std::int64_t pieces = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    if (tiles.sub[axis] < 1 || tiles.sub[axis] > tiles.tiles[axis])
      return "sub-tile size of axis " + std::to_string(axis) + " is " + std::to_string(tiles.sub[axis]) + "; 1 to " +
             std::to_string(tiles.tiles[axis]) + " are possible";
    pieces = saturating(pieces, ceil_div(tiles.tiles[axis], tiles.sub[axis]));
  }
  if (pieces == 1) return {};
  if (!problem.whole_tiles.empty()) return problem.whole_tiles;
  if (streams(problem, tiles)) return "tiles of streamed rows cannot be split further";
  if (pieces > most_pieces)
    return "a tile has " + std::to_string(pieces) + " pieces; at most " + std::to_string(most_pieces) + " are possible";
  const bool reduces = std::find(problem.reduced.begin(), problem.reduced.end(), true) != problem.reduced.end();
  for (const VectorOperand& operand : problem.operands) {
    if (problem.turns && changes_lanes(problem, operand, tiles))
      return "a tile whose elements change lanes cannot have sub-tiles";
    if (operand.use != VectorOperand::Use::scratch && bits(operand.dtype) < 8)
      return "sub-tiles of elements smaller than a byte would share bytes";
    bool rows = !reduces;
    for (std::size_t axis = 0; axis < rank; ++axis)
      rows |= problem.reduced[axis] && operand.step[axis] > 0 && problem.space[axis] > 1;
    for (std::size_t axis = 0; axis < rank && operand.use == VectorOperand::Use::store && rows; ++axis)
      if (tiles.sub[axis] < tiles.tiles[axis] && operand.step[axis] == 0)
        return "a result does not span axis " + std::to_string(axis) + ", so its tile cannot be split along it";
  }
  return {};
}

}  // namespace

bool changes_lanes(const VectorProblem& problem, const VectorOperand& operand, const VectorTiles& tiles) {
  const auto lane = static_cast<std::size_t>(tiles.lane);
  if (operand.use == VectorOperand::Use::scratch || problem.space.empty() || problem.space[lane] <= 1) return false;
  if (held_elements(problem, operand, tiles.tiles) <= 1) return false;
  const bool padded = operand.layout.size() == 2 && operand.axes.size() >= 2;
  std::size_t minor = 0;
  while (!padded && minor + 1 < operand.axes.size() && operand.extents[minor] <= 1) ++minor;
  const int axis = operand.axes.empty() || operand.extents[minor] <= 1 ? -1 : operand.axes[minor];
  // Broadcast over the lanes: a load from one lane, or a result with one element in memory.
  if (operand.step[lane] == 0) return operand.use == VectorOperand::Use::load || axis >= 0;
  if (axis != tiles.lane || operand.minor_step < 0) return true;
  if (operand.row == 1) return false;
  return operand.minor_mixed || operand.minor_step != 1 || operand.minor_offset % operand.row != 0;
}

std::int64_t vector_scratchpad_bytes(const VectorProblem& problem, const VectorTiles& tiles) {
  std::int64_t bytes = 0;
  for (const VectorOperand& operand : problem.operands) {
    if (!operand.held || !is_there(problem, operand, tiles)) continue;
    const std::int64_t elements = held_elements(problem, operand, tiles.tiles);
    const bool scratch = operand.use == VectorOperand::Use::scratch;
    const std::int64_t one = elements >= most_bytes / 8 ? most_bytes : packed_bytes(operand.dtype, elements);
    bytes = std::min(most_bytes,
                     bytes + saturating(round_up(one, 64), scratch && operand.depth > 0 ? operand.depth : tiles.depth));
  }
  std::int64_t beside = problem.bytes_per_point;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    beside = saturating(beside, std::min(tiles.tiles[axis], problem.space[axis]));
  return std::min(most_bytes, bytes + saturating(round_up(std::min(beside, most_bytes / 8), 64), tiles.depth));
}

Legality legal(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine) {
  const std::size_t rank = problem.space.size();
  if (tiles.tiles.size() != rank)
    return {false, "tiles of " + problem.operation + " need " + std::to_string(rank) + " sizes, one per axis"};
  for (std::size_t axis = 0; axis < rank; ++axis)
    if (tiles.tiles[axis] < 1 || tiles.tiles[axis] > std::max<std::int64_t>(1, problem.space[axis]))
      return {false, "tile size of axis " + std::to_string(axis) + " is " + std::to_string(tiles.tiles[axis]) +
                         "; 1 to " + std::to_string(problem.space[axis]) + " are possible"};
  for (std::size_t axis = 0; axis < problem.whole.size(); ++axis)
    if (problem.whole[axis] && tiles.tiles[axis] < problem.space[axis])
      return {false, "axis " + std::to_string(axis) + " cannot be split: a tile has " +
                         std::to_string(problem.space[axis]) + " elements along it"};
  if (tiles.depth < 1 || tiles.depth > 1 << 10) return {false, "a ring needs a depth of 1 to 1024"};
  if (const std::string wrong = wrong_pieces(problem, tiles); !wrong.empty()) return {false, wrong};
  if (const std::string wrong = wrong_contexts(tiles.contexts, machine); !wrong.empty()) return {false, wrong};
  if (rank > 0 && std::find(problem.lanes.begin(), problem.lanes.end(), tiles.lane) == problem.lanes.end()) {
    std::string allowed;
    for (int lane : problem.lanes) allowed += (allowed.empty() ? "" : ", ") + std::to_string(lane);
    return {false, "axis " + std::to_string(tiles.lane) + " cannot lie over the lanes; these can: " + allowed};
  }
  const std::int64_t bytes = vector_scratchpad_bytes(problem, tiles), most = machine.core.scratchpad.bytes;
  if (bytes > most)
    return {false,
            "tiles need " + std::to_string(bytes) + " bytes of scratchpad, the core has " + std::to_string(most)};
  return {};
}

namespace {

/// Cycles of a round trip between core and memory.
double round_trip(const Share& machine) {
  const auto hertz = static_cast<double>(machine.core.clock.hertz);
  return static_cast<double>(machine.memory.latency_ps) * 1e-12 * hertz +
         2.0 * static_cast<double>(machine.network.latency_cycles) * hertz /
             static_cast<double>(machine.network.clock.hertz);
}

/// Cycles of a queue per transfer of `bytes` bytes: the requests in flight share a round trip.
double trip_cycles(double bytes, const Share& machine) {
  const DmaSpec& dma = machine.core.dma;
  const std::int64_t whole = std::max<std::int64_t>(16384, machine.memory.interleave_bytes * machine.memory.channels);
  const auto chunk = static_cast<double>(std::max<std::int64_t>(1, std::min(whole, dma.outstanding_bytes)));
  const double window = std::clamp(static_cast<double>(dma.outstanding_bytes) / chunk, 1.0, 64.0);
  const double requests = std::max(1.0, bytes / chunk);
  const double rate = static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency /
                      static_cast<double>(machine.core.clock.hertz);
  const double passing = bytes / std::min(rate, static_cast<double>(dma.bytes_per_cycle));
  return std::max(passing, (requests * round_trip(machine) + bytes / rate) / std::floor(window)) +
         static_cast<double>(dma.issue_cycles);
}

}  // namespace

namespace {

/// Work of the loads and stores of all tiles.
struct Queues {
  double bytes[2] = {0, 0}, cycles[2] = {0, 0};  ///< of loads and stores, at full memory bandwidth
  double transfers = 0, exposed = 0;             ///< exposed: bytes of the first tile
  double shuffled = 0, turned = 0, after = 0;    ///< cycles of permutes: all; of one tile; latency
};

void add(Queues& queues, const VectorProblem& problem, int operand, const VectorTiles& tiles, const VectorTiles& walked,
         const Prepared::Total& total, const Share& machine) {
  const VectorOperand& own = problem.operands[static_cast<std::size_t>(operand)];
  const std::size_t way = own.use == VectorOperand::Use::load ? 0 : 1;
  const double mean = total.bytes / std::max(1.0, total.transfers);
  queues.bytes[way] += total.bytes;
  queues.cycles[way] += total.transfers * trip_cycles(mean, machine);
  queues.transfers += total.transfers;
  queues.exposed += mean;
  const TileLatency changed = turning(problem, own, tiles, walked.tiles, machine);
  queues.shuffled += static_cast<double>(changed.busy) * total.transfers;
  queues.turned += static_cast<double>(changed.busy);
  queues.after += static_cast<double>(changed.done - changed.busy);
}

/// Total trips of the loops around a phase.
double turns_of(const VectorProblem& problem, const VectorTiles& tiles, bool streams) {
  const bool rows_only = !streams && mapping::streams(problem, tiles);
  double turns = 1;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    if (!rows_only || !problem.reduced[axis])
      turns *= static_cast<double>(ceil_div(std::max<std::int64_t>(1, problem.space[axis]), tiles.tiles[axis]));
  for (std::size_t axis = 0; axis < problem.taps.size() && streams; ++axis)
    turns *= static_cast<double>(ceil_div(problem.taps[axis], problem.tap_tiles[axis]));
  return turns;
}

}  // namespace

VectorWeighed weighed(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine, Prepared& own) {
  VectorTiles walked = tiles;  // pieces move and are computed like tiles
  if (!tiles.sub.empty()) walked.tiles = tiles.sub;
  double rows = 1, turns = 0, computing = 0, least = 0;
  for (std::size_t axis = 0; axis < problem.space.size(); ++axis)
    if (!problem.reduced[axis])
      rows *= static_cast<double>(ceil_div(std::max<std::int64_t>(1, problem.space[axis]), walked.tiles[axis]));
  Queues queues;
  for (const VectorPhase& phase : own.phases(tiles_follow(problem, tiles))) {
    if (!phase.loads.empty()) turns += turns_of(problem, tiles, phase.streams);
    for (int k : phase.loads) {
      const bool pieces = in_pieces(problem, problem.operands[static_cast<std::size_t>(k)], tiles);
      add(queues, problem, k, tiles, walked, own.total(static_cast<std::size_t>(k), tiles, pieces, phase.streams),
          machine);
    }
    for (int s : phase.stages) {
      const VectorStage& stage = own.stages()[static_cast<std::size_t>(s)];
      computing += own.busy(stage, tiles, phase.streams);
      for (int k : stage.stores)
        add(queues, problem, k, tiles, walked,
            own.total(static_cast<std::size_t>(k), tiles, !stage.points, phase.streams), machine);
    }
  }
  for (const VectorOperand& operand : problem.operands) least += compulsory_bytes(problem, operand);
  VectorWeighed result;
  VectorCost& cost = result.cost;
  const double read = queues.bytes[0], written = queues.bytes[1], transfers = queues.transfers;
  // Cores process rows of tiles; contexts share their core's units; the machine has one core's share of the bandwidth.
  const auto count = static_cast<double>(machine.core.count);
  const double workers = std::max(1.0, std::min(count, rows));
  const double units = std::max(1.0, workers / static_cast<double>(std::max<std::int64_t>(1, tiles.contexts)));
  cost.vector = computing;
  cost.compute = std::max(computing, queues.shuffled) / units;
  const double hertz = static_cast<double>(machine.core.clock.hertz);
  const double peak = static_cast<double>(machine.memory.bytes_per_second) * count / hertz;
  const double rate = peak * machine.memory.efficiency;
  const double latency =
      round_trip(machine) + static_cast<double>(machine.core.dma.latency_cycles + machine.core.dma.issue_cycles);
  cost.memory = (read + written) / rate;
  cost.read_bytes = static_cast<std::int64_t>(std::min(read, 9e18));
  cost.written_bytes = static_cast<std::int64_t>(std::min(written, 9e18));
  cost.transfers = static_cast<std::int64_t>(std::min(transfers, 9e18));
  cost.bound = least / peak;
  // A buffer is loaded, permuted, used and reloaded, after stores on the same memory.
  const double each = turns / workers * (latency + queues.after + static_cast<double>(machine.core.vector.latency));
  const double used = tiles.sub.empty() ? cost.compute + cost.memory : std::max(cost.compute, cost.memory);
  result.ring = each + used;
  const double issue = static_cast<double>(machine.core.dma.issue_cycles) * transfers / workers;
  result.parts = {{{cost.compute, "compute"},
                   {cost.memory, "memory"},
                   {0, "the ring of buffers"},
                   {issue, "issue of transfers"},
                   {queues.cycles[0] / workers / static_cast<double>(machine.core.dma.load_queues), "latency of loads"},
                   {queues.cycles[1] / workers, "latency of stores"}}};
  // Nothing hides the loads of the first tile and the stores of the last tile.
  result.exposed = queues.exposed / rate + queues.turned + queues.after + latency + transfers / workers;
  return result;
}

VectorCost VectorWeighed::with_depth(std::int64_t depth) const {
  VectorCost result = cost;
  auto all = parts;
  all[2].first = ring / static_cast<double>(depth);
  const auto longest = std::max_element(all.begin(), all.end());
  result.limit = longest->second;
  result.cycles = longest->first + exposed;
  return result;
}

VectorCost price(const VectorProblem& problem, const VectorTiles& tiles, const Share& machine) {
  Prepared own(problem, machine);
  VectorCost cost = weighed(problem, tiles, machine, own).with_depth(tiles.depth);
  if (problem.ranks || problem.walks) cost.cycles = walked_cycles(problem, tiles, machine);
  return cost;
}

}  // namespace tilesim::mapping
