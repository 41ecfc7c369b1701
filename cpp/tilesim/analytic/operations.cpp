#include "tilesim/analytic/operations.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "tilesim/analytic/shapes.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"

namespace tilesim::analytic {

namespace {

bool is_view(Kind kind) {
  return kind == Kind::reshape || kind == Kind::bitcast || kind == Kind::constant || kind == Kind::iota;
}

bool fuses(Kind kind) {
  return kind == Kind::elementwise || kind == Kind::convert || kind == Kind::batch_norm || kind == Kind::broadcast;
}

/// 2 b m n k for integers, rounded once.
double twice(double b, double m, double n, double k) {
  double product = 2;
  long double wide = 2;  // 64 bits of mantissa
  for (const double x : {b, m, n, k}) product *= x, wide *= x;
  return wide < 0x1p63L ? static_cast<double>(wide) : product;
}

std::string whole(double x) { return std::to_string(static_cast<std::int64_t>(x)); }

/// Costs of the operations of one function in sequence.
class Pricer {
 public:
  Pricer(const OperationModel& model, const Graph& graph, const GraphFunction& function, bool alone, Costs& to)
      : model_(model), graph_(graph), function_(function), alone_(alone), to_(to) {
    if (alone) return;
    makers_.assign(function.values.size(), Kind::constant);
    uses_.assign(function.values.size(), 0);
    for (const Op& op : function.ops) {
      for (const ValueId result : op.results)
        if (result != no_value) makers_[at(result)] = op.kind;
      for (const ValueId operand : op.operands)
        if (operand != no_value) ++uses_[at(operand)];
    }
  }

  std::vector<Cost> run() {
    std::vector<Cost> rows;
    rows.reserve(function_.ops.size());
    for (const Op& op : function_.ops) {
      worked(512);
      rows.push_back(price(op));
    }
    return rows;
  }

 private:
  const TensorType& type(ValueId value) const { return function_.value(value).type; }
  const TensorType& operand(const Op& op, std::size_t index) const { return type(op.operands[index]); }

  Cost begin(const Op& op) const {
    Cost cost;
    cost.name = op.name;
    cost.kind = info(op.kind).name;
    return cost;
  }

  Cost refuse(const Op& op, std::string text) const {
    Cost cost = begin(op);
    cost.lacking = Lacking{std::move(text)};
    return cost;
  }

  /// Cost from the graph's shapes, in addition to `begin`.
  Cost counted(const Op& op, std::string scheme) const {
    Cost cost = begin(op);
    cost.bytes = static_cast<double>(compulsory_bytes(graph_, function_, op));
    cost.flops = flops(graph_, function_, op).total();
    cost.scheme = std::move(scheme);
    return cost;
  }

  Cost price(const Op& op) {
    if (is_view(op.kind)) {
      to_.notes.insert("views and constants are assumed free: layouts are assumed to fit");
      Cost cost = begin(op);
      cost.model = "view";
      return cost;
    }
    switch (op.kind) {
      case Kind::contract:
        return contract(op);
      case Kind::ragged_contract:
        return ragged(op);
      case Kind::convolution:
        return convolution(op);
      case Kind::attention:
        return attention(op);
      case Kind::while_loop:
        return alone_ ? begin(op) : loop(op);
      case Kind::branch:
        return alone_ ? begin(op) : branch(op);
      case Kind::softmax:
      case Kind::log_softmax:
        return stream(op, "softmax", model_.softmax, rows_of(function_, op));
      case Kind::normalize:
        return stream(op, "ln", model_.norm, rows_of(function_, op));
      case Kind::call:
      case Kind::fused:
        if (alone_) return begin(op);
        break;
      default:
        break;
    }
    if (!to_.missing.empty()) return begin(op);  // the caller prices all operations again
    const Flops work = flops(graph_, function_, op);
    if (work.matrix > 0) return refuse(op, "no closed form for " + std::string(info(op.kind).name));
    if (fuses(op.kind))
      if (const ValueId from = chained(op); from != no_value) return fused(op, from);
    return stream(op, "copy", model_.copy, 0);
  }

  /// A form of the model; null if it is not loaded yet, or if the device has none (`cost` then states why).
  template <class Model>
  const Model* form(const std::map<FormKey, std::variant<Model, Lacking>>& forms, FormKey key, Cost& cost) {
    const auto found = forms.find(key);
    if (found == forms.end()) {
      to_.missing.insert(key);
      return nullptr;
    }
    if (const auto* lacking = std::get_if<Lacking>(&found->second)) cost.lacking = *lacking;
    return std::get_if<Model>(&found->second);
  }

  Cost product(const Op& op, Form which, DType dtype, const ProductExtents& e) {
    Cost cost = begin(op);
    const ProductForm* found = form(model_.products, {which, dtype}, cost);
    if (!found || !to_.missing.empty()) return cost;
    cost = counted(op, found->scheme);
    if (e.empty()) {
      cost.flops = 0;
      cost.model = "nothing to do";
      return cost;
    }
    if (!found->note.empty()) to_.notes.insert(found->note);
    if (which == Form::weights)  // the graph counts unquantized weights
      cost.bytes += e.batch * e.k * e.n * (found->model.scheme.weight_bytes - bits(operand(op, 1).dtype) / 8.0);
    const auto [known, fresh] = to_.products.try_emplace({which, dtype, e.batch, e.m, e.n, e.k});
    if (fresh) known->second = found->model.predict(e.batch, e.m, e.n, e.k);
    const GemmTerms& t = known->second;
    const auto term = [&](GemmTerm which_term) { return t[static_cast<std::size_t>(which_term)]; };
    cost.terms = {{"compute", term(GemmTerm::compute)}, {"load", term(GemmTerm::load)},
                  {"memory", term(GemmTerm::memory)},   {"launch", term(GemmTerm::launch)},
                  {"split", term(GemmTerm::split)},     {"cast", term(GemmTerm::cast)}};
    const double latency = term(GemmTerm::latency);
    if (term(GemmTerm::tile_m) > 0 && latency >= term(GemmTerm::compute)) {  // short steps wait, with less arithmetic
      cost.terms[0].second = twice(e.batch, e.m, e.n, e.k) / found->flops_per_second;
      cost.terms.emplace_back("latency", latency);
    }
    cost.model = whole(term(GemmTerm::tile_m)) + "x" + whole(term(GemmTerm::tile_n)) + " tiles, k split " +
                 whole(term(GemmTerm::splits));
    cost.seconds = term(GemmTerm::total);
    cost.hits = term(GemmTerm::hits);
    cost.occupancy = term(GemmTerm::occupancy);
    return cost;
  }

  Cost contract(const Op& op) {
    const ProductExtents e = contract_extents(function_, op);
    return product(op, e.batch == 1 ? Form::weights : Form::activations, operand(op, 0).dtype, e);
  }

  Cost ragged(const Op& op) {
    to_.notes.insert("rows of experts are assumed to spread evenly over all groups");
    return product(op, Form::weights, operand(op, 0).dtype, ragged_extents(function_, op));
  }

  Cost convolution(const Op& op) {
    const DType dtype = operand(op, 0).dtype;
    if (const auto shape = square_convolution(function_, op); shape && model_.convolves)
      return library_convolution(op, dtype, *shape);
    const bool phased = model_.convolves && !op.attributes.integers("input_dilation", {}).empty();
    Cost cost =
        product(op, Form::weights, dtype, phased ? phased_extents(function_, op) : convolution_extents(function_, op));
    cost.model = std::string(phased ? "sub-filters without inserted zeros, " : "implicit product, ") + cost.model;
    return cost;
  }

  Cost library_convolution(const Op& op, DType dtype, const ConvolutionCase& shape) {
    Cost cost = begin(op);
    const ConvolutionForm* found = form(model_.convolutions, {Form::convolution, dtype}, cost);
    if (!found) return cost;
    if (!(shape.outputs() > 0)) throw UserError("the kernel is larger than the padded input");
    cost = counted(op, found->scheme);
    const ConvolutionTerms t = found->model.predict(shape);
    cost.seconds = t[4];
    cost.terms = {{"compute", t[4] - t[3]}, {"memory", cost.bytes / model_.memory_bytes_per_second}, {"layout", t[3]}};
    cost.model =
        convolution_term_names()[static_cast<std::size_t>(std::min_element(t.begin(), t.begin() + 3) - t.begin())];
    return cost;
  }

  Cost attention(const Op& op) {
    Cost cost = begin(op);
    const AttentionForm* found = form(model_.attentions, {Form::attention, operand(op, 0).dtype}, cost);
    if (!found) return cost;
    cost = counted(op, found->scheme);
    const AttentionCase call = attention_case(graph_, function_, op);
    const AttentionTerms t = found->model.predict(call);
    for (std::size_t i = 0; i + 1 < t.size(); ++i) cost.terms.emplace_back(attention_term_names()[i], t[i]);
    cost.seconds = t.back();
    cost.model = call.queries == 1 ? "decode" : "prefill";
    return cost;
  }

  Cost streamed(const Op& op, const char* kind, const StreamConstants& constants, double rows, double bytes,
                bool launch) const {
    const DType dtype = type(op.results[0]).dtype;
    Cost cost = begin(op);
    cost.scheme = name(dtype);
    cost.flops = flops(graph_, function_, op).total();
    cost.bytes = bytes;
    StreamModel model;
    model.units = model_.units;
    model.memory_bytes_per_second = model_.memory_bytes_per_second;
    model.lanes_per_second =
        model_.lanes.at(dtype == DType::f16 || dtype == DType::bf16 || dtype == DType::f64 ? dtype : DType::f32);
    model.constants = constants;
    const StreamTerms t = model.once({bytes, cost.flops, rows, launch});
    cost.terms = {{"memory", t[1]}, {"compute", t[2]}, {"launch", t[0]}, {"rows", t[3]}};
    cost.seconds = t[4];
    cost.model = launch ? kind : "fused";
    return cost;
  }

  /// An operation that streams: bytes of the graph at memory's rate, arithmetic on ordinary lanes, one launch.
  Cost stream(const Op& op, const char* kind, const StreamConstants& constants, double rows) const {
    return streamed(op, kind, constants, rows, static_cast<double>(compulsory_bytes(graph_, function_, op)), true);
  }

  /// The operand that an earlier kernel computed for this operation only; no_value: none.
  ValueId chained(const Op& op) const {
    if (alone_) return no_value;
    const double result = elements(type(op.results[0]));
    for (const ValueId operand : op.operands)
      if (operand != no_value && !is_view(makers_[at(operand)]) && uses_[at(operand)] == 1 &&
          elements(type(operand)) == result)
        return operand;
    return no_value;
  }

  Cost fused(const Op& op, ValueId from) {
    to_.notes.insert("elementwise operations behind a kernel are fused into it and cost only their other operands");
    double others = 0;
    for (const ValueId operand : op.operands)
      if (operand != no_value && operand != from)
        others += elements(type(operand)) * static_cast<double>(bits(type(operand).dtype)) / 8;
    return streamed(op, "copy", model_.copy, 0, others, false);
  }

  Cost sum(const Op& op, const std::vector<Cost>& parts, double times, std::string model) const {
    Cost cost = begin(op);
    cost.scheme = name(type(op.results[0]).dtype);
    cost.model = std::move(model);
    for (const Cost& part : parts) {
      if (part.lacking && !cost.lacking)
        cost.lacking = Lacking{"operation " + part.name + " (" + part.kind + "): " + part.lacking->text};
      for (const auto& [key, value] : part.terms) {
        const auto known = std::ranges::find(cost.terms, key, [](const auto& term) { return term.first; });
        if (known == cost.terms.end())
          cost.terms.emplace_back(key, times * value);
        else
          known->second += times * value;
      }
      cost.bytes += part.bytes;
      cost.flops += part.flops;
      cost.seconds += part.seconds;
    }
    cost.bytes *= times;
    cost.flops *= times;
    cost.seconds *= times;
    return cost;
  }

  std::vector<Cost> body(std::int32_t callee) {
    return Pricer(model_, graph_, graph_.functions[at(callee)], false, to_).run();
  }

  /// Whether an operation of a counted loop only counts trips or passes on an unchanged value.
  static bool steers(const GraphFunction& step, const Op& op) {
    const TensorType& type = step.value(op.results.at(0)).type;
    return op.kind == Kind::copy ? std::ranges::count(step.inputs, op.operands[0]) > 0
                                 : op.kind == Kind::elementwise && is_integer(type.dtype) && type.shape.empty();
  }

  Cost loop(const Op& op) {
    const Attribute* trips = op.attributes.find("trips");
    if (!trips) return refuse(op, "a loop whose length depends on data has no closed form");
    to_.notes.insert("loops: every trip runs its operations one after the other; the host counts the trips");
    const std::int32_t callee = op.functions.at(1);  // the trip count is constant, so no condition is evaluated
    const GraphFunction& step = graph_.functions[at(callee)];
    std::vector<Cost> all = body(callee), parts;
    for (std::size_t i = 0; i < step.ops.size(); ++i)
      if (!steers(step, step.ops[i])) parts.push_back(std::move(all[i]));
    const auto count = std::get<std::int64_t>(*trips);
    return sum(op, parts, static_cast<double>(count), std::to_string(count) + " trips");
  }

  Cost branch(const Op& op) {
    to_.notes.insert("branches: the longest side is counted");
    std::optional<Cost> longest;
    for (const std::int32_t callee : op.functions) {
      Cost side = sum(op, body(callee), 1, "longest side");
      if (side.lacking) return side;
      if (!longest || side.seconds > longest->seconds) longest = std::move(side);
    }
    return longest ? std::move(*longest) : begin(op);
  }

  const OperationModel& model_;
  const Graph& graph_;
  const GraphFunction& function_;
  bool alone_;
  Costs& to_;
  std::vector<Kind> makers_;  ///< per value; inputs count as constants
  std::vector<int> uses_;     ///< per value
};

}  // namespace

Costs OperationModel::price(const Graph& graph) const {
  Costs costs;
  const auto calls = [](const GraphFunction& function) {
    return std::ranges::any_of(function.ops, [](const Op& op) { return op.kind == Kind::call; });
  };
  if (std::ranges::none_of(graph.functions, calls)) {
    costs.rows = Pricer(*this, graph, graph.entry(), false, costs).run();
    return costs;
  }
  Graph flat = graph;
  inline_calls(flat);
  costs.rows = Pricer(*this, flat, flat.entry(), false, costs).run();
  return costs;
}

Costs OperationModel::price_alone(const Graph& graph, const GraphFunction& function) const {
  Costs costs;
  costs.rows = Pricer(*this, graph, function, true, costs).run();
  return costs;
}

}  // namespace tilesim::analytic
