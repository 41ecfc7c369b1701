// Bytes and time of a loop nest, in closed form and by a walk over tiles; fast enough for searches.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <unordered_map>
#include <vector>

#include "tilesim/mapping/arrays.hpp"
#include "tilesim/mapping/nest.hpp"
#include "tilesim/mapping/plan.hpp"
#include "tilesim/tile/tile.hpp"
#include "tilesim/tile/vector_work.hpp"

namespace tilesim::mapping {

/// Traffic and time of a nest. Arrays by operand are in the order a, b, result.
struct Cost {
  std::array<std::int64_t, 3> bytes{};          ///< off-chip bytes in full bursts or layout tiles, as in the engine
  std::int64_t leaf_bytes = 0;                  ///< bytes that the epilogue reads
  std::array<std::int64_t, 3> transfers{};      ///< number of tiles loaded or stored
  std::array<std::int64_t, 3> pieces{1, 1, 1};  ///< number of pieces in which each tile moves
  double compute = 0;                           ///< cycles for which the array (or vector unit) is busy
  double epilogue = 0;                          ///< cycles of the vector unit for finished tiles
  double memory = 0;                            ///< cycles that memory needs for the bytes at its achievable bandwidth
  double bound = 0;                             ///< lower bound of `steps` for the same nest, in cycles
  double flat = 0;                              ///< part of `bound` that is independent of the number of buffers
  const char* flat_limit = "";
  double flat_power = 0;         ///< sum of the eighth powers of the flat parts
  double soft = 0;               ///< eighth norm of all parts, for ranking: parts close to the bound also cost time
  std::array<double, 3> ring{};  ///< per operand: cycles if its buffers are used in sequence
  const char* limit = "";        ///< what limits `bound`: compute, memory, a ring or the latency of loads
  std::int64_t total_bytes() const { return bytes[0] + bytes[1] + bytes[2] + leaf_bytes; }
};

/// Estimates nests of one problem on one machine. It caches results by tile size and is not thread-safe.
///
/// Bytes equal the engine's for tensors with the problem's layout (separate, dense or in layout tiles, starting at a
/// page) that are not cached and not fused away.
class CostModel {
 public:
  CostModel(const Problem& problem, const Share& machine);
  CostModel(const CostModel&) = delete;

  /// The closed-form cost. The nest must have the problem's number of dims. Does not check capacity.
  Cost price(const Nest& nest);
  /// `bound`: the bound of the same nest with other depths; `with_depths` updates `bound`, `limit` and `soft`.
  double bound(const Cost& cost, const std::vector<std::int64_t>& depths) const;
  void with_depths(Cost& cost, const std::vector<std::int64_t>& depths) const;
  /// Cycles by a walk of the tiles through load queues, unit and store queue with finite rings. Infinite above
  /// `most_steps` tiles, and possibly above `limit` cycles.
  double steps(const Nest& nest, std::int64_t most_steps = 20000,
               double limit = std::numeric_limits<double>::infinity());
  /// The number of load queues that is fastest in this walk: one per operand, or one for both, because two queues on
  /// one memory delay each other. The machine's number of queues above `most_steps` tiles.
  std::int64_t load_queues(const Nest& nest, std::int64_t most_steps = 20000);
  /// Like `steps`, but walks all cores on a common memory, in which small or regular transfers contend. Infinite if the
  /// machine has one core, if cores send to each other, or above `most_steps` tiles in total.
  double crowd(const Nest& nest, std::int64_t most_steps = 4000);
  /// `crowd` if it is finite, else `steps`.
  double cycles(const Nest& nest);
  /// A cheap lower bound for all orders and depths of these tiles; once it exceeds `limit`, a smaller bound may be
  /// returned.
  double least_cycles(const Nest& nest, double limit);
  /// Like `legal`, without the reason. The nest must be well-formed.
  bool fits(const Nest& nest) const;
  /// Cycles in which the vector unit computes a full tile of an operand.
  std::int64_t preparing(std::size_t operand, const Nest& nest);
  const Problem& problem() const { return problem_; }
  const Share& machine() const { return machine_; }

 private:
  using Extents = std::vector<std::int64_t>;
  struct Span {
    std::int64_t start = 0, length = 0;
    bool to_end = false;  ///< ends at the tensor's end, where padding may follow
  };
  struct Group {
    Span span;
    std::int64_t count = 0;
  };
  struct Interval { std::int64_t begin = 0, end = 0; };
  struct Work { double busy = 0, finishing = 0; };
  struct Sweep { std::int64_t bytes = 0, tiles = 0; };  ///< all tiles of an operand once; number of tiles with bytes
  struct Weighed {                                      ///< terms that depend on tile sizes only
    Sweep swept[3], leaves;
    Work work;
    double ends = 0;
    double fetched_for[3] = {1, 1, 1};  ///< number of cores that receive one fetch of an operand
  };
  struct Hash { std::size_t operator()(const Extents& key) const; };
  struct Walk;  // steps.cpp
  struct Times { double one = 0, two = 0; };
  Times walked(const Nest& nest, std::int64_t most_steps, double limit);
  Times crowded(const Nest& nest, std::int64_t most_steps);
  double crowded(const Walk& listed, bool two) const;
  std::int64_t part_begin(std::size_t operand, std::int64_t core) const;

  /// The access of a, b, the result, a leaf, or an epilogue output. Arrays indexed by operand use this order.
  const Access& access(std::size_t operand) const { return access_of(problem_, operand); }
  /// Number of tensors in memory.
  std::size_t tensors() const { return outputs() + problem_.outputs.size(); }
  /// Index of the first epilogue output; leaves start at index 3.
  std::size_t outputs() const { return 3 + problem_.leaves.size(); }
  bool computed(std::size_t operand) const { return operand < 2 && problem_.computed[operand]; }
  std::int64_t trips(const Nest& nest, std::size_t dim) const;
  std::int64_t pieces(const Nest& nest,
                      std::size_t dim) const;  ///< number of sub-tiles per tile
  std::int64_t parts(const Nest& nest, std::size_t dim) const { return trips(nest, dim) * pieces(nest, dim); }
  /// The interval of part number `part` along a dim; empty if a partial tile has no such part.
  Interval interval(const Nest& nest, std::size_t dim, std::int64_t part) const;
  static void add_sub(const Nest& nest, Extents& key) { key.insert(key.end(), nest.sub.begin(), nest.sub.end()); }
  /// Bytes that a region moves; sets `place` to the offset of the first byte in the tensor.
  std::int64_t moved(std::size_t operand, const std::vector<Span>& region, std::int64_t* place = nullptr) const;
  /// `along`: unused elements that the transfer also moves.
  Span span(const AxisAccess& axis, std::int64_t size, std::int64_t along, const Nest& nest,
            const Extents& index) const;
  /// `along`: result of `taken_along` for the operand.
  std::int64_t tile_bytes(std::size_t operand, const Nest& nest, const Extents& index, const Extents& along);
  std::int64_t tile_bytes(std::size_t operand, const Nest& nest, const Extents& index) {
    return tile_bytes(operand, nest, index, taken_along(problem_, nest, operand));
  }
  /// Parts [first, end) of a dim, with other dims at 0, represent `times` stretches with equal bytes.
  struct Repeated {
    int dim = -1;
    std::int64_t first = 0, end = 0, times = 1;
  };
  Repeated repeats(const AxisAccess& axis, std::int64_t size, const Nest& nest, std::int64_t unit) const;
  const std::vector<Group>& groups(std::size_t operand, std::size_t axis, std::int64_t along, const Nest& nest);
  Sweep sweep(std::size_t operand, const Nest& nest);
  std::int64_t filled_parts(const Nest& nest, std::size_t dim) const;
  Sweep read_with(std::size_t leaf, const Nest& nest, std::uint64_t tiled);
  Sweep epilogue_leaves(const Nest& nest);
  Sweep prologue(std::size_t operand, const Nest& nest);
  /// Bytes loaded for a tile of an operand (of its sources if it is computed), and stored for a tile of the result (of
  /// the epilogue's outputs if there are any).
  std::int64_t stored_bytes(const Nest& nest, const Extents& index);
  Sweep stored(const Nest& nest);
  bool reduces() const;
  std::int64_t fetched_bytes(std::size_t operand, const Nest& nest, const Extents& index);
  std::int64_t finishing(const Extents& tile, const TileWork& unit);
  double busy(const Extents& tile, const TileWork& unit, double count, double begin);
  /// Whether the tile (or piece) at this index adds to sums of an earlier contraction step.
  bool adds(const Extents& index) const {
    for (std::size_t d = 0; d < index.size(); ++d)
      if ((reduced_ >> d & 1) != 0 && index[d] > 0) return true;
    return false;
  }
  Work work(const Nest& nest, double limit = std::numeric_limits<double>::infinity());
  Work work_in_pieces(const Nest& nest);
  const Weighed& weigh_tiles(const Nest& nest);
  void see_regions();
  void begin_at_part();
  void see_neighbours();
  /// Number of cores that receive one fetch of an operand's tiles.
  double fetched_for(const Nest& nest, std::size_t operand) const {
    return sends(problem_, nest, operand) ? static_cast<double>(sharing(problem_, operand)) : 1;
  }
  /// Number of cores that load an operand from the same place in memory if each loads `bytes` bytes.
  double meeting(std::size_t operand, double bytes) const;
  /// Adds to each memory region its share of `bytes` bytes at offset `place` of an interleaved tensor.
  void add_regions(std::int64_t place, std::int64_t bytes, std::vector<std::int64_t>& held) const;
  /// Cycles in which these bytes of each operand move without other traffic. Data that is sent to several cores leaves
  /// memory once.
  double moving(const double (&fetched_for)[3], double a, double b, double result) const {
    const double bytes = a + b + result, fetched = a / fetched_for[0] + b / fetched_for[1] + result;
    return std::max({fetched / memory_rate_, bytes / port_rate_, link_rate_ > 0 ? (bytes - at_home_) / link_rate_ : 0});
  }

  Problem problem_;
  Share machine_;
  ClosedForm closed_form_;
  LatencyStore latency_;
  /// Patterns of the epilogue and of each operand's prologue: chains of dependent functions.
  VectorPattern epilogue_, prologue_[2];
  OwnDims own_{};
  std::vector<std::uint64_t> own_of_;               ///< per tensor: bit set of dims on which it depends
  std::uint32_t reduced_ = 0;                       ///< bit set of contracted dims
  std::vector<std::vector<std::int64_t>> strides_;  ///< in bits, of the padded tensor
  std::unordered_map<Extents, std::vector<Group>, Hash> groups_;
  std::vector<std::unordered_map<Extents, Sweep, Hash>> swept_;
  std::unordered_map<Extents, Weighed, Hash> weighed_;
  double memory_rate_ = 0, port_rate_ = 0;        ///< bytes per core cycle: share of memory; port
  double memory_room_ = 0, link_room_ = 0;        ///< cycles that requests may wait for a channel; for a link
  struct Apart { double bytes = 0, parts = 1; };  ///< distance between parts of adjacent cores; 0: same data
  std::vector<std::vector<Apart>> apart_;         ///< per cut and operand
  bool links_meet_ = false;                       ///< stores to other regions share links with this core's loads
  double one_way_ = 0;                            ///< latency of the network in core cycles
  double load_wait_ = 0, store_wait_ = 0;         ///< latency after that: memory and return; memory. Core cycles
  double further_ = 0;                            ///< additional latency to other regions
  double at_home_ = 0;                            ///< most bytes that can be in the core's region
  double link_rate_ = 0;                 ///< bytes per core cycle and direction of links between regions; 0: none
  std::int64_t chunk_ = 1, window_ = 1;  ///< bytes per request; requests in flight per queue
  Extents key_;
  std::vector<Span> region_;  ///< region of the current tile
  std::int64_t place_ = 0;    ///< offset in bytes from the tensor's start
};

}  // namespace tilesim::mapping
