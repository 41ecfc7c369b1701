// Tiles of kernels that move data, one after the other: what an estimate by totals misses is that small or regularly
// placed transfers keep few channels busy.
#include <algorithm>
#include <numeric>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/vector.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t most_tiles = 1500;  // walked; the time of further ones is extended linearly

/// Channels that each take so many bytes per core cycle; consecutive units of the interleaving lie on neighbours.
class Channels {
 public:
  explicit Channels(const Machine& machine)
      : unit_(machine.memory.interleave_bytes), free_(static_cast<std::size_t>(machine.memory.channels), 0) {
    const auto hertz = static_cast<double>(machine.core.clock.hertz);
    rate_ = static_cast<double>(machine.memory.bytes_per_second) * machine.memory.efficiency / hertz /
            static_cast<double>(free_.size());
    const auto ratio = hertz / static_cast<double>(machine.network.clock.hertz);
    port_ = static_cast<double>(machine.network.port_bytes_per_cycle) / ratio;
    one_way_ = static_cast<double>(machine.network.latency_cycles) * ratio;
    latency_ = static_cast<double>(machine.memory.latency_ps) * 1e-12 * hertz;
  }

  /// When a request that leaves the core at `now` is answered.
  double request(std::int64_t address, std::int64_t bytes, double now, bool write) {
    const double arrival = now + one_way_;
    port_free_ = std::max(port_free_, arrival) + static_cast<double>(bytes) / port_;
    double finish = port_free_;
    const auto count = static_cast<std::int64_t>(free_.size());
    const std::int64_t first = address / unit_, units = std::min(ceil_div(address % unit_ + bytes, unit_), count);
    const double share = static_cast<double>(bytes) / static_cast<double>(units) / rate_;
    for (std::int64_t i = 0; i < units; ++i) {
      double& free = free_[static_cast<std::size_t>((first + i) % count)];
      free = std::max(free, arrival) + share;
      finish = std::max(finish, free);
    }
    return finish + latency_ + (write ? 0 : one_way_);
  }

 private:
  std::int64_t unit_;
  std::vector<double> free_;
  double rate_ = 1, port_ = 1, one_way_ = 0, latency_ = 0, port_free_ = 0;
};

/// A DMA queue: transfers in order, in requests of a bounded size, a bounded number of them in flight.
struct Queue {
  const Machine& machine;
  std::int64_t chunk, window;
  bool write;
  double free = 0;
  std::vector<double> in_flight{};
  std::size_t sent = 0;

  double transfer(Channels& channels, std::int64_t address, std::int64_t bytes, double now) {
    const DmaSpec& dma = machine.core.dma;
    free = std::max(free, now) + static_cast<double>(dma.issue_cycles);
    double done = free;
    for (std::int64_t left = bytes; left > 0;) {
      const std::int64_t size = std::min(left, chunk);
      const auto slots = static_cast<std::size_t>(window);
      if (sent >= slots) free = std::max(free, in_flight[(sent - slots) % slots]);
      done = std::max(done, channels.request(address, size, free, write));
      if (in_flight.size() < slots)
        in_flight.push_back(done);
      else
        in_flight[sent % slots] = done;
      ++sent;
      free += static_cast<double>(ceil_div(size, dma.bytes_per_cycle));
      left -= size;
      address += size;
    }
    return done + static_cast<double>(dma.latency_cycles);
  }
};

/// Bytes from the first element of the tensor to the tile's, and from tile to tile.
std::vector<std::int64_t> strides_of(const VectorProblem& problem, const VectorOperand& operand) {
  std::vector<std::int64_t> result(problem.space.size(), 0);
  std::int64_t stride = bits(operand.dtype);
  for (std::size_t i = 0; i < operand.axes.size(); ++i) {
    if (operand.axes[i] >= 0) {
      const auto axis = static_cast<std::size_t>(operand.axes[i]);
      result[axis] += stride * std::max<std::int64_t>(1, operand.step[axis]) / 8;
    }
    const bool padded = operand.layout.size() == 2 && i < 2;
    stride *= std::max<std::int64_t>(1, padded ? round_up(operand.extents[i], operand.layout[1 - i])
                                               : operand.extents[i]);
  }
  return result;
}

}  // namespace

double walked_cycles(const VectorProblem& problem, const VectorTiles& tiles, const Machine& machine) {
  const std::size_t rank = problem.space.size();
  const std::int64_t whole = std::max<std::int64_t>(16384, machine.memory.interleave_bytes * machine.memory.channels);
  const std::int64_t chunk = std::max<std::int64_t>(1, std::min(whole, machine.core.dma.outstanding_bytes));
  const std::int64_t window = std::clamp<std::int64_t>(machine.core.dma.outstanding_bytes / chunk, 1, 64);
  Channels channels(machine);
  Queue load{machine, chunk, window, false}, store{machine, chunk, window, true};
  const VectorOperand *source = nullptr, *target = nullptr;
  for (const VectorOperand& operand : problem.operands) {
    if (operand.use == VectorOperand::Use::load && !source) source = &operand;
    if (operand.use == VectorOperand::Use::store && !target) target = &operand;
  }
  if (!source || !target) return 0;
  std::vector<std::int64_t> trips(rank), index(rank, 0);
  double total = 1;
  for (std::size_t axis = 0; axis < rank; ++axis) {
    trips[axis] = ceil_div(std::max<std::int64_t>(1, problem.space[axis]), tiles.tiles[axis]);
    total *= static_cast<double>(trips[axis]);
  }
  const auto count = static_cast<std::size_t>(std::min(total, static_cast<double>(most_tiles)));
  const std::vector<std::int64_t> from = strides_of(problem, *source), to = strides_of(problem, *target);
  const std::int64_t page = 4096, far = round_up(element_count(source->extents) * bits(source->dtype) / 8, page);
  const VectorCost cost = price(problem, tiles, machine);
  const double converting = cost.compute / total;
  std::vector<double> loaded(count, 0), stored(count, 0);
  double vector_free = 0, halfway = 0;
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t at = 0, into = far;
    VectorTiles own = tiles;
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const std::int64_t start = index[axis] * tiles.tiles[axis];
      own.tiles[axis] = std::min(tiles.tiles[axis], std::max<std::int64_t>(1, problem.space[axis]) - start);
      at += start * from[axis];
      into += start * to[axis];
    }
    const auto depth = static_cast<std::size_t>(tiles.depth);
    const double free = i < depth ? 0 : stored[i - depth];
    double ready = load.transfer(channels, at, moved_bytes(problem, *source, own, machine), free);
    if (converting > 0) {
      vector_free = std::max(vector_free, ready) + converting;
      ready = vector_free + static_cast<double>(machine.core.vector.latency);
    }
    stored[i] = store.transfer(channels, into, moved_bytes(problem, *target, own, machine), ready);
    if (i + 1 == count / 2) halfway = stored[i];
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < trips[axis]) break;
      index[axis] = 0;
    }
  }
  const double last = *std::max_element(stored.begin(), stored.end());
  const double rest = total - static_cast<double>(count);
  const double each = count > 1 ? (last - halfway) / static_cast<double>(count - count / 2) : 0;
  return last + rest * each + static_cast<double>(machine.core.kernel_launch_cycles);
}

}  // namespace tilesim::mapping
