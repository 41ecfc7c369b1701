// Tiles of kernels that move data, one after the other: what an estimate by totals misses is that small or regularly
// placed transfers keep few channels busy.
#include <algorithm>
#include <limits>

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
  double free = 0, done = 0;
  std::int64_t left = 0, address = 0;
  std::vector<double> in_flight{};
  std::size_t sent = 0;

  /// When the next request may leave, of a transfer that may begin at `wanted`.
  double ready(double wanted) const {
    const auto slots = static_cast<std::size_t>(window);
    const double room = sent >= slots ? in_flight[sent % slots] : 0;
    return std::max({free, room, left > 0 ? 0 : wanted});
  }

  void begin(std::int64_t at, std::int64_t bytes, double now) {
    free = now + static_cast<double>(machine.core.dma.issue_cycles);
    done = free;
    left = bytes;
    address = at;
  }

  /// Sends one request; true with the transfer's last one.
  bool send(Channels& channels, double now) {
    const std::int64_t size = std::min(left, chunk);
    const auto slots = static_cast<std::size_t>(window);
    const double start = std::max(now, free);
    if (size > 0) {
      done = std::max(done, channels.request(address, size, start, write));
      if (in_flight.size() < slots)
        in_flight.push_back(done);
      else
        in_flight[sent % slots] = done;
      ++sent;
    }
    free = start + static_cast<double>(ceil_div(size, machine.core.dma.bytes_per_cycle));
    left -= size;
    address += size;
    if (left > 0) return false;
    done += static_cast<double>(machine.core.dma.latency_cycles);
    return true;
  }
};

/// Bits from one element of the tensor to the next along each of its axes, minor first.
std::vector<std::int64_t> strides_of(const VectorOperand& operand) {
  std::vector<std::int64_t> result;
  std::int64_t stride = bits(operand.dtype);
  for (std::size_t i = 0; i < operand.axes.size(); ++i) {
    result.push_back(stride);
    const bool padded = operand.layout.size() == 2 && i < 2;
    stride *=
        std::max<std::int64_t>(1, padded ? round_up(operand.extents[i], operand.layout[1 - i]) : operand.extents[i]);
  }
  return result;
}

struct Moved { std::int64_t address = 0, bytes = 0; };

/// What memory moves for the tile that starts at a point, by the engine's rule: whole rows of lanes and tiles of the
/// layout, or contiguous runs in whole bursts.
Moved moved(const VectorOperand& operand, const std::vector<std::int64_t>& strides,
            const std::vector<std::int64_t>& start, const std::vector<std::int64_t>& size, const Machine& machine) {
  const std::size_t rank = operand.axes.size();
  std::vector<std::int64_t> low(rank, 0), length(rank, 1);
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < rank; ++i) {
    if (operand.axes[i] < 0) continue;
    const auto axis = static_cast<std::size_t>(operand.axes[i]);
    const std::int64_t step = std::max<std::int64_t>(1, operand.step[axis]), extent = operand.extents[i];
    low[i] = std::min(start[axis] * step, extent - 1);
    length[i] = std::clamp<std::int64_t>(step * (size[axis] - 1) + 1, 1, extent - low[i]);
    offset += low[i] * strides[i];
  }
  if (operand.layout.size() == 2 && rank >= 2) {
    const std::int64_t lanes = operand.layout[1], height = operand.layout[0];
    std::int64_t elements = ((low[0] + length[0] - 1) / lanes - low[0] / lanes + 1) * lanes;
    const bool to_end = low[1] + length[1] == operand.extents[1] && low[1] % height == 0;
    elements *= to_end ? round_up(length[1], height) : length[1];
    for (std::size_t i = 2; i < rank; ++i) elements *= length[i];
    return {offset / 8, packed_bytes(operand.dtype, elements)};
  }
  const std::int64_t burst = machine.memory.burst_bytes;
  std::int64_t run = bits(operand.dtype), runs = 1;
  bool contiguous = true, aligned = true;
  for (std::size_t i = 0; i < rank; ++i) {
    if (length[i] == 1) continue;
    contiguous = contiguous && strides[i] == run;
    if (contiguous) {
      run *= length[i];
    } else {
      runs *= length[i];
      aligned &= strides[i] / 8 % burst == 0;
    }
  }
  const std::int64_t skew = aligned || runs == 1 ? offset / 8 % burst : (burst - 1) / 2;
  return {offset / 8, runs * round_up(skew + (run + 7) / 8, burst)};
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
  const std::vector<std::int64_t> from = strides_of(*source), to = strides_of(*target);
  std::vector<std::int64_t> start(rank), size(rank);
  const std::int64_t page = 4096, far = round_up(element_count(source->extents) * bits(source->dtype) / 8, page);
  const double converting = price(problem, tiles, machine).compute / total;
  struct Moves { std::int64_t at, into, read, written; };
  std::vector<Moves> moves;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t axis = 0; axis < rank; ++axis) {
      start[axis] = index[axis] * tiles.tiles[axis];
      size[axis] = std::min(tiles.tiles[axis], std::max<std::int64_t>(1, problem.space[axis]) - start[axis]);
    }
    const Moved in = moved(*source, from, start, size, machine), out = moved(*target, to, start, size, machine);
    moves.push_back({in.address, far + out.address, in.bytes, out.bytes});
    for (std::size_t axis = rank; axis-- > 0;) {
      if (++index[axis] < trips[axis]) break;
      index[axis] = 0;
    }
  }
  constexpr double never = std::numeric_limits<double>::infinity();
  const auto depth = static_cast<std::size_t>(tiles.depth);
  std::vector<double> ready, stored;
  double vector_free = 0;
  while (stored.size() < count) {  // requests in order of time
    const std::size_t next = ready.size(), out = stored.size();
    double now[2] = {never, never};
    if (next < count && (next < depth || next - depth < out))
      now[0] = load.ready(next < depth ? 0 : stored[next - depth]);
    if (out < next) now[1] = store.ready(ready[out]);
    const bool writes = now[1] < now[0];
    Queue& queue = writes ? store : load;
    const Moves& move = moves[writes ? out : next];
    if (queue.left == 0) queue.begin(writes ? move.into : move.at, writes ? move.written : move.read, now[writes]);
    if (!queue.send(channels, now[writes])) continue;
    if (writes) {
      stored.push_back(queue.done);
    } else if (converting > 0) {
      vector_free = std::max(vector_free, queue.done) + converting;
      ready.push_back(vector_free + static_cast<double>(machine.core.vector.latency));
    } else {
      ready.push_back(queue.done);
    }
  }
  const double halfway = count > 1 ? stored[count / 2 - 1] : 0;
  const double last = *std::max_element(stored.begin(), stored.end());
  const double rest = total - static_cast<double>(count);
  const double each = count > 1 ? (last - halfway) / static_cast<double>(count - count / 2) : 0;
  return last + rest * each + static_cast<double>(machine.core.kernel_launch_cycles);
}

}  // namespace tilesim::mapping
