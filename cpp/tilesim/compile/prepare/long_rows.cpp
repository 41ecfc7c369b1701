#include "tilesim/compile/prepare/long_rows.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/fresh_names.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::lower {

namespace {

using Integers = std::vector<std::int64_t>;

constexpr std::int64_t most_sorted = 32, most_chosen = 256;  ///< limits on blocks: programs grow with pairs of blocks

/// Bytes on chip per element of a row during a sort (as OrderLowering::choose counts them).
std::int64_t bytes_each(const std::vector<DType>& operands, std::size_t keys, DType position) {
  std::int64_t bytes = 2 * host_bytes(position);
  std::int64_t widest = 0;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    bytes += 4 * host_bytes(operands[i]);
    if (i < keys) widest = std::max<std::int64_t>(widest, host_bytes(operands[i]));
  }
  return bytes + static_cast<std::int64_t>(keys - 1) * (4 * host_bytes(DType::i32) + 4 * widest);
}

class Splitting {
 public:
  Splitting(Graph& graph, GraphFunction& function, const Share& machine)
      : graph_(graph), function_(function), machine_(machine) {
    for (const Op& op : function.ops) names_.take(op.name);
    for (const Value& value : function.values) names_.take(value.name);
  }

  /// Returns whether it split an operation; parts may still be long.
  bool run() {
    std::vector<Op> before = std::move(function_.ops);
    function_.ops.clear();
    bool changed = false;
    for (Op& op : before) {
      const bool sorts = (op.kind == Kind::sort && op.functions.empty()) || op.kind == Kind::top_k;
      op_ = &op;
      if (!sorts || !too_long(op) || blocks(op) > (op.kind == Kind::sort ? most_sorted : most_chosen)) {
        function_.ops.push_back(std::move(op));
        continue;
      }
      changed = true;
      op.kind == Kind::sort ? sort() : top_k();
    }
    return changed;
  }

 private:
  const TensorType& type(ValueId value) const { return function_.value(value).type; }
  std::int64_t extent() const { return type(op_->operands[0]).shape[at(dim())]; }
  std::int64_t dim() const { return op_->attributes.integer("dim"); }

  std::vector<DType> dtypes(const Op& op) const {
    std::vector<DType> result;
    for (const ValueId id : op.operands) result.push_back(type(id).dtype);
    return result;
  }

  std::int64_t each(const Op& op) const {
    if (op.kind == Kind::top_k) return bytes_each(dtypes(op), 1, type(op.results[1]).dtype);
    return bytes_each(dtypes(op), at(op.attributes.integer("keys", 1)), DType::i32);
  }

  std::int64_t room(std::size_t operands) const {
    return machine_.core.scratchpad.bytes - 2 * 64 * static_cast<std::int64_t>(2 * operands + 8);
  }

  bool too_long(const Op& op) const {
    const std::int64_t row = type(op.operands[0]).shape[at(op.attributes.integer("dim"))];
    return row > 1 && row * each(op) > room(op.operands.size()) && room(op.operands.size()) >= 4 * each(op);
  }

  /// Number of blocks of a row; two blocks of a sort are on chip together, with positions as an additional key.
  std::int64_t blocks(const Op& op) const {
    std::vector<DType> types = dtypes(op);
    const bool sorts = op.kind == Kind::sort;
    const std::size_t keys = sorts ? at(op.attributes.integer("keys", 1)) : 1;
    if (sorts) types.insert(types.begin() + static_cast<std::ptrdiff_t>(keys), DType::i32);
    const std::int64_t bytes = sorts ? bytes_each(types, keys + 1, DType::i32) : each(op);
    const std::int64_t fit = room(types.size()) / 8 * 7 / bytes;
    return ceil_div(extent(), std::max<std::int64_t>(1, sorts ? fit / 2 : fit));
  }

  std::string fresh(const std::string& stem) { return names_.unique(stem); }

  std::vector<ValueId> add(Kind kind, std::vector<ValueId> operands, Attributes attributes,
                           const std::vector<TensorType>& types) {
    Op made;
    made.kind = kind;
    made.name = fresh(op_->name + "." + std::string(info(kind).name));
    made.source = op_->source;
    made.operands = std::move(operands);
    made.attributes = std::move(attributes);
    for (std::size_t i = 0; i < types.size(); ++i) {
      function_.values.push_back({i == 0 ? made.name : fresh(made.name), types[i]});
      made.results.push_back(static_cast<ValueId>(function_.values.size()) - 1);
    }
    function_.ops.push_back(std::move(made));
    return function_.ops.back().results;
  }

  ValueId part(ValueId x, std::int64_t first, std::int64_t last) {
    TensorType made = type(x);
    Integers start(made.shape.size(), 0), limit(made.shape.begin(), made.shape.end());
    start[at(dim())] = first;
    limit[at(dim())] = last;
    made.shape[at(dim())] = last - first;
    Attributes attributes;
    attributes.set("start", start);
    attributes.set("limit", limit);
    return add(Kind::slice, {x}, std::move(attributes), {made})[0];
  }

  ValueId joined(const std::vector<ValueId>& parts) {
    TensorType made = type(parts[0]);
    made.shape[at(dim())] = 0;
    for (const ValueId one : parts) made.shape[at(dim())] += type(one).shape[at(dim())];
    Attributes attributes;
    attributes.set("dim", dim());
    return add(Kind::concat, parts, std::move(attributes), {made})[0];
  }

  ValueId number(std::int64_t value, DType dtype) {
    const std::string name = "row." + std::to_string(value) + "." + std::string(tilesim::name(dtype));
    if (!graph_.weights.count(name)) {
      Weight weight;
      weight.type = {dtype, {}};
      weight.source = Weight::Source::data;
      weight.data = Array(DType::i64, {});
      weight.data.as<std::int64_t>()[0] = value;
      weight.data = weight.data.to(dtype);
      weight.trainable = false;
      graph_.weights.emplace(name, std::move(weight));
    }
    Attributes attributes;
    attributes.set("reference", name);
    return add(Kind::constant, {}, std::move(attributes), {{dtype, {}}})[0];
  }

  ValueId apply(const char* function, ValueId a, ValueId b, const TensorType& made) {
    Attributes attributes;
    attributes.set("function", std::string(function));
    return add(Kind::elementwise, {a, b}, std::move(attributes), {made})[0];
  }

  /// Copies the last value into the result of the operation that was split.
  void give(std::size_t result, ValueId value) {
    if (op_->results[result] == no_value) return;
    Op copy;
    copy.kind = Kind::copy;
    copy.name = result == 0 ? op_->name : fresh(op_->name + ".result");
    copy.source = op_->source;
    copy.operands = {value};
    copy.results = {op_->results[result]};
    function_.ops.push_back(std::move(copy));
  }

  /// Positions that keep equal elements in order, also with descending keys.
  ValueId positions(bool descending) {
    const TensorType made{DType::i32, type(op_->operands[0]).shape};
    Attributes attributes;
    attributes.set("shape", Integers(made.shape.begin(), made.shape.end()));
    attributes.set("dtype", DType::i32);
    attributes.set("dim", dim());
    const ValueId index = add(Kind::iota, {}, std::move(attributes), {made})[0];
    return descending ? apply("subtract", number(extent() - 1, DType::i32), index, made) : index;
  }

  std::vector<ValueId> sorted(const std::vector<ValueId>& operands, std::int64_t keys, bool descending) {
    std::vector<TensorType> types;
    for (const ValueId id : operands) types.push_back(type(id));
    Attributes attributes;
    attributes.set("dim", dim());
    attributes.set("keys", keys);
    attributes.set("descending", descending);
    attributes.set("stable", true);
    return add(Kind::sort, operands, std::move(attributes), types);
  }

  void sort() {
    const std::int64_t keys = op_->attributes.integer("keys", 1), whole = extent();
    const bool descending = op_->attributes.flag("descending");
    // Keys, then positions, then the other operands.
    std::vector<ValueId> rows(op_->operands.begin(), op_->operands.begin() + keys);
    rows.push_back(positions(descending));
    rows.insert(rows.end(), op_->operands.begin() + keys, op_->operands.end());
    const std::int64_t size = ceil_div(whole, blocks(*op_));
    std::vector<std::vector<ValueId>> parts;
    for (std::int64_t first = 0; first < whole; first += size) {
      parts.emplace_back();
      for (const ValueId row : rows) parts.back().push_back(part(row, first, std::min(whole, first + size)));
    }
    for (std::size_t i = 0; i < parts.size(); ++i)
      for (std::size_t j = i + 1; j < parts.size(); ++j) merge(parts[i], parts[j], keys + 1, descending);
    for (std::size_t i = 0; i < op_->operands.size(); ++i) {
      const std::size_t row = i < at(keys) ? i : i + 1;
      std::vector<ValueId> column;
      for (const auto& block : parts) column.push_back(block[row]);
      give(i, joined(column));
    }
  }

  /// Sorts both blocks together: the first elements go to `low`, the others to `high`.
  void merge(std::vector<ValueId>& low, std::vector<ValueId>& high, std::int64_t keys, bool descending) {
    std::vector<ValueId> both;
    for (std::size_t i = 0; i < low.size(); ++i) both.push_back(joined({low[i], high[i]}));
    const std::int64_t middle = type(low[0]).shape[at(dim())], end = middle + type(high[0]).shape[at(dim())];
    both = sorted(both, keys, descending);
    for (std::size_t i = 0; i < both.size(); ++i) {
      low[i] = part(both[i], 0, middle);
      high[i] = part(both[i], middle, end);
    }
  }

  void top_k() {
    const std::int64_t whole = extent(), kept = op_->attributes.integer("k");
    const ValueId x = op_->operands[0];
    const std::int64_t size = ceil_div(whole, blocks(*op_));
    std::vector<ValueId> values, places;
    for (std::int64_t first = 0; first < whole; first += size) {
      const ValueId block = part(x, first, std::min(whole, first + size));
      Attributes attributes = op_->attributes;
      attributes.set("k", std::min(kept, type(block).shape[at(dim())]));
      std::vector<TensorType> types{type(block), {type(op_->results[1]).dtype, type(block).shape}};
      for (TensorType& made : types) made.shape[at(dim())] = attributes.integer("k");
      attributes.set("dtype", types[1].dtype);
      const std::vector<ValueId> best = add(Kind::top_k, {block}, attributes, types);
      values.push_back(best[0]);
      places.push_back(apply("add", best[1], number(first, types[1].dtype), types[1]));
    }
    const bool largest = op_->attributes.flag("largest", true);
    const std::vector<ValueId> all = sorted({joined(values), joined(places)}, 1, largest);
    give(0, part(all[0], 0, kept));
    give(1, part(all[1], 0, kept));
  }

  Graph& graph_;
  GraphFunction& function_;
  const Share& machine_;
  const Op* op_ = nullptr;
  FreshNames names_;
};

}  // namespace

void split_long_rows(Graph& graph, const Share& machine) {
  constexpr int rounds = 8;  // the selected elements of many blocks may again form a long row
  for (GraphFunction& function : graph.functions)
    for (int round = 0; round < rounds && Splitting(graph, function, machine).run(); ++round) {
    }
}

}  // namespace tilesim::lower
