// Closed forms of permutes, gathers and scatters: rows through the ports, elements apart from each other one for each
// lane and cycle, narrow ones turned by the cross-lane unit.
#include <algorithm>
#include <bit>

#include "tilesim/base/shape.hpp"
#include "tilesim/tile/latency.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t widest_piece = 8;  // bytes

/// The largest power of two of bytes, at most 8, whose multiple this is.
std::int64_t whole_pieces(std::int64_t bytes) { return (bytes | widest_piece) & -(bytes | widest_piece); }

class MoveTimes {
 public:
  MoveTimes(const Share& machine, const Descriptor& d) : machine_(machine), isa_(machine.whole.core.isa), d_(d) {
    const VectorSpec& vector = machine.core.vector;
    register_bytes_ = isa_.vlen > 0 ? isa_.vlen / 8 : 4 * vector.lanes * vector.sublanes;
    port_bytes_ = isa_.port_bytes > 0 ? isa_.port_bytes : register_bytes_;
    ports_ = std::max<std::int64_t>(1, std::min(isa_.loads, isa_.stores));
  }

  /// Of a row's neighbours through a port.
  std::int64_t part(std::int64_t bytes) const {
    return std::max<std::int64_t>(1, ceil_div(ceil_div(bytes, register_bytes_) * register_bytes_, port_bytes_));
  }
  /// Of pieces apart from each other, at each port.
  std::int64_t pieces(std::int64_t count) const { return ceil_div(count, machine_.core.vector.lanes * ports_); }
  std::int64_t run_bytes() const { return packed_bytes(d_.dtype, std::max<std::int64_t>(1, d_.k)); }
  std::int64_t bytes() const { return packed_bytes(d_.dtype, d_.elements); }
  std::int64_t ports() const { return ports_; }
  std::int64_t port_bytes() const { return port_bytes_; }
  std::int64_t register_bytes() const { return register_bytes_; }
  /// From the first load to the end of its store.
  std::int64_t through() const { return isa_.load_latency + 4; }
  const IsaSpec& isa() const { return isa_; }

 private:
  const Share& machine_;
  const IsaSpec& isa_;
  const Descriptor& d_;
  std::int64_t register_bytes_ = 1, port_bytes_ = 1, ports_ = 1;
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

/// The ways to move elements, the fastest counts:
/// - neighbours as rows, through the ports;
/// - the longest dim over the lanes, one piece of neighbours each, with loads or stores by a step;
/// - any dims over the lanes, by tables of distances that come first;
/// - narrow elements in squares, whose rows are loaded and stored as pieces and turned by the cross-lane unit.
TileLatency permute_latency(const Share& machine, const Descriptor& d) {
  const MoveTimes times(machine, d);
  if (d.elements <= 0 || d.batch == 0) return finished(1, 0, "bytes");
  const std::int64_t run = times.run_bytes(), bytes = times.bytes(), load = times.isa().load_latency;
  const std::int64_t rows = d.elements / std::max<std::int64_t>(1, d.k);
  const std::int64_t by_rows = ceil_div(rows * times.part(run), times.ports());
  const std::int64_t pieces = bytes / whole_pieces(run), longest = std::max<std::int64_t>(1, d.lane_extent);
  const std::int64_t lines = ceil_div(pieces, longest),
                     by_lines = std::max(times.pieces(pieces), ceil_div(lines, times.ports()));
  const std::int64_t by_tables = times.pieces(pieces) + load + 1;
  std::int64_t busy = std::min({by_rows, by_lines, by_tables}), after = times.through();
  // what takes the place of what it reads is laid aside first, unless registers hold all of it
  const bool whole_rows = by_rows == busy;
  const std::int64_t parts = whole_rows ? rows : lines, each = ceil_div(bytes / parts, times.register_bytes());
  const char* limit = whole_rows ? "bytes" : "lanes";
  const bool held =
      parts <= 32 && parts * static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(each))) <= 32;
  const std::int64_t aside = d.batch > 1 ? ceil_div(bytes, times.port_bytes() * times.ports()) : 0;
  const bool is_held = aside > 0 && held && busy != by_tables;
  if (!is_held) busy += aside;
  if (d.k_outer > 1) {
    const CrossLaneSpec& unit = machine.core.cross_lane;
    const std::int64_t piece = d.k_outer * bits(d.dtype) / 8;
    const std::int64_t squares =
        std::max(ceil_div(bytes, unit.bytes_per_cycle), times.pieces(bytes / piece)) + aside + 3 + 2 * load;
    if (squares < busy) busy = squares, after += unit.latency, limit = "cross-lane";
  }
  return finished(busy, after + (is_held ? busy : 0), limit);
}

TileLatency indexed_latency(const Share& machine, const Descriptor& d) {
  const MoveTimes times(machine, d);
  const VectorSpec& vector = machine.core.vector;
  const std::int64_t rows = std::max<std::int64_t>(1, d.m), elements = d.elements / rows;
  if (d.elements <= 0) return finished(1, 0, "lanes");
  const std::int64_t run = times.run_bytes(),
                     parts = std::max<std::int64_t>(1, elements / std::max<std::int64_t>(1, d.k));
  const bool combines = d.functions[0] + d.functions[1] > 0;
  // a row: its index, the check, the place, and moves of pointers; two loads of what is combined
  const std::int64_t width = std::max<std::int64_t>(1, times.isa().width);
  const std::int64_t moves = ceil_div(parts * times.part(run) * (combines ? 2 : 1), times.isa().loads);
  const std::int64_t issued = ceil_div(rows * (6 + parts * (combines ? 5 : 4)), width);
  const std::int64_t by_rows = std::max({rows * moves, rows, issued});
  std::int64_t busy = by_rows, after = times.through() + times.isa().load_latency + (combines ? vector.latency : 0);
  const char* limit = "rows";
  constexpr std::int64_t most_pieces = 24;
  const std::int64_t piece = whole_pieces(run), pieces = packed_bytes(d.dtype, elements) / piece;
  if (!combines && pieces <= most_pieces) {
    const std::int64_t indices = packed_bytes(d.second, rows);
    const std::int64_t by_pieces = times.pieces(rows * pieces) + ceil_div(indices, times.port_bytes() * times.ports());
    if (by_pieces < busy) {
      // places are computed from indices; the largest of these is looked at in the end
      busy = by_pieces, after = times.through() + times.isa().load_latency + 4 * vector.latency + vector.reduce_latency;
      limit = "lanes";
    }
  }
  return finished(busy, after, limit);
}

}  // namespace tilesim
