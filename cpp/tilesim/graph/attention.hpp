// The shape of an attention, as its operands determine it, and the range of keys that each query sees.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"

namespace tilesim {

/// Indices of an attention's operands.
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
  std::int64_t keys = 0;    ///< most keys that a batch row sees: size of the cache, or attribute kv_len
  std::int64_t cache = 0;   ///< capacity in keys per batch row
  std::int64_t page = 0;    ///< keys per page if k and v are [N, G, page, ..]; 0: no pages, [B, G, T, ..]
  std::int64_t stored = 0;  ///< number of pages of k and v
  bool lengths = false;     ///< whether an operand gives the number of keys of each batch row
  bool paged() const { return page > 0; }
  /// For causal attention of a batch row with `length` keys: query s sees key t if t <= s + offset.
  std::int64_t offset(const Op& op, std::int64_t length) const {
    return op.attributes.integer("causal_offset", length - queries);
  }
};
/// The shape of an attention; checks nothing. `operands`: as returned by `operand_types`.
AttentionShape attention_shape(const Op& op, std::span<const TensorType* const> operands);
AttentionShape attention_shape(const GraphFunction& function, const Op& op);

/// Lower bounds on an attention's work. Exact if kv_len and the page table are constants of the graph; otherwise the
/// least work that data can cause.
struct AttentionReach {
  std::vector<std::int64_t> lengths;  ///< number of keys of each batch row
  std::int64_t rows = 0;              ///< rows of k (and of v) per key head that at least one query sees
  std::int64_t queries = 0;           ///< queries per head, over the batch, that see at least one key
  bool known = true;                  ///< whether `lengths` are exact
  double pairs = 0;                   ///< visible pairs (query, key) per head, over the batch
};
AttentionReach attention_reach(const Graph& graph, const GraphFunction& function, const Op& op);

/// Lengths and page tables by name of their value in the entry function.
using AttentionData = std::map<std::string, Array>;
/// The data that timing assumes: full caches, consecutive pages. Covers attentions of the entry function after inlining
/// of calls, except for lengths and pages that are constants.
AttentionData usual_attention_data(const Graph& graph);
Array full_lengths(const AttentionShape& shape);
Array pages_in_order(const AttentionShape& shape);
/// Returns the error in lengths and pages; empty if there is no error. An empty array means unknown. Ignores page
/// entries after a row's keys.
struct AttentionFault { std::string what, value, allowed; };
std::optional<AttentionFault> attention_fault(const AttentionShape& shape, const Array& lengths, const Array& pages);
/// Throws UserError with the value's name if the data are invalid.
void check_attention_data(const Graph& graph, const AttentionData& data);
/// Replaces lengths and pages that attentions of the entry function read by constants.
void know_attention_data(Graph& graph, const AttentionData& data);

}  // namespace tilesim
