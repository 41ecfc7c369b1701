// Products with few results and a long contraction: each core sums a part of the contraction, then the parts are added.
#include <algorithm>
#include <cmath>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim::lower {

namespace {

/// Extents of a contraction, and bytes per element of a, b and the result.
struct Sizes {
  double batch = 1, m = 1, n = 1, k = 1;
  double a = 4, b = 4, c = 4;
  double rate = 1;  ///< multiply-adds per cell and cycle
};

struct Rates {
  double columns, cells;    ///< of one core's arrays
  double bytes_per_cycle;   ///< memory rate of the chip
  double port;              ///< bytes per cycle of a core's port
  bool multicast;           ///< data for several cores may leave the memory once
  double vector_per_cycle;  ///< additions of one core
  double hand_over;         ///< cycles from the last store of a kernel to the first load of the next
};

Rates rates_of(const Share& machine) {
  const ArraySpec& array = machine.core.array;
  const double hertz = static_cast<double>(machine.core.clock.hertz);
  // This machine's bandwidth is one core's share.
  const double bandwidth = static_cast<double>(machine.memory.bytes_per_second * machine.core.count);
  const VectorSpec& vector = machine.core.vector;
  return {static_cast<double>(std::max<std::int64_t>(1, array.columns)),
          static_cast<double>(std::max<std::int64_t>(1, array.count * array.rows * array.columns)),
          bandwidth * machine.memory.efficiency / hertz,
          std::min(port_rate(machine) / hertz, static_cast<double>(machine.core.dma.bytes_per_cycle)),
          multicasts(machine),
          static_cast<double>(vector.lanes * vector.sublanes * vector.issue) / vector.simple,
          2e-12 * static_cast<double>(machine.memory.latency_ps) * hertz +
              static_cast<double>(machine.core.kernel_launch_cycles + 3 * machine.network.latency_cycles)};
}

/// Cycles to move one core's parts of a, b and the results. `sharing_a`, `sharing_b`: cores that need the same part.
double moving(double a, double b, double c, double sharing_a, double sharing_b, double cores, const Rates& r) {
  const double alone = std::max(cores * (a + b + c) / r.bytes_per_cycle, (a + b + c) / r.port);
  if (!r.multicast || (sharing_a < 2 && sharing_b < 2)) return alone;
  // A core sends the parts that it fetched for others through its port; two cores alternate.
  const double sent = std::max(sharing_a > 1 ? a : 0, sharing_b > 1 ? b : 0) / 2;
  return std::min(
      alone, std::max(cores * (a / sharing_a + b / sharing_b + c) / r.bytes_per_cycle, (a + b + c + sent) / r.port));
}

/// Cycles on this many cores if the contraction is split into `parts`: the best grid of rows and columns for the rest.
double cycles(const Sizes& s, const Rates& r, std::int64_t cores, std::int64_t parts) {
  const auto cut = [](double extent, double by) { return std::ceil(extent / by); };
  const auto slices = static_cast<double>(parts);
  double best = 1e300;
  for (std::int64_t rows = 1; rows <= cores / parts; ++rows) {
    const double across = std::min(static_cast<double>(cores / parts / rows), std::ceil(s.n / r.columns));
    const double columns = std::ceil(s.n / across / r.columns) * r.columns, deep = cut(s.k, slices);
    const double groups = std::min(static_cast<double>(rows), s.batch * s.m);
    const double height = cut(s.batch * s.m, groups);
    const double batches = std::max(1.0, height / s.m);  // batches of one core
    const double width = s.n / across, used = slices * groups * across;
    const double work = height * columns * deep / (r.cells * s.rate);
    const double stored = height * width * (parts > 1 ? 4 : s.c);
    const double moved = moving(height * deep * s.a, batches * deep * width * s.b, stored, across,
                                std::max(1.0, groups / s.batch), used, r);
    double time = std::max(work, moved);
    if (parts > 1) {
      const double sums = slices * s.batch * s.m * s.n, results = s.batch * s.m * s.n * s.c;
      time += r.hand_over + std::max(sums / r.vector_per_cycle / static_cast<double>(cores),
                                     (4 * sums + results) / r.bytes_per_cycle);
    }
    best = std::min(best, time);
  }
  return best;
}

/// The number of parts that is clearly faster than one part; otherwise 1.
std::int64_t parts_of(const Sizes& s, const Share& machine) {
  const Rates rates = rates_of(machine);
  const auto k = static_cast<std::int64_t>(s.k);
  const double whole = cycles(s, rates, machine.core.count, 1);
  std::int64_t best = 1;
  double least = 0.9 * whole;
  for (std::int64_t parts = 2; parts <= std::min(machine.core.count, k); ++parts) {
    if (k % parts != 0) continue;
    const double time = cycles(s, rates, machine.core.count, parts);
    if (time < least) least = time, best = parts;
  }
  return best;
}

class Rewriter {
 public:
  Rewriter(GraphFunction& function, const Share& machine) : function_(function), machine_(machine), names_(function) {}

  void run() {
    for (Op& op : function_.ops) {
      const std::int64_t parts = op.kind == Kind::contract && zero_tiles_of(op).operand < 0 ? parts_for(op) : 1;
      if (parts > 1)
        rewrite(op, parts);
      else
        ops_.push_back(std::move(op));
    }
    function_.ops = std::move(ops_);
  }

 private:
  const TensorType& type(ValueId value) const { return function_.value(value).type; }

  static double bytes(DType dtype) { return std::max(1, bits(dtype)) / 8.0; }

  std::int64_t parts_for(const Op& op) const {
    const std::vector<std::int64_t> ka = op.attributes.integers("a_contract", {});
    const std::vector<std::int64_t> batch = op.attributes.integers("a_batch", {});
    if (ka.size() != 1 || ka[0] < 0) return 1;
    const TensorType &a = type(op.operands[0]), &b = type(op.operands[1]), &c = type(op.results[0]);
    if (is_two_of_four(b.dtype)) return 1;
    if (is_float(c.dtype) && bits(c.dtype) > 32) return 1;
    Sizes s;
    s.a = bytes(a.dtype), s.b = bytes(b.dtype), s.c = bytes(c.dtype);
    if (const auto rate = machine_.core.array.rates.find(a.dtype); rate != machine_.core.array.rates.end())
      s.rate = rate->second;
    s.k = static_cast<double>(a.shape[static_cast<std::size_t>(ka[0])]);
    for (std::int64_t axis : batch) {
      if (axis < 0) return 1;
      s.batch *= static_cast<double>(a.shape[static_cast<std::size_t>(axis)]);
    }
    s.m = static_cast<double>(element_count(a.shape)) / s.k / s.batch;
    s.n = static_cast<double>(element_count(b.shape)) / s.k / s.batch;
    return s.m * s.n * s.k * s.batch < 1 ? 1 : parts_of(s, machine_);
  }

  ValueId add(const Op& like, const std::string& stem, Kind kind, std::vector<ValueId> operands, Attributes attributes,
              TensorType result, ValueId as = no_value) {
    Op op;
    op.kind = kind;
    op.name = stem.empty() ? like.name : names_.taken(like.name + "." + stem);
    op.source = like.source;
    op.operands = std::move(operands);
    op.attributes = std::move(attributes);
    if (as == no_value) {
      function_.values.push_back({names_.taken(op.name + ".value"), std::move(result)});
      as = static_cast<ValueId>(function_.values.size()) - 1;
    }
    op.results = {as};
    ops_.push_back(std::move(op));
    return as;
  }

  /// Splits axis `axis` of extent k into two axes of extents `parts` and k / parts.
  ValueId split(const Op& op, const char* stem, ValueId value, std::int64_t axis, std::int64_t parts) {
    TensorType result = type(value);
    const auto at = result.shape.begin() + axis;
    *at /= parts;
    result.shape.insert(at, parts);
    Attributes attributes;
    attributes.set("shape", std::vector<std::int64_t>(result.shape.begin(), result.shape.end()));
    return add(op, stem, Kind::reshape, {value}, std::move(attributes), std::move(result));
  }

  static std::vector<std::int64_t> behind(std::vector<std::int64_t> axes, std::int64_t split_axis) {
    for (std::int64_t& axis : axes) axis += axis > split_axis;
    axes.insert(axes.begin(), split_axis);
    return axes;
  }

  ValueId convert(const Op& op, const char* stem, ValueId value, DType dtype, ValueId as = no_value) {
    Attributes attributes;
    attributes.set("dtype", dtype);
    return add(op, stem, Kind::convert, {value}, std::move(attributes), {dtype, type(value).shape}, as);
  }

  void rewrite(const Op& op, std::int64_t parts) {
    const std::int64_t ka = op.attributes.integers("a_contract")[0], kb = op.attributes.integers("b_contract")[0];
    const TensorType result = type(op.results[0]);
    const DType sum = is_float(result.dtype) ? DType::f32 : result.dtype;
    const ValueId a = split(op, "a", op.operands[0], ka, parts), b = split(op, "b", op.operands[1], kb, parts);
    Attributes product = op.attributes;
    product.set("a_batch", behind(op.attributes.integers("a_batch", {}), ka));
    product.set("b_batch", behind(op.attributes.integers("b_batch", {}), kb));
    product.set("a_contract", std::vector<std::int64_t>{ka + 1});
    product.set("b_contract", std::vector<std::int64_t>{kb + 1});
    product.set("dtype", sum);
    TensorType partial{sum, result.shape};
    partial.shape.insert(partial.shape.begin(), parts);
    const ValueId sums = add(op, "", Kind::contract, {a, b}, std::move(product), std::move(partial));
    Attributes reduce;
    reduce.set("dims", std::vector<std::int64_t>{0});
    reduce.set("combiner", std::string("add"));
    const bool bias = op.operands.size() > 2 && op.operands[2] != no_value;
    const bool converts = sum != result.dtype;
    ValueId y = add(op, "sum", Kind::reduce, {sums}, std::move(reduce), {sum, result.shape},
                    bias || converts ? no_value : op.results[0]);
    if (bias) {
      ValueId added = op.operands[2];
      if (type(added).dtype != sum) added = convert(op, "bias", added, sum);
      Attributes attributes;
      attributes.set("function", std::string("add"));
      y = add(op, "biased", Kind::elementwise, {y, added}, std::move(attributes), {sum, result.shape},
              converts ? no_value : op.results[0]);
    }
    if (converts) convert(op, "rounded", y, result.dtype, op.results[0]);
  }

  GraphFunction& function_;
  const Share& machine_;
  edit::Names names_;
  std::vector<Op> ops_;
};

}  // namespace

void divide_contractions(Graph& graph, const Share& machine) {
  if (machine.core.count < 2 || !machine.layout.tile.empty() || machine.core.array.count == 0) return;
  if (!machine.sorts.empty()) return;  // parts are equal, but core types differ in speed
  for (GraphFunction& function : graph.functions) Rewriter(function, machine).run();
}

}  // namespace tilesim::lower
