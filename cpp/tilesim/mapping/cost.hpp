// Bytes and time of a loop nest, in closed form and step by step, fast enough for searches.
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

/// Traffic and time of a nest. Operands are a, b, result.
struct Cost {
  std::array<std::int64_t, 3> bytes{};          ///< off-chip, whole bursts or layout tiles, as the engine counts them
  std::int64_t leaf_bytes = 0;                  ///< bytes that the epilogue reads
  std::array<std::int64_t, 3> transfers{};      ///< number of tiles loaded or stored
  std::array<std::int64_t, 3> pieces{1, 1, 1};  ///< pieces in which each tile moves
  double compute = 0;                           ///< cycles that the array (or vector unit) is busy
  double epilogue = 0;                          ///< cycles of the vector unit on finished tiles
  double memory = 0;                            ///< cycles that memory needs for the bytes at its achieved bandwidth
  double bound = 0;                             ///< lower bound of `steps` for the same nest, in cycles
  double flat = 0;  ///< the part of `bound` that does not depend on the number of buffers, and its name
  const char* flat_limit = "";
  double flat_power = 0;         ///< sum of the eighth powers of the flat parts
  double soft = 0;               ///< eighth norm of all parts, for ranking: parts close to the bound also cost time
  std::array<double, 3> ring{};  ///< cycles of an operand's buffers in sequence
  const char* limit = "";        ///< name of the limit of `bound`: compute, memory, a ring or the latency of loads
  std::int64_t total_bytes() const { return bytes[0] + bytes[1] + bytes[2] + leaf_bytes; }
};

/// Estimates nests of one problem on one machine. It caches results per tile size and is not thread-safe.
///
/// Bytes equal those of the engine for tensors with the layout of the problem (separate, dense or in layout tiles,
/// starting at a page) that are neither cached nor fused away.
class CostModel {
 public:
  CostModel(const Problem& problem, const Share& machine);
  CostModel(const CostModel&) = delete;

  /// Closed-form cost. The nest must have the problem's number of dims; capacity is not checked.
  Cost price(const Nest& nest);
  /// The bound of the same nest with other depths; updates `bound`, `limit` and `soft`.
  double bound(const Cost& cost, const std::vector<std::int64_t>& depths) const;
  void with_depths(Cost& cost, const std::vector<std::int64_t>& depths) const;
  /// Cycles by walking the tiles through load queue, array, vector unit and store queue with finite rings.
  /// Infinite for more than `most_steps` tiles; may be infinite above `limit`.
  double steps(const Nest& nest, std::int64_t most_steps = 20000,
               double limit = std::numeric_limits<double>::infinity());
  /// The number of load queues that is fastest by that walk: one per operand, or one for both, because two queues that
  /// share a memory delay each other. All queues of the machine for more than `most_steps` tiles.
  std::int64_t load_queues(const Nest& nest, std::int64_t most_steps = 20000);
  /// Like `steps`, with all cores walked on one memory, where small or regular transfers contend. Infinite if the
  /// machine has one core, if cores send to each other, or for more than `most_steps` tiles in total.
  double crowd(const Nest& nest, std::int64_t most_steps = 4000);
  /// `crowd` if that is finite, else `steps`.
  double cycles(const Nest& nest);
  /// A cheap lower bound over all orders and depths of these tiles, or a smaller bound that is above `limit`.
  double least_cycles(const Nest& nest, double limit);
  /// Like `legal`, without the reason; the nest must be well-formed.
  bool fits(const Nest& nest) const;
  /// Cycles of the vector unit to compute a full tile of an operand.
  std::int64_t preparing(std::size_t operand, const Nest& nest);
  const Problem& problem() const { return problem_; }
  const Share& machine() const { return machine_; }

 private:
  using Extents = std::vector<std::int64_t>;
  struct Span {
    std::int64_t start = 0, length = 0;
    bool to_end = false;  ///< up to the tensor's end, where padding may follow
  };
  struct Group {
    Span span;
    std::int64_t count = 0;
  };
  struct Interval { std::int64_t begin = 0, end = 0; };
  struct Work { double busy = 0, finishing = 0; };
  struct Sweep { std::int64_t bytes = 0, tiles = 0; };  ///< all tiles of an operand once; number of tiles with bytes
  struct Weighed {                                      ///< terms that depend only on tile sizes
    Sweep swept[3], leaves;
    Work work;
    double ends = 0;
    double fetched_for[3] = {1, 1, 1};  ///< number of cores that receive an operand fetched once
  };
  struct Hash { std::size_t operator()(const Extents& key) const; };
  struct Walk;  // steps.cpp
  struct Times { double one = 0, two = 0; };
  Times walked(const Nest& nest, std::int64_t most_steps, double limit);
  Times crowded(const Nest& nest, std::int64_t most_steps);
  double crowded(const Walk& listed, bool two) const;
  std::int64_t part_begin(std::size_t operand, std::int64_t core) const;

  /// The access of a, b, the result, a leaf, or an output of the epilogue; `own_` and other arrays by operand use this
  /// order.
  const Access& access(std::size_t operand) const { return access_of(problem_, operand); }
  /// Number of tensors in memory.
  std::size_t tensors() const { return outputs() + problem_.outputs.size(); }
  /// Leaves start at index 3, outputs of the epilogue at this index.
  std::size_t outputs() const { return 3 + problem_.leaves.size(); }
  bool computed(std::size_t operand) const { return operand < 2 && problem_.computed[operand]; }
  std::int64_t trips(const Nest& nest, std::size_t dim) const;
  std::int64_t pieces(const Nest& nest,
                      std::size_t dim) const;  ///< number of sub-tiles per tile
  std::int64_t parts(const Nest& nest, std::size_t dim) const { return trips(nest, dim) * pieces(nest, dim); }
  /// The interval of part number `part` along a dim; empty beyond the end of a ragged tile.
  Interval interval(const Nest& nest, std::size_t dim, std::int64_t part) const;
  static void add_sub(const Nest& nest, Extents& key) { key.insert(key.end(), nest.sub.begin(), nest.sub.end()); }
  /// Bytes moved, and their first byte in the tensor.
  std::int64_t moved(std::size_t operand, const std::vector<Span>& region, std::int64_t* place = nullptr) const;
  /// `along`: elements moved beyond those that are used.
  Span span(const AxisAccess& axis, std::int64_t size, std::int64_t along, const Nest& nest,
            const Extents& index) const;
  /// `along`: result of `taken_along` for the operand.
  std::int64_t tile_bytes(std::size_t operand, const Nest& nest, const Extents& index, const Extents& along);
  std::int64_t tile_bytes(std::size_t operand, const Nest& nest, const Extents& index) {
    return tile_bytes(operand, nest, index, taken_along(problem_, nest, operand));
  }
  /// Parts [first, end) of a dim, with the others at 0, that represent `times` stretches of equal bytes.
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
  /// Bytes loaded for a tile of an operand (of its sources, if it is computed), and stored for a tile of the result (of
  /// the epilogue's outputs, if any).
  std::int64_t stored_bytes(const Nest& nest, const Extents& index);
  Sweep stored(const Nest& nest);
  bool reduces() const;
  std::int64_t fetched_bytes(std::size_t operand, const Nest& nest, const Extents& index);
  std::int64_t finishing(const Extents& tile, const TileWork& unit);
  double busy(const Extents& tile, const TileWork& unit, double count, double begin);
  /// Whether a tile (or piece) at this index adds to sums of an earlier step of the contraction.
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
  /// Number of cores that receive one fetch of an operand, in a nest of these tiles.
  double fetched_for(const Nest& nest, std::size_t operand) const {
    return sends(problem_, nest, operand) ? static_cast<double>(sharing(problem_, operand)) : 1;
  }
  /// Number of cores that load an operand from the same place in memory, when each loads this many bytes.
  double meeting(std::size_t operand, double bytes) const;
  /// Adds to each memory region its share of the bytes at a place of an interleaved tensor.
  void add_regions(std::int64_t place, std::int64_t bytes, std::vector<std::int64_t>& held) const;
  /// Cycles to load or store these bytes of each operand without other traffic. Data sent to several cores leaves the
  /// memory once.
  double moving(const double (&fetched_for)[3], double a, double b, double result) const {
    const double bytes = a + b + result, fetched = a / fetched_for[0] + b / fetched_for[1] + result;
    return std::max({fetched / memory_rate_, bytes / port_rate_, link_rate_ > 0 ? (bytes - at_home_) / link_rate_ : 0});
  }

  Problem problem_;
  Share machine_;
  ClosedForm closed_form_;
  LatencyStore latency_;
  /// Vector patterns of the epilogue and of each operand's prologue: chains of dependent functions.
  VectorPattern epilogue_, prologue_[2];
  OwnDims own_{};
  std::vector<std::uint64_t> own_of_;               ///< dims of all tensors
  std::uint32_t reduced_ = 0;                       ///< a bit per contracted dim
  std::vector<std::vector<std::int64_t>> strides_;  ///< in bits, of the padded tensor
  std::unordered_map<Extents, std::vector<Group>, Hash> groups_;
  std::vector<std::unordered_map<Extents, Sweep, Hash>> swept_;
  std::unordered_map<Extents, Weighed, Hash> weighed_;
  double memory_rate_ = 0, port_rate_ = 0;        ///< bytes per core cycle of the core's share and port
  double memory_room_ = 0, link_room_ = 0;        ///< cycles that requests may wait before a channel, a link
  struct Apart { double bytes = 0, parts = 1; };  ///< distance of adjacent cores' parts; 0: same data
  std::vector<std::vector<Apart>> apart_;         ///< per cut, of each operand
  bool links_meet_ = false;                       ///< stores to other regions share links with this core's loads
  double one_way_ = 0;                            ///< latency of the network, in core cycles
  double load_wait_ = 0, store_wait_ = 0;         ///< then latency of memory and (loads) return, in core cycles
  double further_ = 0;                            ///< extra latency to other regions
  double at_home_ = 0;                            ///< most bytes that can be in the core's region alone
  double link_rate_ = 0;                 ///< bytes per core cycle per direction of links between regions; 0: none
  std::int64_t chunk_ = 1, window_ = 1;  ///< bytes per request; requests in flight per queue
  Extents key_;
  std::vector<Span> region_;  ///< region of the current tile
  std::int64_t place_ = 0;    ///< bytes from the start of the tensor
};

}  // namespace tilesim::mapping
