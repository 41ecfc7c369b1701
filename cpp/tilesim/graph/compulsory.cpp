// Lower bounds of traffic: bytes that no schedule and no on-chip memory can avoid.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/attention.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/kinds/rules.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim {

namespace {

std::int64_t packed(const TensorType& type) { return packed_bytes(type.dtype, element_count(type.shape)); }

/// Number of positions of a tensor axis of `extent` elements that an access reaches, without gaps and padding.
std::int64_t touched_positions(const AxisAccess& axis, std::int64_t extent, const std::vector<std::int64_t>& extents) {
  constexpr std::int64_t limit = std::int64_t{1} << 22;
  std::int64_t points = 1;
  for (const AxisAccess::Term& term : axis.terms)
    points = std::min(limit + 1, points * std::min(limit + 1, extents[at(term.dim)]));
  const bool plain =
      axis.terms.size() == 1 && axis.terms[0].coefficient == 1 && axis.constant == 0 && axis.divisor == 1;
  if (plain) return std::min(extent, extents[at(axis.terms[0].dim)]);
  if (points > limit || extent > limit) return std::min<std::int64_t>(extent, 1);  // too large to count: a valid bound
  std::vector<bool> touched(at(extent), false);
  std::vector<std::int64_t> index(axis.terms.size(), 0);
  for (std::int64_t point = 0; point < points; ++point) {
    std::int64_t position = axis.constant, rest = point;
    for (const AxisAccess::Term& term : axis.terms) {
      position += term.coefficient * (rest % extents[at(term.dim)]);
      rest /= extents[at(term.dim)];
    }
    if (position >= 0 && position % axis.divisor == 0 && position / axis.divisor < extent)
      touched[at(position / axis.divisor)] = true;
  }
  return std::ranges::count(touched, true);
}

/// Restricts the domain to keys that at least one query sees, given causality and window.
void see_keys(Domain& nest, const Op& op) {
  constexpr std::size_t queries = 3, keys = 5;  // dims of the domain
  const std::int64_t all = nest.extents[keys], window = op.attributes.integer("window", 0);
  const std::int64_t offset = op.attributes.integer("causal_offset", all - nest.extents[queries]);
  const std::int64_t end =
      op.attributes.flag("causal") ? std::clamp<std::int64_t>(nest.extents[queries] + offset, 0, all) : all;
  const std::int64_t begin = window > 0 ? std::clamp<std::int64_t>(offset - window + 1, 0, end) : 0;
  nest.extents[keys] = end - begin;
}

/// Number of mask elements whose pair (query, key) is visible, if the mask varies over queries and keys.
std::optional<std::int64_t> seen_pairs(const Shape& mask, const Domain& nest, const Op& op) {
  constexpr std::size_t queries = 3, keys = 5;
  const std::size_t rank = mask.size();
  if (rank < 2 || mask[rank - 1] < 2 || mask[rank - 2] < 2) return std::nullopt;
  const std::int64_t all = nest.extents[keys], window = op.attributes.integer("window", 0);
  const std::int64_t offset = op.attributes.integer("causal_offset", all - nest.extents[queries]);
  const bool causal = op.attributes.flag("causal");
  std::int64_t pairs = 0;
  for (std::int64_t query = 0; query < nest.extents[queries]; ++query) {
    const std::int64_t end = causal ? std::clamp<std::int64_t>(query + offset + 1, 0, all) : all;
    const std::int64_t begin = window > 0 ? std::clamp<std::int64_t>(query + offset - window + 1, 0, end) : 0;
    pairs += end - begin;
  }
  for (std::size_t axis = 0; axis + 2 < rank; ++axis) pairs *= mask[axis];
  return pairs;
}

/// Bytes of operand `index` of an attention. No query reads hidden keys; lengths and pages only determine transfers.
std::int64_t attention_bytes(const Graph& graph, const GraphFunction& function, const Op& op, std::size_t index) {
  const TensorType& type = function.value(op.operands[index]).type;
  if (index > attention_mask) return 0;
  const AttentionShape shape = attention_shape(function, op);
  if (index == attention_q)
    return packed_bytes(type.dtype, attention_reach(graph, function, op).queries * shape.heads * shape.depth);
  if (index != attention_mask) {
    const std::int64_t rows = attention_reach(graph, function, op).rows * shape.key_heads;
    return packed_bytes(type.dtype, shape.batch == 0 ? 0 : rows * type.shape[3]);
  }
  if (shape.lengths) return 0;  // all lengths may be 0
  Domain nest = domain(function, op);
  if (const auto pairs = seen_pairs(type.shape, nest, op)) return packed_bytes(type.dtype, *pairs);
  see_keys(nest, op);
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
    const AxisAccess& access = nest.operands[index].axes[axis];
    elements *= access.terms.empty() ? std::min<std::int64_t>(1, type.shape[axis])
                                     : touched_positions(access, type.shape[axis], nest.extents);
  }
  return packed_bytes(type.dtype, elements);
}

/// Lower bound on the bytes of operand `index` that the operation reads.
std::int64_t touched_bytes(const Graph& graph, const GraphFunction& function, const Op& op, std::size_t index) {
  const TensorType& type = function.value(op.operands[index]).type;
  const auto result = [&] { return element_count(function.value(op.results[0]).type.shape); };
  switch (op.kind) {
    case Kind::gather:
    case Kind::embedding:
    case Kind::dynamic_slice:
      if (index == 0 && op.attributes.text("mode", "clip") == "fill") return 0;  // all indices may be outside
      if (index > 0 && op.kind == Kind::dynamic_slice) return 0;                 // positions only determine transfers
      return index == 0 ? std::min(packed(type), packed_bytes(type.dtype, result())) : packed(type);
    case Kind::ragged_contract:  // all rows may belong to one group
      if (index != 1 || type.shape[0] == 0) return packed(type);
      return element_count(function.value(op.operands[0]).type.shape) == 0 ? 0 : packed(type) / type.shape[0];
    case Kind::dynamic_update:
      if (index > 1) return 0;  // positions only determine transfers
      if (index != 0) return packed(type);
      return packed_bytes(type.dtype,
                          element_count(type.shape) - element_count(function.value(op.operands[1]).type.shape));
    case Kind::attention:
      return attention_bytes(graph, function, op, index);
    case Kind::linear_solve: {
      if (index != 0 || element_count(type.shape) == 0) return packed(type);
      const std::int64_t n = type.shape.back();  // one side of the diagonal, without the diagonal
      return packed_bytes(type.dtype, element_count(type.shape) / n * (n - 1) / 2);
    }
    case Kind::slice:
    case Kind::convolution:
    case Kind::window_reduce:
    case Kind::pad:
      break;
    default:
      return packed(type);
  }
  const Domain nest = domain(function, op);
  const Access& access = nest.operands[index];
  if (!access.affine) return packed(type);
  std::int64_t elements = 1;
  for (std::size_t axis = 0; axis < access.axes.size(); ++axis)
    elements *= access.axes[axis].terms.empty() ? std::min<std::int64_t>(1, type.shape[axis])
                                                : touched_positions(access.axes[axis], type.shape[axis], nest.extents);
  return packed_bytes(type.dtype, elements);
}

/// By name of weight: the bytes that a function and its callees read.
class Reads {
 public:
  explicit Reads(const Graph& graph) : graph_(graph) {}

  /// Bytes of `value` of function `number` that operations read, at most its size.
  std::int64_t of_value(std::int32_t number, ValueId value) {
    const GraphFunction& function = graph_.functions[at(number)];
    for (const ValueId output : function.outputs)
      if (output == value) return packed(function.value(value).type);
    return by_operations(number, value, nullptr);
  }

  /// Bytes that an in-place change of an input moves: parts that are read before or after the change; written parts.
  struct Change { std::int64_t read = 0, written = 0; };
  /// The change of `input` of function `number` to `output`; empty if it is not in place.
  std::optional<Change> in_place(std::int32_t number, ValueId input, ValueId output) {
    if (input == output) return Change{by_operations(number, input, nullptr), 0};
    const GraphFunction& function = graph_.functions[at(number)];
    for (const Op& op : function.ops) {
      const auto made = std::ranges::find(op.results, output);
      if (made == op.results.end()) continue;
      std::optional<Change> change;
      if (op.kind == Kind::dynamic_update && op.operands[0] == input) {
        change = Change{0, packed(function.value(op.operands[1]).type)};
      } else if (op.kind == Kind::call || op.kind == Kind::fused) {
        const GraphFunction& callee = graph_.functions[at(op.functions[0])];
        const ValueId inner = callee.outputs[static_cast<std::size_t>(made - op.results.begin())];
        for (std::size_t i = 0; i < op.operands.size() && !change; ++i)
          if (op.operands[i] == input) change = in_place(op.functions[0], callee.inputs[i], inner);
      } else if (op.kind == Kind::while_loop &&
                 op.operands[static_cast<std::size_t>(made - op.results.begin())] == input) {
        const GraphFunction& body = graph_.functions[at(op.functions[1])];
        const auto state = static_cast<std::size_t>(made - op.results.begin());
        change = in_place(op.functions[1], body.inputs[state], body.outputs[state]);
        // Each trip may change the same part; a loop with an unknown number of trips may run zero trips.
        if (change && op.attributes.integer("trips", 0) == 0) change = Change{0, 0};
      }
      if (!change) return std::nullopt;
      const std::int64_t after = by_operations(number, output, nullptr);
      change->read += by_operations(number, input, &op) + std::max<std::int64_t>(0, after - change->written);
      change->read = std::min(change->read, packed(function.value(input).type));
      return change;
    }
    return std::nullopt;
  }

  void weights(std::int32_t number) {
    if (!visited_.insert(number).second) return;
    const GraphFunction& function = graph_.functions[at(number)];
    for (const Op& op : function.ops) {
      for (const std::int32_t callee : op.functions) weights(callee);
      if (op.kind != Kind::constant) continue;
      const std::string& name = op.attributes.text("reference");
      const Weight& weight = graph_.weights.at(name);
      const bool is_output = std::ranges::find(function.outputs, op.results[0]) != function.outputs.end();
      if (weight.source == Weight::Source::data && weight.data.size() == 1 && !is_output) continue;  // part of a kernel
      std::int64_t& bytes = weight_bytes_[name];
      bytes = std::min(packed(weight.type), bytes + of_value(number, op.results[0]));
    }
  }

  std::int64_t weight_total() const {
    std::int64_t total = 0;
    for (const auto& [name, bytes] : weight_bytes_) total += bytes;
    return total;
  }

 private:
  /// Bytes of a value that operations except `except` read, at most its size. `passed_on`: copies that are outputs do
  /// not count.
  std::int64_t by_operations(std::int32_t number, ValueId value, const Op* except, bool passed_on = false) {
    const GraphFunction& function = graph_.functions[at(number)];
    const std::int64_t all = packed(function.value(value).type);
    std::int64_t sum = 0;
    const std::vector<bool>& counts = leads_to_elements(number);
    for (const std::size_t reader : readers(number)[at(value)]) {
      const Op& op = function.ops[reader];
      if (!counts[reader] || &op == except) continue;
      if (passed_on && op.kind == Kind::copy && std::ranges::count(function.outputs, op.results[0]) > 0) continue;
      std::int64_t most = 0;  // an operand that occurs twice may be read once
      for (std::size_t i = 0; i < op.operands.size() && sum < all; ++i) {
        if (op.operands[i] != value) continue;
        const bool follows = op.kind == Kind::call || op.kind == Kind::fused;
        most = std::max(most, follows ? of_input(op.functions[0], i) : moved_on(number, op, i));
      }
      sum += most;
    }
    return std::min(sum, all);
  }

  /// Bytes of operand `index` that an operation reads; for a movement, at most what others read of its result.
  std::int64_t moved_on(std::int32_t number, const Op& op, std::size_t index) {
    const GraphFunction& function = graph_.functions[at(number)];
    const double left = index < 2 ? share_left(graph_, function, op, static_cast<int>(index)) : 1;
    const auto touched =
        static_cast<std::int64_t>(static_cast<double>(touched_bytes(graph_, function, op, index)) * left);
    if (touched > 0 && op.results.size() == 1 && known(number, op.results[0])) {  // made beforehand, if that is less
      std::int64_t read = of_result(number, op.results[0]);
      for (std::size_t i = 0; i < index; ++i) read -= sources(number, op.operands[i]);
      return std::clamp<std::int64_t>(read, 0, touched);
    }
    if (op.kind == Kind::while_loop) return std::min(touched, of_state(number, op, index));
    if (touched > 0 && is_pointwise(function, op, index)) {  // at most the elements that others read of its result
      const int wide = std::max(1, bits(function.value(op.results[0]).type.dtype));
      const TensorType& type = function.value(op.operands[index]).type;
      const std::int64_t read = ceil_div(8 * of_result(number, op.results[0]), wide);
      return std::min(touched, packed_bytes(type.dtype, std::min(read, element_count(type.shape))));
    }
    const bool moves = info(op.kind).movement && op.functions.empty() && op.results.size() == 1 && index == 0 &&
                       op.kind != Kind::dynamic_update;
    if (!moves || touched == 0) return touched;
    const std::int64_t whole = packed(function.value(op.results[0]).type), read = of_result(number, op.results[0]);
    // A broadcast element is read once for many results. For a pad or concat, all reads may be of other operands or
    // padding.
    const std::int64_t copies = std::max<std::int64_t>(1, ceil_div(whole, touched));
    if (op.kind == Kind::broadcast) return std::min(touched, ceil_div(read, copies));
    return std::clamp<std::int64_t>(read - std::max<std::int64_t>(0, whole - touched), 0, touched);
  }

  /// Bytes of the initial value of a loop's state: what the first trip reads, or what all trips keep of a result that
  /// is read. A loop with an unknown number of trips may run zero trips, or enough to overwrite everything.
  std::int64_t of_state(std::int32_t number, const Op& op, std::size_t index) {
    const std::int32_t body = op.functions[1];
    const GraphFunction& function = graph_.functions[at(body)];
    const ValueId before = function.inputs[index], after = function.outputs[index];
    const Op* last = maker(body, after);
    const bool changes = last && !last->operands.empty() && last->operands[0] == before;
    const bool stays = after == before || (changes && last->kind == Kind::copy);
    const bool updated = changes && last->kind == Kind::dynamic_update;
    const std::int64_t trips = op.attributes.integer("trips", 0);
    const std::int64_t result = op.results[index] == no_value ? 0 : of_result(number, op.results[index]);
    std::int64_t bytes = by_operations(body, before, updated ? last : nullptr, true);
    if (stays) bytes = std::max(bytes, result);
    if (updated && trips > 0) bytes = std::max(bytes, result - trips * packed(function.value(last->operands[1]).type));
    return trips == 0 ? std::min(bytes, result) : bytes;
  }

  /// Per value of a function: the operations that read it, each once, in order.
  const std::vector<std::vector<std::size_t>>& readers(std::int32_t number) {
    const auto [found, fresh] = readers_.try_emplace(number);
    if (!fresh) return found->second;
    const GraphFunction& function = graph_.functions[at(number)];
    found->second.resize(function.values.size());
    for (std::size_t i = 0; i < function.ops.size(); ++i)
      for (const ValueId id : function.ops[i].operands)
        if (id != no_value && (found->second[at(id)].empty() || found->second[at(id)].back() != i))
          found->second[at(id)].push_back(i);
    return found->second;
  }

  /// Whether each element of the result depends on one element of the operand.
  static bool is_pointwise(const GraphFunction& function, const Op& op, std::size_t index) {
    if (op.kind != Kind::elementwise && op.kind != Kind::convert) return false;
    return function.value(op.operands[index]).type.shape == function.value(op.results[0]).type.shape;
  }

  /// The operation that computes a value; null for an input.
  const Op* maker(std::int32_t number, ValueId value) {
    const auto [found, fresh] = makers_.try_emplace(number);
    if (fresh)
      for (const Op& op : graph_.functions[at(number)].ops)
        for (const ValueId result : op.results) found->second[result] = &op;
    const auto op = found->second.find(value);
    return op == found->second.end() ? nullptr : op->second;
  }

  /// Whether a value depends on constants only.
  bool known(std::int32_t number, ValueId value) {
    if (value == no_value) return true;
    const auto key = std::make_pair(number, value);
    if (const auto found = cached_.find(key); found != cached_.end()) return found->second;
    const Op* op = maker(number, value);
    const bool pure = op && info(op->kind).effect == Effect::pure && op->functions.empty();
    const bool is = pure && std::ranges::all_of(op->operands, [&](ValueId one) { return known(number, one); });
    return cached_[key] = is;
  }

  /// Lower bound on the bytes from which a value that depends on constants only is computed.
  std::int64_t sources(std::int32_t number, ValueId value) {
    if (value == no_value) return 0;
    const std::int64_t own = packed(graph_.functions[at(number)].value(value).type);
    const Op* op = maker(number, value);
    if (!op || op->operands.empty()) return own;
    std::int64_t sum = 0;
    for (const ValueId operand : op->operands) sum += sources(number, operand);
    return std::min(own, sum);
  }

  std::int64_t of_result(std::int32_t number, ValueId value) {
    const auto key = std::make_pair(number, value);
    if (const auto found = results_.find(key); found != results_.end()) return found->second;
    return results_[key] = of_value(number, value);
  }

  /// Per operation: whether it contributes to a result with elements. Operands of other operations need not be read.
  const std::vector<bool>& leads_to_elements(std::int32_t number) {
    const auto [found, fresh] = counting_.try_emplace(number);
    std::vector<bool>& counts = found->second;
    if (!fresh) return counts;
    const GraphFunction& function = graph_.functions[at(number)];
    const auto empty = [&](ValueId id) { return element_count(function.value(id).type.shape) == 0; };
    std::vector<bool> needless(function.values.size(), false);  // only values without elements depend on it
    counts.assign(function.ops.size(), true);
    const bool some = std::ranges::any_of(
        function.ops, [&](const Op& op) { return !op.results.empty() && std::ranges::all_of(op.results, empty); });
    if (!some) return counts;
    std::vector<int> uses(function.values.size(), 0);
    for (const Op& op : function.ops)
      for (const ValueId id : op.operands)
        if (id != no_value) ++uses[at(id)];
    for (const ValueId id : function.outputs) uses[at(id)] += empty(id) ? 0 : 1;
    for (std::size_t i = function.ops.size(); i-- > 0;) {
      const Op& op = function.ops[i];
      const bool idle = !op.results.empty() && info(op.kind).effect == Effect::pure &&
                        std::ranges::all_of(op.results, [&](ValueId id) { return empty(id) || needless[at(id)]; });
      if (!idle) continue;
      counts[i] = false;
      for (const ValueId id : op.operands)
        if (id != no_value && --uses[at(id)] == 0) needless[at(id)] = true;
    }
    return counts;
  }

  std::int64_t of_input(std::int32_t number, std::size_t input) {
    const auto key = std::make_pair(number, input);
    if (const auto found = inputs_.find(key); found != inputs_.end()) return found->second;
    return inputs_[key] = of_value(number, graph_.functions[at(number)].inputs[input]);
  }

  const Graph& graph_;
  std::set<std::int32_t> visited_;
  std::map<std::string, std::int64_t> weight_bytes_;
  std::map<std::pair<std::int32_t, std::size_t>, std::int64_t> inputs_;
  std::map<std::int32_t, std::vector<bool>> counting_;
  std::map<std::int32_t, std::vector<std::vector<std::size_t>>> readers_;
  std::map<std::int32_t, std::map<ValueId, const Op*>> makers_;
  std::map<std::pair<std::int32_t, ValueId>, bool> cached_;
  std::map<std::pair<std::int32_t, ValueId>, std::int64_t> results_;
};

bool any_batch_norm(const Graph& graph) {
  const auto is_one = [](const Op& op) { return op.kind == Kind::batch_norm; };
  return std::ranges::any_of(graph.functions, [&](const auto& f) { return std::ranges::any_of(f.ops, is_one); });
}

}  // namespace

std::int64_t compulsory_bytes(const Graph& graph) {
  if (any_batch_norm(graph)) {  // folding may merge parameters into one vector
    Graph plain = graph;
    expand(plain, [](const Op& op) { return op.kind == Kind::batch_norm; });
    return compulsory_bytes(plain);
  }
  const GraphFunction& entry = graph.entry();
  Reads reads(graph);
  reads.weights(graph.main);
  std::int64_t total = reads.weight_total();
  std::set<ValueId> written, counted;       ///< outputs and inputs that are already counted
  for (const ValueId input : entry.inputs)  // an input that is an output is not moved
    if (std::ranges::count(entry.outputs, input) > 0) {
      total += reads.in_place(graph.main, input, input)->read;
      written.insert(input);
      counted.insert(input);
    }
  for (const Alias& alias : entry.aliases) {
    const ValueId input = entry.inputs[at(alias.input)], output = entry.outputs[at(alias.output)];
    std::optional<Reads::Change> change;
    if (!written.count(output) && !counted.count(input)) change = reads.in_place(graph.main, input, output);
    if (!change) continue;
    written.insert(output);
    counted.insert(input);
    total += change->read + change->written;
  }
  for (const ValueId output : entry.outputs)
    if (written.insert(output).second) total += packed(entry.value(output).type);
  for (const ValueId input : entry.inputs)
    if (!counted.count(input)) total += reads.of_value(graph.main, input);
  return total;
}

std::vector<double> read_shares(const Graph& graph, const GraphFunction& function) {
  Reads reads(graph);
  const auto number = static_cast<std::int32_t>(&function - graph.functions.data());
  std::vector<double> shares(function.ops.size(), 1);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    const Op& op = function.ops[i];
    if (op.kind != Kind::elementwise) continue;
    const std::int64_t all = packed(function.value(op.results[0]).type);
    if (all > 0) shares[i] = static_cast<double>(reads.of_value(number, op.results[0])) / static_cast<double>(all);
  }
  return shares;
}

std::int64_t compulsory_bytes(const Graph& graph, const GraphFunction& function, const Op& op) {
  std::int64_t total = 0;
  Reads reads(graph);
  for (const std::int32_t callee : op.functions) reads.weights(callee);
  total += reads.weight_total();
  std::map<ValueId, std::int64_t> operands;  // an operand that occurs twice is read once
  for (std::size_t i = 0; i < op.operands.size(); ++i) {
    if (op.operands[i] == no_value) continue;
    if (op.kind == Kind::dynamic_update && i == 0) continue;  // elements that are not written do not move
    std::int64_t& bytes = operands[op.operands[i]];
    bytes = std::max(bytes, touched_bytes(graph, function, op, i));
  }
  for (const auto& [id, bytes] : operands) total += bytes;
  if (op.kind == Kind::constant) return 0;  // counted where it is read
  if (op.kind == Kind::dynamic_update) return total + packed(function.value(op.operands[1]).type);
  for (const ValueId id : op.results) total += packed(function.value(id).type);
  return total;
}

}  // namespace tilesim
