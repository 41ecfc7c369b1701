// The plan of attention as one kernel with the online softmax: buffers on chip, tiles and cost.
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
  std::int64_t offset = 0;    ///< key t is visible to query s where t <= s + offset, and
  std::int64_t window = 0;    ///< t > s + offset - window; 0: all
  bool scaled = true;         ///< the scale is not 1
  bool caps = false;          ///< scores have a soft cap
  bool reshapes = false;      ///< every score changes beyond a scale above 0: soft cap, bias, mask
  bool power_of_two = false;  ///< the scale, which queries can then take without rounding
  std::optional<DType> mask;
  bool mask_heads = true, mask_queries = true, mask_keys = true;  ///< along which it differs
  bool lengths = false;       ///< data say how many of the keys each row of the batch has: `keys` at most
  bool ends = false;          ///< then `offset` is that of a row with all keys: queries are the last ones of each row
  std::int64_t page = 0;      ///< keys of a page, found through a table; 0: they follow each other
  bool lse = false;           ///< the logarithm of each row's sum of weights is stored too
  DType stored = DType::f32;  ///< of q, k, v, the result, and the weights that multiply v
  friend auto operator<=>(const AttentionProblem&, const AttentionProblem&) = default;
  std::int64_t shared() const { return heads / key_heads; }
  bool hides() const { return causal || window > 0; }
  /// Of the mask for a tile of so many heads, queries and keys, in elements.
  std::int64_t mask_elements(std::int64_t tile_heads, std::int64_t rows, std::int64_t tile_keys) const {
    return ((tile_heads > 1 ? mask_heads : mask_queries) ? rows : 1) * (mask_keys ? tile_keys : 1);
  }
  /// Every query sees some key, masks aside.
  bool all_see() const {
    return !lengths && (!causal || offset >= 0) && (window == 0 || queries - 1 + offset - window + 1 < keys);
  }
};

/// A tile holds `heads` query heads of one key head, `queries` of each; more than one head only where all their tiles
/// are full.
struct AttentionPlan {
  std::int64_t heads = 1, queries = 1, keys = 1;
  std::int64_t per_part = 1;      ///< tiles of queries that follow each other on one core
  std::int64_t groups = 1;        ///< key heads that follow each other on one core, with all their tiles
  std::int64_t splits = 1;        ///< parts of the keys, whose sums a separate step puts together
  std::int64_t merged_heads = 1;  ///< heads of a tile of that step
  bool resident = false;          ///< keys and values stay on chip while the tiles of a part follow each other
  bool paired = false;           ///< a trip takes the first part left and the last: together they see as much as others
  std::int64_t key_buffers = 2;  ///< of keys and values
  bool folds = false;            ///< queries take the scale, not scores
  bool by_product = false;       ///< half of the arrays have queries and keys, the others weights and values
  bool queries_stay = false;     ///< in the array while keys pass; otherwise keys do
  bool turned = false;           ///< rows of a tile lie over the lanes: what each row has alone need not be spread
  std::vector<SlotRing> buffers;
  std::int64_t bytes = 0;  ///< moved between memory and chip
  double cycles = 0;       ///< of the kernel
  std::int64_t rows() const { return heads * queries; }
  /// Tiles of keys in one of the parts.
  std::int64_t split_tiles(const AttentionProblem& problem) const;
};

/// Tiles of keys that some query of [first, first + count) sees.
struct KeyTiles { std::int64_t begin = 0, end = 0; };
KeyTiles seen_tiles(const AttentionProblem& problem, std::int64_t tile, std::int64_t first, std::int64_t count);

/// Rows of a tile that see some of the keys [start, start + keys), for one head at a time.
struct SeenRows { std::int64_t from = 0, to = 0; };
SeenRows seen_rows(const AttentionProblem& problem, std::int64_t first, std::int64_t count, std::int64_t start,
                   std::int64_t keys);

/// Trips per core of a kernel's loops, batch, key heads, tiles of heads, parts, and splits: the fewest of the busiest.
struct AttentionTrips {
  std::int64_t batch = 1, groups = 1, heads = 1, parts = 1, splits = 1;
  std::int64_t cores = 1;  ///< that have any
};
AttentionTrips attention_trips(const AttentionProblem& problem, const AttentionPlan& plan, std::int64_t cores);

/// The fastest plan by the estimate; none: no tile fits.
std::optional<AttentionPlan> plan_attention(const AttentionProblem& problem, const Share& machine);

/// Cycles of the two products around a softmax in memory, at the least.
double attention_apart_cycles(const AttentionProblem& problem, const Share& machine);

}  // namespace tilesim::mapping
