// The plan of an attention kernel with online softmax: buffers on chip, tiles and cost.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <vector>

#include "tilesim/base/dtype.hpp"
#include "tilesim/machine/share.hpp"
#include "tilesim/mapping/slot_ring.hpp"

namespace tilesim::mapping {

struct AttentionProblem {
  std::int64_t batch = 1, heads = 1, key_heads = 1, queries = 1, keys = 1, depth = 1, width = 1;
  bool causal = false;
  std::int64_t offset = 0;    ///< query s sees key t if t <= s + offset and
  std::int64_t window = 0;    ///< t > s + offset - window; 0: no window
  bool scaled = true;         ///< whether the scale differs from 1
  bool caps = false;          ///< whether scores have a soft cap
  bool reshapes = false;      ///< whether soft cap, bias or mask change scores
  bool power_of_two = false;  ///< the scale is a power of two, so scaling queries is exact
  std::optional<DType> mask;
  bool mask_heads = true, mask_queries = true, mask_keys = true;  ///< axes along which the mask varies
  bool lengths = false;                                           ///< keys per batch row are data, at most `keys`
  bool ends = false;      ///< with `lengths`: queries are the last positions of each row; `offset` is for a full row
  std::int64_t page = 0;  ///< keys per page, which a table locates; 0: contiguous keys
  bool lse = false;       ///< also stores the logarithm of each row's sum of weights
  DType stored = DType::f32;  ///< type of q, k, v, the result, and the weights that multiply v
  friend auto operator<=>(const AttentionProblem&, const AttentionProblem&) = default;
  std::int64_t shared() const { return heads / key_heads; }
  bool hides() const { return causal || window > 0; }
  /// Elements of the mask for a tile with this many heads, queries and keys.
  std::int64_t mask_elements(std::int64_t tile_heads, std::int64_t rows, std::int64_t tile_keys) const {
    return ((tile_heads > 1 ? mask_heads : mask_queries) ? rows : 1) * (mask_keys ? tile_keys : 1);
  }
  /// Whether every query sees at least one key, if masks are ignored.
  bool all_see() const {
    return !lengths && (!causal || offset >= 0) && (window == 0 || queries - 1 + offset - window + 1 < keys);
  }
};

/// A tile consists of `queries` queries of `heads` query heads that share a key head. Several heads require that all
/// their tiles are full.
struct AttentionPlan {
  std::int64_t heads = 1, queries = 1, keys = 1;
  std::int64_t per_part = 1;      ///< consecutive query tiles on one core
  std::int64_t groups = 1;        ///< consecutive key heads on one core, with all tiles
  std::int64_t splits = 1;        ///< parts of the keys; a further step merges their sums
  std::int64_t merged_heads = 1;  ///< heads per tile of this step
  bool resident = false;          ///< keys and values stay on chip during a part's tiles
  bool paired = false;  ///< a trip runs the first and the last remaining part, so that trips see equally many keys
  std::int64_t key_buffers = 2;  ///< buffers of keys, and of values
  bool folds = false;            ///< scale queries instead of scores
  bool by_product = false;       ///< half of the arrays multiply queries and keys, the others weights and values
  bool queries_stay = false;     ///< queries are stationary in the array; false: keys
  bool turned = false;           ///< rows are along the lanes: values per row need no broadcast
  std::vector<SlotRing> buffers;
  std::int64_t bytes = 0;  ///< bytes between memory and chip
  double cycles = 0;       ///< cycles of the kernel
  std::int64_t rows() const { return heads * queries; }
  /// Number of key tiles in a part of the keys.
  std::int64_t split_tiles(const AttentionProblem& problem) const;
};

/// The key tiles of which at least one query in [first, first + count) sees a key.
struct KeyTiles { std::int64_t begin = 0, end = 0; };
KeyTiles seen_tiles(const AttentionProblem& problem, std::int64_t tile, std::int64_t first, std::int64_t count);

/// The rows of a tile that see at least one of the keys [start, start + keys), for one head.
struct SeenRows { std::int64_t from = 0, to = 0; };
SeenRows seen_rows(const AttentionProblem& problem, std::int64_t first, std::int64_t count, std::int64_t start,
                   std::int64_t keys);

/// Fewest trips of the busiest core in the kernel's loops over batch, key heads, tiles of heads, parts and splits.
struct AttentionTrips {
  std::int64_t batch = 1, groups = 1, heads = 1, parts = 1, splits = 1;
  std::int64_t cores = 1;  ///< number of cores with work
};
AttentionTrips attention_trips(const AttentionProblem& problem, const AttentionPlan& plan, std::int64_t cores);

/// The plan with the fewest estimated cycles; empty if no tile fits.
std::optional<AttentionPlan> plan_attention(const AttentionProblem& problem, const Share& machine);

/// Lower bound on the cycles of attention as two separate products with scores and weights in memory.
double attention_apart_cycles(const AttentionProblem& problem, const Share& machine);

}  // namespace tilesim::mapping
