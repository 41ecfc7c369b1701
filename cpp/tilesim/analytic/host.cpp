#include "tilesim/analytic/host.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/kind.hpp"

namespace tilesim::analytic {

namespace {

/// Number of minor axes of the matrices on which only one unit can work; other units process other matrices.
std::optional<std::size_t> serial_axes(Kind kind) {
  if (kind == Kind::linear_solve) return 2;
  if (kind == Kind::sort || kind == Kind::top_k) return 1;
  if (kind == Kind::while_loop) return 0;
  return std::nullopt;
}

std::string percent(double share) {
  return std::to_string(static_cast<std::int64_t>(std::nearbyint(share * 100))) + "%";
}

class HostPricer {
 public:
  HostPricer(const HostModel& model, const Graph& graph)
      : model_(model), graph_(graph), cached_(graph.functions.size()) {}

  HostCosts run() {
    const std::vector<double>& seconds = function(graph_.main);
    for (std::size_t i = 0; i < seconds.size(); ++i)
      costs_.seconds.emplace_back(graph_.entry().ops[i].name, seconds[i]);
    return std::move(costs_);
  }

 private:
  /// Seconds of every operation.
  const std::vector<double>& function(std::int32_t number) {
    std::optional<std::vector<double>>& known = cached_[at(number)];
    if (known) return *known;
    const GraphFunction& function = graph_.functions[at(number)];
    Costs closed = model_.forms.price_alone(graph_, function);
    costs_.missing.merge(closed.missing);
    std::vector<double> seconds;
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      worked(128);
      seconds.push_back(seconds_of(function, function.ops[i], closed.rows[i]));
    }
    return known.emplace(std::move(seconds));
  }

  double seconds_of(const GraphFunction& function, const Op& op, const Cost& closed) {
    const bool runs =
        op.kind == Kind::call || op.kind == Kind::while_loop || op.kind == Kind::branch || op.kind == Kind::fused;
    if (runs && !op.functions.empty()) return control(op);
    const bool streams = serial_axes(op.kind) || op.kind == Kind::iota || closed.lacking;
    return std::max(streams ? stream(function, op) : closed.seconds, roofline(function, op));
  }

  double control(const Op& op) {
    double sum = 0, longest = 0;
    for (const std::int32_t callee : op.functions) {
      double body = 0;
      for (const double seconds : function(callee)) body += seconds;
      sum += body;
      longest = std::max(longest, body);
    }
    if (op.kind == Kind::branch) return longest;
    if (op.kind != Kind::while_loop) return sum;
    std::int64_t trips = op.attributes.integer("trips", 0);
    if (trips <= 0) {
      costs_.notes.insert(op.name + ": the number of trips is not known, one is counted");
      trips = 1;
    }
    return sum * static_cast<double>(trips);
  }

  /// The least time that peak rates permit: bytes / bandwidth, or arithmetic / its rate.
  double roofline(const GraphFunction& function, const Op& op) const {
    if (op.kind == Kind::reshape || op.kind == Kind::bitcast || op.kind == Kind::constant) return 0;
    const Flops work = flops(graph_, function, op);
    const DType dtype = op.results.empty() ? DType::f32 : function.value(op.results[0]).type.dtype;
    const double lanes = std::max(model_.vector.at(dtype), model_.vector.at(DType::f32));
    const double moved =
        static_cast<double>(compulsory_bytes(graph_, function, op)) / model_.forms.memory_bytes_per_second;
    return std::max({moved, work.matrix / model_.matrix_flops_per_second, (work.total() - work.matrix) / lanes});
  }

  /// Launch, plus the longer of arithmetic at half the usable units' peak, and bytes at the memory's usual rate.
  double stream(const GraphFunction& function, const Op& op) {
    const StreamConstants& shares = model_.forms.copy;
    const double all = model_.forms.units;
    double alike = all;
    if (const auto own = serial_axes(op.kind)) {
      Shape shape;
      if (!op.operands.empty() && op.operands[0] != no_value) shape = function.value(op.operands[0]).type.shape;
      shape.resize(shape.size() - std::min(shape.size(), *own));
      alike = static_cast<double>(element_count(shape));
    }
    const double units = std::max(1.0, std::min(all, alike));
    const double rate = model_.vector.at(DType::f32) * shares.lanes_share * units / all;
    const double moved = static_cast<double>(compulsory_bytes(graph_, function, op)) /
                         (model_.forms.memory_bytes_per_second * shares.memory_share);
    costs_.notes.insert(std::string(info(op.kind).name) + ": without a closed form; " + percent(shares.lanes_share) +
                        " of the peak rate of " + std::to_string(static_cast<std::int64_t>(units)) + " " + model_.unit +
                        (units > 1 ? "s, " : ", ") + percent(shares.memory_share) + " of the memory's");
    return shares.launch + std::max(flops(graph_, function, op).total() / rate, moved);
  }

  const HostModel& model_;
  const Graph& graph_;
  HostCosts costs_;
  std::vector<std::optional<std::vector<double>>> cached_;
};

}  // namespace

HostCosts HostModel::price(const Graph& graph) const { return HostPricer(*this, graph).run(); }

}  // namespace tilesim::analytic
