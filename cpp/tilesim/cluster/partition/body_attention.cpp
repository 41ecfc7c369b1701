// Attentions whose queries or keys are divided: who sees what, and what becomes of parts of the keys.
#include <algorithm>
#include <limits>

#include "tilesim/base/index.hpp"
#include "tilesim/cluster/partition/body.hpp"
#include "tilesim/graph/attention.hpp"

namespace tilesim::partitioning {

namespace {

using Integers = std::vector<std::int64_t>;

}  // namespace

/// Parts of queries and keys see each other by their places in all of them: a mask instead of the attributes, and the
/// number of keys counted from a part's first one.
void Body::look_from_place(const Op& op, const Rule& rule, const Division& division, std::vector<ValueId>& operands,
                           Attributes& attributes) {
  const auto factor = [&](const char* name) {
    return at(std::ranges::find(rule.factors, name, &Factor::name) - rule.factors.begin());
  };
  if (rule.factors.empty()) return;
  const Atoms &of_queries = division[factor("s")], &of_keys = division[factor("t")];
  if (of_queries.empty() && of_keys.empty()) return;
  const std::int64_t all = type(op.operands[attention_q]).shape[2], room = type(op.operands[attention_k]).shape[2],
                     queries = builder_.type(operands[attention_q]).shape[2],
                     keys = builder_.type(operands[attention_k]).shape[2], window = op.attributes.integer("window", 0);
  const std::int64_t most = op.attributes.integer("kv_len", room);
  const auto placed = [&](ValueId place, const Atoms& atoms, std::int64_t part) {
    return atoms.empty() ? place : binary(Function::add, place, shard_index(atoms, part));
  };
  ValueId lengths = no_value;
  if (operands.size() > attention_kv_len && operands[attention_kv_len] != no_value)
    lengths = builder_.convert(operands[attention_kv_len], DType::i64);
  if (rules_of_kinds::sees_by_place(op)) {
    const ValueId key = placed(places(2, 1, keys), of_keys, keys);
    ValueId last = placed(places(2, 0, queries), of_queries, queries);
    if (lengths != no_value && op.attributes.find("causal_offset") == nullptr) {  // the last ones of each row
      const ValueId rows = builder_.reshape(lengths, {builder_.type(lengths).shape[0], 1, 1, 1});
      last = binary(Function::add, last, binary(Function::subtract, rows, whole_number(all)));
    } else {
      last = binary(Function::add, last, whole_number(op.attributes.integer("causal_offset", most - all)));
    }
    see(op, key, last, window, operands, attributes);
  }
  if (!of_keys.empty() && attributes.find("kv_len") != nullptr) attributes.set("kv_len", keys);
  if (of_keys.empty() || (lengths == no_value && most == keys * module_.grid.parts(of_keys))) return;
  // Behind its own keys a part has none, or padding.
  const ValueId length = lengths == no_value ? whole_number(most) : lengths;
  ValueId own = clamped(0, binary(Function::subtract, length, shard_index(of_keys, keys)), keys);
  if (lengths == no_value) {
    Attributes rows;
    rows.set("shape", Integers{builder_.type(operands[attention_q]).shape[0]});
    rows.set("dims", Integers{});
    own = builder_.op(Kind::broadcast, {own}, std::move(rows))[0];
  }
  if (operands.size() <= attention_kv_len) operands.resize(attention_kv_len + 1, no_value);
  operands[attention_kv_len] = own;
}

/// Keys up to the last one that a query sees, and of a window only the near ones, beside what the mask says.
void Body::see(const Op& op, ValueId key, ValueId last, std::int64_t window, std::vector<ValueId>& operands,
               Attributes& attributes) {
  ValueId seen = no_value;
  if (op.attributes.flag("causal")) seen = binary(Function::less_equal, key, last);
  if (window > 0) {
    const ValueId near = binary(Function::greater, key, binary(Function::subtract, last, whole_number(window)));
    seen = seen == no_value ? near : binary(Function::logical_and, seen, near);
  }
  if (operands.size() <= attention_mask) operands.resize(attention_mask + 1, no_value);
  ValueId& mask = operands[attention_mask];
  if (mask == no_value) {
    mask = seen;
  } else if (builder_.type(mask).dtype == DType::boolean) {
    mask = binary(Function::logical_and, mask, seen);
  } else {
    const ValueId hidden = number(-std::numeric_limits<double>::infinity(), builder_.type(mask).dtype);
    mask = builder_.elementwise(Function::select, {seen, mask, hidden});
  }
  attributes.set("causal", false);
  attributes.set("window", std::int64_t{0});
}

/// Each device attends to its own keys; outputs are weighed by the exponentials that a device has of all (the split
/// softmax of Flash-Decoding: of the logarithms of their sums, less the largest one), and are then parts of a sum.
std::vector<ValueId> Body::attended(const Op& op, const Atoms& atoms, std::vector<ValueId> operands,
                                    Attributes attributes) {
  const bool zero = op.attributes.text("masked_row", "zero") == "zero";
  attributes.set("masked_row", std::string("zero"));
  const std::vector<ValueId> own = builder_.op(op.kind, std::move(operands), std::move(attributes), op.name, 2);
  const DType dtype = builder_.type(own[1]).dtype;
  double bytes = static_cast<double>(bits(dtype)) / 8;
  for (const std::int64_t extent : builder_.type(own[1]).shape) bytes *= static_cast<double>(extent);
  const auto parts = static_cast<double>(module_.grid.parts(atoms));
  const auto over = [&](const char* combiner, ValueId x, const char* why) {
    Attributes combined;
    combined.set("combiner", std::string(combiner));
    return inner(op, Kind::all_reduce, x, atoms, std::move(combined), why, 2 * bytes * (parts - 1) / parts);
  };
  const ValueId best =
      over("maximum", own[1], "has a part of its keys on each device, and looks for the largest exponent of all parts");
  // A row that sees nothing on any device has no exponent: its weight is exp(-inf).
  const double lowest =
      dtype == DType::f64 ? std::numeric_limits<double>::lowest() : double{std::numeric_limits<float>::lowest()};
  const ValueId base = binary(Function::maximum, best, number(lowest, dtype));
  const ValueId weight = builder_.elementwise(Function::exp, {binary(Function::subtract, own[1], base)});
  const ValueId sum =
      over("add", weight, "has a part of its keys on each device, and sums the exponentials of all parts");
  // Where some key is seen, the largest weight is 1.
  const ValueId count = zero ? binary(Function::maximum, sum, number(1, dtype)) : sum;
  Shape column = builder_.type(own[1]).shape;
  column.push_back(1);
  const ValueId share = builder_.reshape(binary(Function::divide, weight, count), column);
  const ValueId out = binary(Function::multiply, builder_.convert(own[0], dtype), share);
  std::vector<ValueId> results{builder_.convert(out, builder_.type(own[0]).dtype)};
  if (op.results.size() > 1) results.push_back(binary(Function::add, best, builder_.elementwise(Function::log, {sum})));
  return results;
}

/// Two sums of a number for each query and head.
double Body::attention_bytes(const Op& op, const Rule& rule, const Division& division) const {
  const auto parts = static_cast<double>(module_.grid.parts(division[at(rule.keys)]));
  const TensorType local =
      local_type(module_.grid, type(op.results[0]), layout_of(module_.grid, rule, rule.results[0], division));
  const double rows =
      static_cast<double>(local.shape[0]) * static_cast<double>(local.shape[1]) * static_cast<double>(local.shape[2]);
  const double size = local.dtype == DType::f64 ? 8 : 4;  // f32 is what exponents are in, or wider
  return 4 * size * rows * (parts - 1) / parts;
}

}  // namespace tilesim::partitioning
