// attention: rules of its operands, and the data that it reads.
#include "tilesim/graph/attention.hpp"
#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {

namespace {

void check_cache(const Op& op, Types operands) {
  const TensorType &q = *operands[attention_q], &k = *operands[attention_k], &v = *operands[attention_v];
  const std::int64_t batch = q.shape[0], heads = q.shape[1], groups = k.shape[1];
  if (groups < 1 || heads % groups != 0)
    refuse("the query heads are not a multiple of the key heads",
           std::to_string(heads) + " and " + std::to_string(groups), "a multiple");
  const bool paged = present(operands, attention_pages);
  const std::int64_t lead = paged ? k.shape[0] : batch;  // batch rows share pages
  want_shape(k, {lead, groups, k.shape[2], q.shape[3]}, "k");
  want_shape(v, {lead, groups, k.shape[2], v.shape[3]}, "v");
  if (paged) {
    const TensorType& pages = *operands[attention_pages];
    want_integer(pages, "the page table");
    want_rank(pages, 2, "the page table");
    want_shape(pages, {batch, pages.shape[1]}, "the page table");
    if (k.shape[2] > 0 && pages.shape[1] > largest_extent / k.shape[2])
      refuse("the page table has room for too many keys", to_string(pages),
             "fewer pages of " + std::to_string(k.shape[2]));
    if (k.shape[0] < 1 || k.shape[2] < 1)
      refuse("k of an attention with a page table has no pages", to_string(k), "[pages, key heads, keys of a page, d]");
  }
  if (present(operands, attention_kv_len)) {
    want_integer(*operands[attention_kv_len], "kv_len");
    want_shape(*operands[attention_kv_len], {batch}, "kv_len");
  }
  const AttentionShape shape = attention_shape(op, operands);
  if (shape.keys < 0 || shape.keys > shape.cache)
    refuse("attribute 'kv_len' exceeds the keys", std::to_string(shape.keys), "0 to " + std::to_string(shape.cache));
}

std::vector<TensorType> infer_attention(const Op& op, Types operands, const Graph&) {
  const TensorType& q = *operands[attention_q];
  constexpr const char* roles[] = {"q", "k", "v"};
  for (std::size_t i = 0; i < 3; ++i) {
    want_float(*operands[i], roles[i]);
    want_rank(*operands[i], 4, roles[i]);
    want_dtype(*operands[i], q.dtype, roles[i]);
  }
  check_cache(op, operands);
  if (op.attributes.integer("window", 0) < 0)
    refuse("attribute 'window' is negative", std::to_string(op.attributes.integer("window", 0)), "0 (none) or more");
  if (op.attributes.number("soft_cap", 0) < 0)
    refuse("attribute 'soft_cap' is negative", std::to_string(op.attributes.number("soft_cap", 0)), "0 (none) or more");
  const AttentionShape shape = attention_shape(op, operands);
  if (present(operands, attention_mask)) {
    const TensorType& mask = *operands[attention_mask];
    if (mask.dtype != DType::boolean) want_float(mask, "the mask");
    want_broadcastable(mask, {shape.batch, shape.heads, shape.queries, shape.cache}, "the mask");
  }
  std::vector<TensorType> results{{q.dtype, {shape.batch, shape.heads, shape.queries, shape.width}}};
  if (op.results.size() > 1) results.push_back({compute_dtype(q.dtype), {shape.batch, shape.heads, shape.queries}});
  return results;
}

/// Dims b, g (key heads), p (query heads per key head), s, e; reduced dims: t (keys), d.
Domain attention_domain(const Op& op, Types operands, std::span<const TensorType> results) {
  enum : std::uint8_t { b, g, p, s, e, t, d };
  const AttentionShape shape = attention_shape(op, operands);
  Domain domain;
  const std::int64_t shared = shape.key_heads == 0 ? 0 : shape.heads / shape.key_heads;
  domain.extents = {shape.batch, shape.key_heads, shared, shape.queries, shape.width, shape.keys, shape.depth};
  domain.names = {"b", "g", "p", "s", "e", "t", "d"};
  domain.reduction = {false, false, false, false, false, true, true};
  AxisAccess head;
  head.terms = {{g, shared}, {p, 1}};
  domain.operands.resize(operands.size());
  domain.operands[attention_q].axes = {along(b), head, along(s), along(d)};
  domain.operands[attention_k].axes = {along(b), along(g), along(t), along(d)};
  domain.operands[attention_v].axes = {along(b), along(g), along(t), along(e)};
  if (shape.paged()) {
    for (const std::size_t index : {attention_k, attention_v}) domain.operands[index] = data_dependent();
    domain.operands[attention_pages] = data_dependent();
  }
  if (present(operands, attention_mask)) {
    const std::vector<AxisAccess> full{along(b), head, along(s), along(t)};
    const Shape& mask = operands[attention_mask]->shape;
    for (std::size_t i = 0; i < mask.size(); ++i)
      domain.operands[attention_mask].axes.push_back(mask[i] == 1 ? AxisAccess{} : full[4 - mask.size() + i]);
  }
  if (present(operands, attention_kv_len)) domain.operands[attention_kv_len].axes = {along(b)};
  domain.results.resize(results.size());
  domain.results[0].axes = {along(b), head, along(s), along(e)};
  if (results.size() > 1) domain.results[1].axes = {along(b), head, along(s)};
  return domain;
}

}  // namespace

void add_attention(std::vector<KindInfo>& table) {
  using A = AttributeType;
  table.push_back(
      {.kind = Kind::attention,
       .name = "attention",
       .min_operands = 3,
       .max_operands = 6,
       .min_results = 1,
       .max_results = 2,
       .operand_names = {"q", "k", "v", "mask", "kv_len", "pages"},
       .attributes = {optional("scale", A::number), optional("causal", A::flag), optional("causal_offset", A::integer),
                      optional("window", A::integer), optional("kv_len", A::integer), optional("soft_cap", A::number),
                      optional("masked_row", A::text, {"zero", "nan"})},
       .composite = true,
       .infer = infer_attention,
       .flops = expansion_flops,
       .domain = attention_domain});
}

}  // namespace tilesim::rules
