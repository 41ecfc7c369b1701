// Closed form of permutes: contiguous rows pass the ports, strided elements take a lane and cycle each, and the
// cross-lane unit transposes narrow ones.
#include <algorithm>
#include <array>
#include <bit>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t widest_piece = 8;  // bytes

/// The largest power of two, at most 8, that divides `bytes`.
std::int64_t whole_pieces(std::int64_t bytes) { return (bytes | widest_piece) & -(bytes | widest_piece); }

class MoveTimes {
 public:
  MoveTimes(const Share& machine, const Descriptor& d) : machine_(machine), isa_(machine.whole.core.isa), d_(d) {
    const VectorSpec& vector = machine.core.vector;
    register_bytes_ = isa_.vlen > 0 ? isa_.vlen / 8 : 4 * vector.lanes * vector.sublanes;
    port_bytes_ = isa_.port_bytes > 0 ? isa_.port_bytes : register_bytes_;
    ports_ = std::max<std::int64_t>(1, std::min(isa_.loads, isa_.stores));
  }

  /// Cycles of contiguous bytes of a row through a port.
  std::int64_t part(std::int64_t bytes) const {
    return std::max<std::int64_t>(1, ceil_div(ceil_div(bytes, register_bytes_) * register_bytes_, port_bytes_));
  }
  /// Cycles of strided pieces over all ports.
  std::int64_t pieces(std::int64_t count) const { return ceil_div(count, machine_.core.vector.lanes * ports_); }
  /// The same by a table of offsets, with as many pieces as a register has.
  std::int64_t tabled(std::int64_t count, std::int64_t bytes) const {
    const std::int64_t together = std::clamp<std::int64_t>(register_bytes_ / bytes, 1, count);
    const std::int64_t each = std::max<std::int64_t>(1, ceil_div(together, machine_.core.vector.lanes));
    return ceil_div(count / together * each + ceil_div(count % together, machine_.core.vector.lanes), ports_);
  }
  std::int64_t port(std::int64_t bytes) const { return ceil_div(bytes, port_bytes_ * ports_); }
  std::int64_t run_bytes() const { return packed_bytes(d_.dtype, std::max<std::int64_t>(1, d_.k)); }
  std::int64_t bytes() const { return packed_bytes(d_.dtype, d_.elements); }
  std::int64_t ports() const { return ports_; }
  std::int64_t register_bytes() const { return register_bytes_; }
  /// Cycles from the first load to the end of its store.
  std::int64_t through() const { return isa_.load_latency + 4; }
  const IsaSpec& isa() const { return isa_; }

 private:
  const Share& machine_;
  const IsaSpec& isa_;
  const Descriptor& d_;
  std::int64_t register_bytes_ = 1, port_bytes_ = 1, ports_ = 1;
};

/// A way to move elements: cycles of ports and lanes, and of the front end: `before` the first load, then four parts at
/// a time on each side, from an address that waits for its step.
struct MoveWay {
  std::int64_t work = 1, before = 7, parts = 1;
  const char* limit = "";
  std::int64_t busy() const { return std::max(work, before + 3 * (ceil_div(parts, 4) - 1)); }
};

TileLatency finished(std::int64_t busy, std::int64_t after, const char* limit) {
  TileLatency latency;
  latency.busy = std::max<std::int64_t>(1, busy);
  latency.consumed = latency.weights_consumed = latency.busy;
  latency.done = latency.busy + after;
  latency.first = std::min(latency.done, after + 1);
  latency.limit = limit;
  return latency;
}

}  // namespace

/// The fastest of these ways to move elements:
/// - contiguous elements as rows, through the ports;
/// - the longest dim over the lanes, one contiguous piece per lane, with strided loads or stores;
/// - any dims over the lanes, by tables of offsets that are loaded first;
/// - narrow elements in squares: rows are loaded and stored as pieces, and the cross-lane unit transposes them.
TileLatency permute_latency(const Share& machine, const Descriptor& d) {
  const MoveTimes times(machine, d);
  if (d.elements <= 0 || d.batch == 0) return finished(1, 0, "bytes");
  const std::int64_t run = times.run_bytes(), bytes = times.bytes(), tables = 2 * times.isa().load_latency + 3;
  const std::int64_t rows = d.elements / std::max<std::int64_t>(1, d.k), piece = whole_pieces(run);
  const std::int64_t pieces = bytes / piece, lines = ceil_div(pieces, std::max<std::int64_t>(1, d.lane_extent));
  const std::int64_t registers = ceil_div(bytes, times.register_bytes()), neighbours = times.port(bytes);
  const std::int64_t along = run == piece ? neighbours : 0;  // contiguous on one side
  std::array<MoveWay, 3> ways{{
      {ceil_div(rows * times.part(run), times.ports()), 7, rows, "bytes"},
      {std::max({times.pieces(pieces), ceil_div(lines, times.ports()), along}), 8, lines, "lanes"},
      {std::max(times.tabled(pieces, piece) + 1, neighbours), 9, registers, "lanes"},
  }};
  const auto best = rows == 1 ? ways.begin()
                              : std::min_element(ways.begin(), ways.end(),
                                                 [](const auto& a, const auto& b) { return a.busy() < b.busy(); });
  MoveWay way = *best;
  std::int64_t after = times.through() + 4;
  // a move in place copies its operand first, unless registers hold all of it
  const std::int64_t aside = d.batch > 1 ? neighbours : 0, each = ceil_div(bytes / way.parts, times.register_bytes());
  const bool held = best < ways.begin() + 2 && way.parts <= 32 &&
                    way.parts * static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(each))) <= 32;
  if (aside > 0 && held)
    after += way.work;
  else
    way.work += aside;
  if (d.k_outer > 1) {
    // tables precede the rows of squares, and again those that remain; the tables of the next kernel wait for the
    // transposes
    const CrossLaneSpec& unit = machine.core.cross_lane;
    const std::int64_t square = d.k_outer * bits(d.dtype) / 8, all = bytes / square;
    const std::int64_t in_register = std::max<std::int64_t>(1, times.register_bytes() / square);
    const std::int64_t passes = all > in_register && all % in_register != 0 ? 2 : 1;
    const std::int64_t turned = std::max(ceil_div(bytes, unit.bytes_per_cycle) + (passes - 1) * tables,
                                         times.tabled(all, square) + passes * tables) +
                                aside;
    if (turned < way.busy()) way = {turned, 11, registers, "cross-lane"}, after += unit.latency;
  }
  return finished(way.busy(), std::max<std::int64_t>(way.work + after - way.busy(), 0), way.limit);
}

}  // namespace tilesim
