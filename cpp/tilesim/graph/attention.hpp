// Joint meaning of the operands of an attention, and the range of keys that each query sees.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Operand numbers of an attention.
enum AttentionOperand : std::uint8_t {
  attention_q,
  attention_k,
  attention_v,
  attention_mask,
  attention_kv_len,
  attention_pages
};

struct AttentionShape {
  std::int64_t batch = 0, heads = 0, key_heads = 0, queries = 0, depth = 0, width = 0;
  std::int64_t keys = 0;    ///< most keys that a row of the batch sees: those of its cache, or attribute kv_len
  std::int64_t cache = 0;   ///< capacity in keys per row of the batch
  std::int64_t page = 0;    ///< keys per page of k and v, [N, G, page, ..]; 0: no pages, [B, G, T, ..]
  std::int64_t stored = 0;  ///< number of pages of k and v
  bool lengths = false;     ///< an operand gives the number of keys of each row of the batch
  bool paged() const { return page > 0; }
  /// Causal: key t is visible to query s if t <= s + offset, in a row with this many keys.
  std::int64_t offset(const Op& op, std::int64_t length) const {
    return op.attributes.integer("causal_offset", length - queries);
  }
};
/// The shape of an attention, without checks. `operands` as from `operand_types`.
AttentionShape attention_shape(const Op& op, std::span<const TensorType* const> operands);
AttentionShape attention_shape(const GraphFunction& function, const Op& op);

/// Lower bounds of the work of an attention: exact if kv_len and page table are constants of the graph, otherwise the
/// least that data allow.
struct AttentionReach {
  std::vector<std::int64_t> lengths;  ///< number of keys of each row of the batch
  std::int64_t rows = 0;              ///< rows of k, and of v, per key head, that some query sees
  std::int64_t queries = 0;           ///< queries per head, over the batch, that see some key
  bool known = true;                  ///< whether lengths are known
  double pairs = 0;                   ///< visible pairs of query and key per head, over the batch
};
AttentionReach attention_reach(const Graph& graph, const GraphFunction& function, const Op& op);

/// Lengths and page tables, by value name in the entry function.
using AttentionData = std::map<std::string, Array>;
/// The data that timing assumes: full caches, consecutive pages. For attentions of the entry function, with calls
/// inlined; constants are not included.
AttentionData usual_attention_data(const Graph& graph);
Array full_lengths(const AttentionShape& shape);
Array pages_in_order(const AttentionShape& shape);
/// An error in lengths and pages, of which either may be empty (unknown); no value if they are valid. Ignores entries
/// beyond a row's keys.
struct AttentionFault { std::string what, value, allowed; };
std::optional<AttentionFault> attention_fault(const AttentionShape& shape, const Array& lengths, const Array& pages);
/// Throws UserError naming the value.
void check_attention_data(const Graph& graph, const AttentionData& data);
/// Turns lengths and pages that attentions of the entry function read into constants.
void know_attention_data(Graph& graph, const AttentionData& data);

}  // namespace tilesim
