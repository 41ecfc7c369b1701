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

/// Operands of an attention by number.
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
  std::int64_t keys = 0;    ///< that a row of the batch sees at most: of its cache, or attribute kv_len
  std::int64_t cache = 0;   ///< keys that a row of the batch has room for
  std::int64_t page = 0;    ///< keys of a page of k and v, [N, G, page, ..]; 0: they are [B, G, T, ..]
  std::int64_t stored = 0;  ///< pages that k and v have
  bool lengths = false;     ///< an operand says how many keys each row of the batch has
  bool paged() const { return page > 0; }
  /// Key t is visible to query s where t <= s + offset, if causal, of a row with so many keys.
  std::int64_t offset(const Op& op, std::int64_t length) const {
    return op.attributes.integer("causal_offset", length - queries);
  }
};
/// Without checks. `operands` as `operand_types` gives them.
AttentionShape attention_shape(const Op& op, std::span<const TensorType* const> operands);
AttentionShape attention_shape(const GraphFunction& function, const Op& op);

/// What an attention must see at least: with its kv_len and page table where the graph has them as constants, as little
/// as data may say where it does not.
struct AttentionReach {
  std::vector<std::int64_t> lengths;  ///< keys of each row of the batch
  std::int64_t rows = 0;              ///< of k, and of v, of one key head that some query sees
  std::int64_t queries = 0;           ///< of one head, in all rows of the batch, that see some key
  bool known = true;                  ///< the lengths are
  double pairs = 0;                   ///< of a query and a key, of one head, in all rows of the batch
};
AttentionReach attention_reach(const Graph& graph, const GraphFunction& function, const Op& op);

/// Lengths and page tables by the names of values of the entry function.
using AttentionData = std::map<std::string, Array>;
/// What timing takes where no data are given: full caches, consecutive pages. Of the attentions of
/// the entry function, whose calls are inlined; of those that are constants, nothing.
AttentionData usual_attention_data(const Graph& graph);
Array full_lengths(const AttentionShape& shape);
Array pages_in_order(const AttentionShape& shape);
/// What is wrong with lengths and pages, either empty where it is not known; nothing, if all is well. Entries behind a
/// row's keys are not looked at.
struct AttentionFault { std::string what, value, allowed; };
std::optional<AttentionFault> attention_fault(const AttentionShape& shape, const Array& lengths, const Array& pages);
/// Throws UserError that names the value.
void check_attention_data(const Graph& graph, const AttentionData& data);
/// Makes constants of the lengths and pages that attentions of the entry function read.
void know_attention_data(Graph& graph, const AttentionData& data);

}  // namespace tilesim
