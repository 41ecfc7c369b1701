#include "tilesim/tile/vector_work.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/tile/vector_form.hpp"

namespace tilesim {

namespace {

using F = Function;
using Op = VectorNode::Op;
namespace at_place = vector_count;

/// Instructions of a node by class, on its dependence chain, and waiting for a mask of the previous instruction.
struct NodeCost {
  int simple = 0, multiply = 0, divide = 0, transcendental = 0;
  int chain = 1, masks = 0;
};

constexpr NodeCost moved{1}, compared{3, 0, 0, 0, 2, 1};

NodeCost by_class(FlopClass kind) {
  switch (kind) {
    case FlopClass::divide:
      return {0, 0, 1};
    case FlopClass::transcendental:
      return {0, 0, 0, 1};
    case FlopClass::multiply:
      return {0, 1};
    default:
      return {1};
  }
}

/// Cost of a function in kernels (isa/kernel/vector_writer.cpp).
NodeCost cost_of(Function function, bool floating) {
  switch (function) {
    case F::select:
      return {2, 0, 0, 0, 2, 1};
    case F::clamp:
      return {2, 0, 0, 0, 2};
    case F::fma:
      return {1, 1, 0, 0, 2};
    case F::abs:
      return floating ? moved : NodeCost{2, 0, 0, 0, 2};
    case F::reciprocal:
      return {1, 0, 1};  // divides a register of ones
    case F::sqrt:
    case F::divide:
      return {0, 0, 1};
    case F::round_even:
    case F::trunc:
      return floating ? NodeCost{6, 0, 0, 0, 5, 1} : moved;
    case F::add:
    case F::subtract:
      return floating ? NodeCost{0, 1} : moved;
    case F::multiply:
      return {0, 1};
    case F::identity:
    case F::negate:
    case F::relu:
    case F::maximum:
    case F::minimum:
      return moved;
    default:
      return info(function).returns_boolean ? compared : by_class(info(function).flop_class);
  }
}

NodeCost cost_of_conversion(bool from_float, DType to) {
  if (from_float && !is_float(to)) return {3, 0, 0, 0, 2, 1};
  const int changed = from_float != is_float(to) ? 1 : 0, rounded = is_float(to) && bits(to) <= 16 ? 2 : 0;
  const int all = std::max(1, changed + rounded);
  return {all, 0, 0, 0, all};
}

std::uint8_t width_of(DType dtype) {
  return static_cast<std::uint8_t>(bits(dtype) >= 32 ? 0 : bits(dtype) == 16 ? 1 : 2);
}

/// Counts nodes; times are numbers of dependent instructions.
class Counter {
 public:
  Counter(std::span<const VectorNode> nodes, std::span<const VectorRead> reads, std::span<const VectorWrite> writes,
          const std::vector<Function>& taken)
      : nodes_(nodes), reads_(reads), writes_(writes), taken_(taken), states_(nodes.size()) {}

  VectorPattern count_all() {
    find_needed();
    if (!counted()) return {};
    const auto is_f64 = [](const auto& one) { return one.dtype == DType::f64; };
    all_wide_ =
        std::any_of(reads_.begin(), reads_.end(), is_f64) || std::any_of(writes_.begin(), writes_.end(), is_f64);
    find_conditions();
    for (std::size_t i = 0; i < nodes_.size(); ++i) take(i);
    for (const VectorWrite& write : writes_) take(write);
    for (std::size_t i = nodes_.size(); i-- > 0;) follow(i);
    find_lives();
    for (const VectorPattern::Operand& operand : pattern_.operands)
      lengthen(operand.chain + (operand.width > 0 ? 1 : 0));
    at(at_place::known) = filled_ > at(at_place::chain) ? 2 : 1;
    return std::move(pattern_);
  }

 private:
  struct Node {
    bool needed = false, floating = false, hoisted = false, loaded = false;
    bool wide = false;                 ///< 64 bits: two registers per value
    bool condition = false;            ///< a comparison that its selects evaluate
    int start = 0, time = 0;           ///< start of its first instruction; time of its value
    int first = INT32_MAX, last = -1;  ///< first and last use
    int behind = 0;                    ///< instructions from its value to a result
    int operand = -1;
  };

  /// Whether moves are counted. Running sums, and types without kernels, have closed forms without moves.
  bool counted() const {
    const auto other = [](DType dtype) { return bits(dtype) > 64 || value_bits(dtype) < 8 || is_two_of_four(dtype); };
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].op == Op::scan) return false;
      const bool reads = states_[i].needed && nodes_[i].op == Op::input;
      // the range of an integer determines its width in registers; a loaded value may have any
      const bool ranged = reads && is_integer(reads_[static_cast<std::size_t>(nodes_[i].index)].dtype) &&
                          bits(reads_[static_cast<std::size_t>(nodes_[i].index)].dtype) > 32;
      if (ranged) return false;
      if (reads && other(reads_[static_cast<std::size_t>(nodes_[i].index)].dtype)) return false;
    }
    return std::none_of(writes_.begin(), writes_.end(), [&](const VectorWrite& write) { return other(write.dtype); });
  }
  std::uint16_t& at(std::size_t which) { return pattern_.moves.counts[which]; }
  void add(std::size_t which, int more) {
    at(which) = static_cast<std::uint16_t>(std::min<int>(UINT16_MAX, at(which) + more));
  }
  Node& node_at(int node) { return states_[static_cast<std::size_t>(node)]; }

  void find_needed() {
    for (const VectorWrite& write : writes_) node_at(write.node).needed = true;
    for (std::size_t i = nodes_.size(); i-- > 0;)
      if (states_[i].needed)
        for (const int argument : nodes_[i].arguments)
          if (argument >= 0) node_at(argument).needed = true;
  }

  bool compares(const VectorNode& node) const {
    return node.op == Op::function && node.function >= F::equal && node.function <= F::greater_equal &&
           std::find(taken_.begin(), taken_.end(), node.function) == taken_.end();
  }
  bool selects(const VectorNode& node) const {
    return node.op == Op::function && node.function == F::select && node.dtype != DType::boolean &&
           std::find(taken_.begin(), taken_.end(), F::select) == taken_.end();
  }

  /// As in kernels: a comparison that only selects use leaves a mask, and no value.
  void find_conditions() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) states_[i].condition = states_[i].needed && compares(nodes_[i]);
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (std::size_t a = 0; states_[i].needed && a < 3; ++a)
        if (const int argument = nodes_[i].arguments[a]; argument >= 0 && (a > 0 || !selects(nodes_[i])))
          node_at(argument).condition = false;
    for (const VectorWrite& write : writes_) node_at(write.node).condition = false;
  }

  void load(Node& node, DType dtype, std::uint32_t dims) {
    node.floating = is_float(dtype), node.loaded = true;
    node.wide = bits(dtype) > 32 || (node.floating && all_wide_);
    node.operand = static_cast<int>(pattern_.operands.size());
    for (int i = 0; i < (bits(dtype) > 32 ? 2 : 1); ++i) pattern_.operands.push_back({dims, width_of(dtype), 0});
    if (node.wide && bits(dtype) <= 32) widen(node);
  }

  /// Converts a value from 32 to 64 bits.
  void widen(Node& node) { ++node.time, add(at_place::instructions, 2); }

  void take(std::size_t i) {
    const VectorNode& node = nodes_[i];
    Node& mine = states_[i];
    if (!mine.needed || mine.condition) return;
    if (node.op == Op::constant || node.op == Op::scalar) {
      mine.floating = is_float(node.dtype), mine.hoisted = true;
      const double most = node.op == Op::constant ? std::abs(node.number) : 0;
      mine.wide = mine.floating ? all_wide_ : most >= 2147483648.0;
      return add(at_place::constants, mine.wide ? 2 : 1);
    }
    if (node.op == Op::input) {
      const VectorRead& read = reads_[static_cast<std::size_t>(node.index)];
      return load(mine, read.dtype, read.dims);
    }
    if (node.op == Op::iota) return load(mine, DType::i32, ~std::uint32_t{0});
    const bool select = node.op == Op::function && node.function == F::select;
    int mixed = 0;
    bool floating = false, wide = false;
    for_arguments(node, [&](int a, bool decides) {
      wide |= node_at(a).wide;
      mine.start = std::max(mine.start, node_at(a).time);
      floating |= node_at(a).floating && !decides;
    });
    for (std::size_t a = select ? 1 : 0; a < 3; ++a)
      mixed += node.arguments[a] >= 0 && node_at(node.arguments[a]).floating != floating ? 1 : 0;
    const bool narrows = node.op == Op::convert && bits(node.dtype) <= 32;
    const bool boolean = node.op == Op::function && info(node.function).returns_boolean;
    mine.wide = (wide && !narrows && !boolean) || (is_float(node.dtype) && node.op == Op::convert && all_wide_);
    twice_ = wide || mine.wide;
    work(node, mine, floating, mixed > 0);
    for_arguments(node, [&](int a, bool) { use(a, mine.start); });
  }

  /// Visits a node's arguments; for a condition, those of its comparison. `decides`: not part of the result.
  template <class Act>
  void for_arguments(const VectorNode& node, Act act) {
    for (std::size_t a = 0; a < 3; ++a) {
      const int argument = node.arguments[a];
      if (argument < 0) continue;
      const bool decides = a == 0 && node.op == Op::function && node.function == F::select;
      if (!node_at(argument).condition) {
        act(argument, decides);
        continue;
      }
      for (const int operand : nodes_[static_cast<std::size_t>(argument)].arguments)
        if (operand >= 0) act(operand, true);
    }
  }

  void use(int node, int time) {
    if (node < 0) return;
    node_at(node).first = std::min(node_at(node).first, time), node_at(node).last = std::max(node_at(node).last, time);
  }

  void work(const VectorNode& node, Node& mine, bool floating, bool mixed) {
    NodeCost cost;
    if (node.op == Op::convert) {
      mine.floating = is_float(node.dtype);
      cost = cost_of_conversion(floating, node.dtype);
    } else {
      const bool own = std::find(taken_.begin(), taken_.end(), node.function) != taken_.end();
      cost = own ? NodeCost{} : cost_of(node.function, floating);
      mine.floating = floating && !info(node.function).returns_boolean;
      if (mixed) ++cost.simple, ++cost.chain;
      if (node.function == F::relu && floating && !has_zero_) has_zero_ = true, add(at_place::constants, 1);
    }
    mine.time = mine.start + cost.chain;
    if (twice_) cost.simple *= 2, cost.multiply *= 2, cost.divide *= 2, cost.transcendental *= 2;
    add(at_place::instructions, cost.simple), add(at_place::instructions + 1, cost.multiply);
    add(at_place::instructions + 2, cost.divide), add(at_place::instructions + 3, cost.transcendental);
    add(at_place::masks, cost.masks);
  }

  void take(const VectorWrite& write) {
    const bool combined = write.combined != 0, floating = is_float(write.dtype);
    pattern_.combined |= write.combined;
    const std::size_t width = width_of(write.dtype), kind = width == 2 && !floating ? 3 : width;
    const int registers = bits(write.dtype) > 32 ? 2 : 1;
    add(at_place::store(combined, kind), registers);
    int time = node_at(write.node).time;
    if (node_at(write.node).floating != floating && node_at(write.node).floating)
      add(at_place::instructions, 3), add(at_place::masks, 1), time += 2;
    else if (node_at(write.node).floating != floating)
      add(at_place::instructions, 1), time += 1;
    else if (write.dtype == DType::boolean)
      add(at_place::instructions, 3), add(at_place::masks, 1), time += 2;
    use(write.node, time);
    if (!combined) time += kind == 3 ? 2 : kind > 0 ? 1 : 0;
    lengthen(time);
    node_at(write.node).behind = std::max(node_at(write.node).behind, time - node_at(write.node).time);
    const bool multiplies = floating && (write.combiner == Combiner::add || write.combiner == Combiner::multiply);
    if (combined) add(at_place::combines + (multiplies ? 1 : 0), registers);
    if (combined && floating && write.combiner == Combiner::multiply) add(at_place::products, registers);
    if (write.accumulate) add(at_place::accumulates, 1);
  }

  void lengthen(int chain) {
    at(at_place::chain) = std::max(at(at_place::chain), static_cast<std::uint16_t>(std::min<int>(UINT16_MAX, chain)));
  }

  /// Updates the distance to a result of a node's arguments.
  void follow(std::size_t i) {
    const Node& mine = states_[i];
    if (!mine.needed || mine.condition) return;
    const bool of_zeros = nodes_[i].op == Op::function && nodes_[i].function == F::relu && mine.floating;
    if (mine.hoisted) filled_ = std::max(filled_, 1 + mine.behind);
    if (of_zeros) filled_ = std::max(filled_, 1 + mine.behind + mine.time - mine.start);
    for_arguments(nodes_[i], [&](int argument, bool) {
      node_at(argument).behind = std::max(node_at(argument).behind, mine.behind + mine.time - mine.start);
    });
    if (mine.operand >= 0)
      pattern_.operands[static_cast<std::size_t>(mine.operand)].chain = static_cast<std::uint16_t>(mine.behind);
  }

  void find_lives() {
    std::vector<int> alive(static_cast<std::size_t>(at(at_place::chain)) + 4, 0);
    for (const Node& node : states_) {
      if (!node.needed || node.condition || node.hoisted || node.last < 0) continue;
      const int begin = node.loaded ? node.first : node.time - 1;
      add(at_place::lives, (node.wide ? 2 : 1) * std::max(0, node.last - begin));
      at(at_place::longest) =
          std::max<std::uint16_t>(at(at_place::longest), static_cast<std::uint16_t>(node.last - begin));
      for (int t = std::max(0, begin); t <= node.last && t < std::ssize(alive); ++t)
        alive[static_cast<std::size_t>(t)] += node.wide ? 2 : 1;
    }
    at(at_place::live) = static_cast<std::uint16_t>(*std::max_element(alive.begin(), alive.end()));
  }

  std::span<const VectorNode> nodes_;
  std::span<const VectorRead> reads_;
  std::span<const VectorWrite> writes_;
  const std::vector<Function>& taken_;
  std::vector<Node> states_;
  VectorPattern pattern_;
  bool has_zero_ = false;
  bool all_wide_ = false;  ///< one f64 makes all floats f64
  bool twice_ = false;     ///< instructions of the current node take two registers per value
  int filled_ = 0;         ///< length of the longest chain that begins by filling a register
};

}  // namespace

VectorPattern pattern_of(std::span<const VectorNode> nodes, std::span<const VectorRead> reads,
                         std::span<const VectorWrite> writes, const std::vector<Function>& taken) {
  return Counter(nodes, reads, writes, taken).count_all();
}

void add_moves(Descriptor& d, const VectorPattern& pattern, std::span<const std::int64_t> extents, int lane) {
  if (!pattern.known()) return;
  std::uint32_t there = 0;
  for (std::size_t i = 0; i < extents.size() && i < 32; ++i) there |= extents[i] > 1 ? std::uint32_t{1} << i : 0;
  const int over = lane >= 0 ? lane : static_cast<int>(extents.size()) - 1;
  const std::uint32_t along = over >= 0 ? std::uint32_t{1} << over : 0;
  std::uint32_t combined = pattern.combined & ~along, of_rows = 0;
  // as kernels share spread operands (isa/kernel/vector_form.cpp)
  for (const VectorPattern::Operand& operand : pattern.operands)
    if ((operand.dims & there & along) == 0) of_rows |= operand.dims & there;
  if (pattern.combined == 0 && of_rows != 0) combined = there & ~along & ~of_rows;
  for (std::size_t i = 0; i < extents.size() && i < 32; ++i)
    if (combined >> i & 1) d.combined *= std::max<std::int64_t>(1, extents[i]);
  d.moves = pattern.moves;
  d.moves.counts[at_place::lanes_combined] = (pattern.combined & along) != 0 ? 1 : 0;
  for (std::size_t i = 0; i < pattern.operands.size(); ++i) {
    const VectorPattern::Operand& operand = pattern.operands[i];
    const std::uint32_t differs = operand.dims & there;
    unsigned where = (differs & along) != 0 ? VectorForm::along_lanes : 0;
    if ((differs & combined) != 0) where |= VectorForm::along_combined;
    if ((differs & ~combined & ~along) != 0) where |= VectorForm::along_kept;
    ++d.moves.counts[at_place::load(where, operand.width)];
    if ((differs & along) != 0 || differs == 0) continue;
    d.moves.counts[at_place::spread_chain] = std::max(d.moves.counts[at_place::spread_chain], operand.chain);
  }
}

}  // namespace tilesim
