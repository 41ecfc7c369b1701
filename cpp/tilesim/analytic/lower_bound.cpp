#include "tilesim/analytic/lower_bound.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "tilesim/analytic/least_work.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/base/widening.hpp"
#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes.hpp"
#include "tilesim/graph/passes/sparse_plan.hpp"
#include "tilesim/graph/passes/two_of_four.hpp"
#include "tilesim/graph/passes/zero_tiles.hpp"

namespace tilesim::analytic {

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

double bytes_of(DType dtype) { return static_cast<double>(bits(dtype)) / 8; }

double size(const TensorType& type) { return static_cast<double>(packed_bytes(type.dtype, element_count(type.shape))); }

/// Seconds of one operation on each unit of a chip, if all units of this type work on it.
class ChipLimits {
 public:
  virtual ~ChipLimits() = default;
  virtual double array(const LeastProduct& product) const = 0;  ///< infinite: no array multiplies this type
  virtual double vector(const LeastFunctions& functions, DType dtype) const = 0;
  virtual double chip_bytes() const = 0;   ///< all memory on the chip; 0: not given
  virtual double cache_bytes() const = 0;  ///< part of it that may keep results after the end
  virtual double bytes_per_second() const = 0;
  virtual bool skips_zeros() const { return false; }         ///< whether a multiplier skips zeros
  virtual bool takes_pattern(DType) const { return false; }  ///< whether arrays multiply 2:4 weights directly
};

/// Number of full tiles [rows, columns] to process, if one side is stationary and the other streams.
double array_passes(const LeastProduct& p, double across, const ArraySpec& array) {
  const auto rows = static_cast<double>(array.rows), columns = static_cast<double>(array.columns);
  if (p.packs && p.batch > 1)  // groups may share a tile, limited by inputs, outputs and cells
    return std::max({1.0, p.batch * p.k / rows, p.batch * across / columns, p.batch * p.k * across / (rows * columns)});
  return p.batch * std::ceil(p.k / rows) * std::ceil(across / columns);
}

/// Rate of the dtype, or of the fastest dtype that represents all its values; 0: there is none.
double best_rate(const ArraySpec& array, DType dtype) {
  if (const auto own = array.rates.find(dtype); own != array.rates.end() && own->second > 0) return own->second;
  double best = 0;
  for (const auto& [wide, rate] : array.rates)
    if (is_float(wide) == is_float(dtype) && holds_narrow(wide, dtype)) best = std::max(best, rate);
  return best;
}

double array_cycles(const LeastProduct& p, const ArraySpec& array) {
  const double rate = best_rate(array, p.dtype);
  if (array.count < 1 || !(rate > 0)) return never;
  if (array.sparse.present())
    return p.multiply_adds() / (rate * static_cast<double>(array.sparse.multipliers * array.count));
  const auto rows = static_cast<double>(array.rows), columns = static_cast<double>(array.columns);
  double cycles = 0;
  if (array.dataflow == Dataflow::output_stationary) {
    const double tiles =
        std::min(std::ceil(p.m / rows) * std::ceil(p.n / columns), std::ceil(p.n / rows) * std::ceil(p.m / columns));
    const double cells =
        p.packs && p.batch > 1 ? std::max(1.0, p.batch * p.m * p.n / (rows * columns)) : p.batch * tiles;
    cycles = cells * p.k / rate;
  } else {
    const double load = std::ceil(rows / static_cast<double>(std::max<std::int64_t>(1, array.weight_rows_per_cycle)));
    const auto held = [&](double across, double moving) {
      return array_passes(p, across, array) * std::max(moving / rate, load);
    };
    cycles = std::min(held(p.n, p.m), held(p.m, p.n));
  }
  return cycles * p.visible / static_cast<double>(array.count);
}

double vector_cycles(const LeastFunctions& functions, DType dtype, const VectorSpec& vector) {
  // An addition may run as a multiply-add, and a product as a division, so the cheaper of both counts.
  const double product = std::min(vector.multiply, vector.divide), sum = std::min(vector.simple, vector.multiply);
  const double costs[] = {sum, product, vector.divide, vector.transcendental};
  double cycles = 0;
  for (std::size_t i = 0; i < functions.size(); ++i) cycles += functions[i] * costs[i];
  const double packed = vector.packs_narrow && bits(dtype) < 32 ? 32.0 / std::max(8, bits(dtype)) : 1;
  return cycles / (static_cast<double>(vector.lanes * vector.sublanes * vector.issue) * packed);
}

/// All cores work at the same time. With several core types, every core counts as the best type.
class MachineLimits final : public ChipLimits {
 public:
  explicit MachineLimits(const Machine& machine) : machine_(machine) {
    if (machine.sorts.empty()) sorts_.push_back(&machine.core);
    for (const CoreSort& sort : machine.sorts) sorts_.push_back(&sort.core);
    for (const CoreSpec* sort : sorts_) cores_ += static_cast<double>(sort->count);
  }

  double array(const LeastProduct& product) const override {
    return least([&](const CoreSpec& core) { return array_cycles(product, core.array); });
  }
  bool skips_zeros() const override {
    return std::ranges::any_of(sorts_, [](const CoreSpec* core) { return core->array.sparse.present(); });
  }
  double vector(const LeastFunctions& functions, DType dtype) const override {
    return least([&](const CoreSpec& core) { return vector_cycles(functions, dtype, core.vector); });
  }
  double chip_bytes() const override {
    double bytes = cache_bytes();
    for (const CoreSpec* sort : sorts_)
      bytes += static_cast<double>(sort->count) *
               static_cast<double>(sort->scratchpad.bytes + sort->scratchpad.accumulator_bytes);
    return bytes;
  }
  double cache_bytes() const override {
    return static_cast<double>(machine_.memory.cache.bytes()) * static_cast<double>(machine_.memory.channels);
  }
  /// Achievable bandwidth; with simulated banks the peak, because it depends on rows and refresh. At least one byte per
  /// second and channel.
  double bytes_per_second() const override {
    const MemorySpec& memory = machine_.memory;
    const double share = memory.kind == "bank" ? 1 : memory.efficiency;
    return std::max(static_cast<double>(memory.bytes_per_second) * share, static_cast<double>(memory.channels));
  }

  bool takes_pattern(DType dtype) const override {
    return std::ranges::any_of(sorts_, [&](const CoreSpec* sort) {
      const auto rate = sort->array.rates.find(dtype);
      return sort->array.two_of_four && sort->array.count > 0 && rate != sort->array.rates.end() && rate->second > 0;
    });
  }

 private:
  template <class Cycles>
  double least(Cycles cycles) const {
    double seconds = never;
    for (const CoreSpec* sort : sorts_)
      seconds = std::min(seconds, cycles(*sort) / static_cast<double>(sort->clock.hertz) / cores_);
    return seconds;
  }

  const Machine& machine_;
  std::vector<const CoreSpec*> sorts_;
  double cores_ = 0;
};

class DeviceLimits final : public ChipLimits {
 public:
  explicit DeviceLimits(const Device& device) : device_(device) {}
  double array(const LeastProduct& product) const override {
    const double rate = device_.matrix_flops_per_second(product.dtype);
    return rate > 0 ? 2 * product.multiply_adds() / rate : never;
  }
  double vector(const LeastFunctions& functions, DType dtype) const override {
    const double rate = device_.vector_flops_per_second(dtype);
    return rate > 0 ? (functions[0] + functions[1] + functions[2] + functions[3]) / rate : 0;
  }
  double chip_bytes() const override { return 0; }
  double cache_bytes() const override { return 0; }
  double bytes_per_second() const override { return device_.memory_bytes_per_second; }

 private:
  const Device& device_;
};

/// Least traffic of products with `chip` bytes on the chip: in a phase of 2 S word transfers, at most S^1.5
/// multiply-adds have all their operands (Hong, Kung, "I/O complexity: the red-blue pebble game", 1981). If a side need
/// not cross memory, the limit is (2 S)^2 / the extent of the dimension that the two other sides share.
double traffic(const LeastProduct& p, double chip, bool operands_stored, bool result_stored) {
  const double word = bytes_of(p.dtype), s = chip / word;
  if (!(s > 0)) return 0;
  double per_multiply_add = 2 / std::sqrt(s);
  const double shared = !operands_stored && !result_stored ? std::max(p.k, p.n) : !operands_stored ? p.n : p.k;
  if (!operands_stored || !result_stored) per_multiply_add = std::min(per_multiply_add, shared / (2 * s));
  return per_multiply_add * p.multiply_adds() / std::sqrt(p.overlap) * word;
}

/// Sums over all operations of a graph whose calls are inlined.
class GraphBound {
 public:
  GraphBound(const Graph& graph, const ChipLimits& limits, LowerBound& to) : graph_(graph), limits_(limits), to_(to) {}

  struct Choice { double array, vector; };  ///< seconds of a product that either unit can compute

  /// Assigns products to the faster unit, then moves some from the vector unit to the arrays while time falls.
  void settle() {
    std::ranges::sort(either_, {}, [](const Choice& c) { return c.array / c.vector; });
    for (const Choice& c : either_) {
      const double gap = to_.vector_seconds - to_.array_seconds;
      if (gap <= 0) break;
      const double share = std::min(1.0, gap / (c.array + c.vector));
      to_.vector_seconds -= share * c.vector;
      to_.array_seconds += share * c.array;
    }
  }

  double traffic_bytes() const { return traffic_; }

  void add(const GraphFunction& function, double times, bool entry) {
    std::vector<bool> known(function.values.size(), false);
    const std::vector<bool> from = stored_values(function, entry), to = leaving_values(function, entry);
    const std::vector<double> read = read_shares(graph_, function);
    for (const Op& op : function.ops) {
      worked(512);
      if (op.kind == Kind::while_loop) {
        const std::int64_t trips = op.attributes.integer("trips", 0);
        for (const std::int32_t callee : op.functions)
          add(graph_.functions[at(callee)], times * static_cast<double>(trips), false);
      } else if (op.kind == Kind::call || op.kind == Kind::fused) {
        for (const std::int32_t callee : op.functions) add(graph_.functions[at(callee)], times, false);
      } else if (op.kind != Kind::branch) {  // one side of a branch may be empty
        work(function, op, known, times, from, to, read[static_cast<std::size_t>(&op - function.ops.data())]);
      }
      if (!op.operands.empty() || op.kind == Kind::constant || op.kind == Kind::iota) follow(op, known);
    }
  }

 private:
  static void follow(const Op& op, std::vector<bool>& known) {
    const bool all = info(op.kind).effect == Effect::pure && op.functions.empty() &&
                     std::ranges::all_of(op.operands, [&](ValueId id) { return id == no_value || known[at(id)]; });
    for (const ValueId id : op.results)
      if (id != no_value) known[at(id)] = all;
  }

  static bool moves(const Op& op) { return info(op.kind).movement && op.functions.empty(); }

  /// Values that are in memory before the program begins, and views of them.
  static std::vector<bool> stored_values(const GraphFunction& function, bool entry) {
    std::vector<bool> stored(function.values.size(), false);
    if (entry)
      for (const ValueId id : function.inputs) stored[at(id)] = true;
    for (const Op& op : function.ops) {
      const bool is = op.kind == Kind::constant ||
                      (moves(op) && !op.operands.empty() && op.operands[0] != no_value && stored[at(op.operands[0])]);
      for (const ValueId id : op.results)
        if (id != no_value) stored[at(id)] = is;
    }
    return stored;
  }

  /// Values that are in memory at the end without a copy.
  static std::vector<bool> leaving_values(const GraphFunction& function, bool entry) {
    std::vector<bool> leaves(function.values.size(), false);
    if (!entry) return leaves;
    for (const ValueId id : function.outputs) leaves[at(id)] = true;
    for (std::size_t i = function.ops.size(); i-- > 0;) {
      const Op& op = function.ops[i];
      if ((op.kind == Kind::reshape || op.kind == Kind::transpose) && leaves[at(op.results[0])])
        leaves[at(op.operands[0])] = true;
    }
    return leaves;
  }

  void work(const GraphFunction& function, const Op& op, const std::vector<bool>& known, double times,
            const std::vector<bool>& stored, const std::vector<bool>& leaving, double read) {
    if (!(times > 0)) return;
    LeastWork least = least_work(graph_, function, op, known);
    for (double& count : least.functions) count *= read;  // unread elements need not be computed
    if (const int zeros = zero_tiles_of(op).operand; zeros >= 0)
      for (LeastProduct& product : least.products) product.batch *= share_left(graph_, function, op, zeros);
    // If zeros depend on data, any number of elements may be zero.
    if (const auto plan = limits_.skips_zeros() ? sparse_plan_of(graph_, op) : std::nullopt; plan)
      for (LeastProduct& product : least.products)
        product.batch *= std::max(0.0, static_cast<double>(plan->products)) / (product.m * product.n * product.k);
    BoundRow row{op.name, std::string(info(op.kind).name), times};
    const bool from = op.kind != Kind::attention && op.operands.size() > 1 && op.operands[0] != no_value &&
                      op.operands[1] != no_value && stored[at(op.operands[0])] && stored[at(op.operands[1])];
    // Scores of an attention need not leave the chip, so its products move compulsory bytes only.
    for (const LeastProduct& product : least.products) {
      if (!(product.multiply_adds() > 0)) continue;
      row.multiply_adds += times * product.multiply_adds();
      const LeastFunctions adds{product.multiply_adds(), product.multiply_adds(), 0, 0};
      const Choice choice{times * limits_.array(product), times * limits_.vector(adds, product.dtype)};
      const bool lanes = choice.vector < choice.array;
      (lanes ? row.vector_seconds : row.array_seconds) += std::min(choice.array, choice.vector);
      (lanes ? to_.vector_seconds : to_.array_seconds) += std::min(choice.array, choice.vector);
      if (lanes && choice.array < never) either_.push_back(choice);
      if (op.kind != Kind::attention)
        traffic_ += times * traffic(product, limits_.chip_bytes(), from, from && leaving[at(op.results[0])]);
    }
    const double lanes = times * limits_.vector(least.functions, least.dtype);
    row.vector_seconds += lanes;
    to_.vector_seconds += lanes;
    if (row.multiply_adds > 0 || row.vector_seconds > 0) to_.rows.push_back(std::move(row));
  }

  const Graph& graph_;
  const ChipLimits& limits_;
  LowerBound& to_;
  std::vector<Choice> either_;  ///< faster on the vector unit, but possible on arrays
  double traffic_ = 0;
};

/// Bytes of rows that indices select: all indices may be equal, and a cache may keep this row.
double rows_by_index(const Graph& graph) {
  double bytes = 0;
  for (const GraphFunction& function : graph.functions)
    for (const Op& op : function.ops)
      if (op.kind == Kind::gather || op.kind == Kind::embedding)
        bytes += std::min(size(function.value(op.operands[0]).type), size(function.value(op.results[0]).type));
  return bytes;
}

LowerBound bound(const Graph& graph, const ChipLimits& limits, const AttentionData& known) {
  Graph plain = graph;
  inline_calls(plain);
  know_attention_data(plain, known);
  remove_no_ops(plain);
  merge_common_subexpressions(plain);
  compress_two_of_four(plain, [&](const Op&, DType dtype) -> std::string {
    return limits.takes_pattern(dtype) ? "" : "the arrays do not take the pattern";
  });
  remove_dead_code(plain);
  LowerBound least;
  GraphBound sum(plain, limits, least);
  sum.add(plain.entry(), 1, true);
  sum.settle();
  double results = 0;
  for (const ValueId id : plain.entry().outputs) results += size(plain.entry().value(id).type);
  least.compulsory_bytes = static_cast<double>(compulsory_bytes(plain)) - std::min(results, limits.cache_bytes());
  if (limits.cache_bytes() > 0) least.compulsory_bytes -= rows_by_index(plain);
  least.compulsory_bytes = std::max(0.0, least.compulsory_bytes);
  least.capacity_bytes = std::max(0.0, sum.traffic_bytes() - 2 * limits.chip_bytes());
  least.bytes = std::max(least.compulsory_bytes, least.capacity_bytes);
  if (limits.bytes_per_second() > 0) least.memory_seconds = least.bytes / limits.bytes_per_second();
  least.seconds = std::max({least.array_seconds, least.vector_seconds, least.memory_seconds});
  return least;
}

}  // namespace

std::string_view LowerBound::part() const {
  if (!(seconds > 0)) return "none";
  if (seconds == memory_seconds) return "memory";
  return seconds == array_seconds ? "array" : "vector";
}

LowerBound lower_bound(const Graph& graph, const Machine& machine, const AttentionData& known) {
  return bound(graph, MachineLimits(machine), known);
}
LowerBound lower_bound(const Graph& graph, const Device& device, const AttentionData& known) {
  return bound(graph, DeviceLimits(device), known);
}

}  // namespace tilesim::analytic
