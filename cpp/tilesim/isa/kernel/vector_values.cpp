#include "tilesim/isa/kernel/vector_values.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace tilesim::isa {

namespace {

bool of_64_bits(DType dtype) { return dtype == DType::i64 || dtype == DType::u64 || dtype == DType::f64; }

bool has_scans(const VectorCompute& compute) {
  return std::ranges::any_of(compute.nodes, [](const VectorNode& node) { return node.op == VectorNode::Op::scan; });
}

bool in_32_bits(const Numbers& numbers) { return numbers.fits(Held::integer) || numbers.fits(Held::natural); }

/// The 32-bit representation for a range.
Held narrow(const Numbers& numbers) {
  return !numbers.fits(Held::integer) && numbers.fits(Held::natural) ? Held::natural : Held::integer;
}

/// Range of integer parts of floats in a range; NaN and floats beyond all bounds give 0.
Numbers truncated(const NodeValue& value) {
  constexpr double limit = 9.2e18;
  if (!(std::abs(value.least) < limit) || !(std::abs(value.most) < limit)) return {};
  return either({0, 0}, {static_cast<std::int64_t>(value.least), static_cast<std::int64_t>(value.most)});
}

/// Range of program scalars, which are positions in tensors; writing a kernel checks larger ones.
constexpr Numbers of_scalars{-(std::int64_t{1} << 30), std::int64_t{1} << 30};

int first_operand(const VectorNode& node) { return node.function == Function::select ? 1 : 0; }

}  // namespace

Held held_as(DType dtype) {
  if (is_float(dtype)) return dtype == DType::f64 ? Held::real : Held::floating;
  if (of_64_bits(dtype)) return Held::wide;
  return dtype == DType::u32 ? Held::natural : Held::integer;
}

TypedCompute::TypedCompute(const VectorCompute& compute) : compute_(compute) {
  for (const TileView& input : compute.inputs) real_ = real_ || input.dtype == DType::f64;
  for (const VectorOutput& output : compute.outputs) real_ = real_ || output.view.dtype == DType::f64;
  take_kinds();
  take_ranges();
  if (has_scans(compute)) {
    as_stored();
    return;
  }
  take_needs();
  take_widths();
  for (const NodeValue& value : values_) bits_ = std::max({bits_, bits_of(value.held), bits_of(value.work)});
  for (const Held total : totals_) bits_ = std::max(bits_, bits_of(total));
  for (const VectorOutput& output : compute_.outputs)
    if (of_64_bits(output.view.dtype)) bits_ = 64;
}

/// Gives all values of kernels with running sums 32 bits.
void TypedCompute::as_stored() {
  if (stores_wide()) return as_wide();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const VectorNode& node = compute_.nodes[i];
    NodeValue& value = values_[i];
    value.held = kinds_[i] == Kind::floating ? Held::floating : Held::integer;
    value.work = value.held;
    if (node.op == VectorNode::Op::function) {
      const auto operand = static_cast<std::size_t>(node.arguments[static_cast<std::size_t>(first_operand(node))]);
      value.work = kinds_[operand] == Kind::floating ? Held::floating : Held::integer;
      if (value.work == Held::integer && !value.numbers.fits(Held::integer)) inexact_ = "integers wrap at 32 bits";
    } else if (node.op != VectorNode::Op::input && node.op != VectorNode::Op::scan && of_64_bits(node.dtype) &&
               !(value.held == Held::integer && value.numbers.fits(Held::integer))) {
      inexact_ = "the compute's meaning has 64 bits where the kernel has 32";
    }
  }
  for (const VectorOutput& output : compute_.outputs)
    totals_.push_back(value_at(output.node).held), bounded_.push_back(false);
}

TypedCompute::Kind TypedCompute::kind_of(DType dtype) const {
  return is_float(dtype) || is_complex(dtype) ? Kind::floating : Kind::integer;
}

int TypedCompute::converted(int node, DType dtype) {
  const auto [place, fresh] = conversions_.try_emplace({node, static_cast<int>(dtype)}, 0);
  if (!fresh) return place->second;
  VectorNode made = compute_.nodes[static_cast<std::size_t>(node)];
  if (made.op == VectorNode::Op::constant && (dtype == DType::i64 || dtype == DType::f32 || dtype == DType::f64)) {
    // rounded as in its own type
    const bool was_float = kinds_[static_cast<std::size_t>(node)] == Kind::floating;
    if (was_float && !real_) made.number = static_cast<double>(static_cast<float>(made.number));
    if (!was_float) made.number = std::trunc(made.number);
  } else {
    made = {.op = VectorNode::Op::convert, .arguments = {node, -1, -1}};
  }
  made.dtype = dtype;
  compute_.nodes.push_back(made), kinds_.push_back(kind_of(dtype));
  return place->second = static_cast<int>(compute_.nodes.size()) - 1;
}

int TypedCompute::as_kind(int node, Kind kind) {
  if (kinds_[static_cast<std::size_t>(node)] == kind) return node;
  return converted(node, kind == Kind::integer ? DType::i64 : real_ ? DType::f64 : DType::f32);
}

/// Converts operands of functions, and results, so that each set is either all floats or all integers.
void TypedCompute::take_kinds() {
  std::vector<VectorNode> nodes;
  nodes.swap(compute_.nodes);
  std::vector<int> places;
  for (VectorNode node : nodes) {
    for (int& argument : node.arguments)
      if (argument >= 0) argument = places[static_cast<std::size_t>(argument)];
    Kind kind = kind_of(node.op == VectorNode::Op::input ? compute_.inputs[static_cast<std::size_t>(node.index)].dtype
                                                         : node.dtype);
    if (node.op == VectorNode::Op::iota) kind = Kind::integer;
    if (node.op == VectorNode::Op::scan) kind = kinds_[static_cast<std::size_t>(node.arguments[0])];
    if (node.op == VectorNode::Op::function) {
      const int arity = info(node.function).arity;
      kind = Kind::integer;
      for (int a = first_operand(node); a < arity; ++a)
        if (kinds_[static_cast<std::size_t>(node.arguments[static_cast<std::size_t>(a)])] == Kind::floating)
          kind = Kind::floating;
      for (int a = 0; a < arity; ++a) {
        int& argument = node.arguments[static_cast<std::size_t>(a)];
        if (a >= first_operand(node) || kind == Kind::integer) argument = as_kind(argument, kind);
      }
      if (info(node.function).returns_boolean) kind = Kind::integer;
    }
    places.push_back(static_cast<int>(compute_.nodes.size()));
    compute_.nodes.push_back(node), kinds_.push_back(kind);
  }
  for (VectorOutput& output : compute_.outputs) {
    output.node = places[static_cast<std::size_t>(output.node)];
    const bool plain = output.reduce.empty() && !output.accumulate;
    const Kind kind = kind_of(output.view.dtype);
    if (plain && kinds_[static_cast<std::size_t>(output.node)] != kind)
      output.node = converted(output.node, output.view.dtype);
    else
      output.node = as_kind(output.node, kind);
  }
}

void TypedCompute::take_ranges() {
  values_.assign(compute_.nodes.size(), {});
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const VectorNode& node = compute_.nodes[i];
    NodeValue& value = values_[i];
    const bool whole = kinds_[i] == Kind::integer;
    const NodeValue* operands[3] = {};
    Numbers numbers[3];
    for (std::size_t a = 0; a < 3; ++a)
      if (node.arguments[a] >= 0)
        operands[a] = &values_[static_cast<std::size_t>(node.arguments[a])], numbers[a] = operands[a]->numbers;
    switch (node.op) {
      case VectorNode::Op::input:
        if (whole) value.numbers = Numbers::all_of_type(compute_.inputs[static_cast<std::size_t>(node.index)].dtype);
        break;
      case VectorNode::Op::constant:
        value.least = value.most = node.number;
        if (whole) value.numbers = {}, tilesim::convert(&node.number, DType::f64, &value.numbers.low, DType::i64, 1);
        if (whole) value.numbers.high = value.numbers.low;
        break;
      case VectorNode::Op::scalar:
        if (whole) value.numbers = of_scalars;
        if (whole && !of_scalars.contains(static_cast<std::int64_t>(std::clamp(node.number, -1e18, 1e18))))
          inexact_ = "a scalar has more than 31 bits";
        break;
      case VectorNode::Op::iota:
        value.numbers = {0, std::max<std::int64_t>(0, compute_.extents[static_cast<std::size_t>(node.index)] - 1)};
        break;
      case VectorNode::Op::function:
        if (whole) value.numbers = numbers_of(node, numbers);
        if (!whole) float_bounds(node, operands, value);
        break;
      case VectorNode::Op::convert: {
        const bool from_whole = kinds_[static_cast<std::size_t>(node.arguments[0])] == Kind::integer;
        if (!whole) break;
        const Numbers from = from_whole ? numbers[0] : truncated(*operands[0]), all = Numbers::all_of_type(node.dtype);
        value.numbers = node.dtype != DType::boolean && from.within(all) ? from : all;
        break;
      }
      case VectorNode::Op::scan:
        break;
    }
  }
}

bool TypedCompute::all_needed(std::size_t i) const { return values_[i].asked > 32 && !in_32_bits(values_[i].numbers); }

void TypedCompute::ask(int node, int bits) {
  int& asked = values_[static_cast<std::size_t>(node)].asked;
  asked = std::max(asked, bits);
}

/// Range of a result's total; `accumulated`: including the existing value.
Numbers TypedCompute::total_numbers(const VectorOutput& output, bool accumulated) const {
  Numbers total = value_at(output.node).numbers;
  const Numbers stored = Numbers::all_of_type(output.view.dtype);
  const bool extreme = output.combiner == Combiner::maximum || output.combiner == Combiner::minimum;
  if (!extreme) {
    std::int64_t count = 1;
    for (const int dim : output.reduce)
      count *= std::max<std::int64_t>(1, compute_.extents[static_cast<std::size_t>(dim)]);
    if (output.combiner == Combiner::multiply && count > 1) return {};
    total = either({0, 0}, numbers_of({.op = VectorNode::Op::function, .function = Function::multiply},
                                      std::array{total, Numbers{count, count}}.data()));
    if (accumulated)
      total = numbers_of({.op = VectorNode::Op::function,
                          .function = output.combiner == Combiner::add ? Function::add : Function::multiply},
                         std::array{total, stored}.data());
    return total;
  }
  if (!output.reduce.empty() && !total.within(stored)) {
    const std::int64_t neutral = integer_identity(output.combiner, output.view.dtype);
    total = either(total, {neutral, neutral});
  }
  return accumulated ? either(total, stored) : total;
}

void TypedCompute::need_of_function(std::size_t i) {
  const VectorNode& node = compute_.nodes[i];
  const bool modular = is_modular(node.function) && node.dtype != DType::boolean;
  const int own = all_needed(i) ? 64 : std::min(values_[i].asked, 32);
  for (int a = 0; a < info(node.function).arity; ++a) {
    const bool decides =
        (node.function == Function::select && a == 0) || (node.function == Function::shift_left && a == 1);
    ask(node.arguments[static_cast<std::size_t>(a)], modular && !decides ? own : 64);
  }
}

/// Whether a register contains the exact number. A conversion need not wrap if its readers use low bits only: its
/// higher bits then differ from the number's, also in results of functions.
bool TypedCompute::is_whole(std::size_t i) const {
  const VectorNode& node = compute_.nodes[i];
  if (node.op == VectorNode::Op::function) {
    bool all = true;
    for (int a = 0; a < info(node.function).arity; ++a)
      all = all && value_at(node.arguments[static_cast<std::size_t>(a)]).whole;
    return all;
  }
  if (node.op != VectorNode::Op::convert || !is_integer(node.dtype)) return true;
  const int width = tilesim::bits(node.dtype);
  if (width < std::min(values_[i].asked, 32)) return true;
  const NodeValue& from = value_at(node.arguments[0]);
  const bool of_integers = kinds_[static_cast<std::size_t>(node.arguments[0])] == Kind::integer;
  const Numbers numbers = of_integers ? from.numbers : truncated(from);
  return from.whole && (width >= 32 || numbers.within(Numbers::all_of_type(node.dtype)));
}

/// Finds the number of requested bits of each value, from results backward.
void TypedCompute::take_needs() {
  for (NodeValue& value : values_) value.asked = 0;
  for (const VectorOutput& output : compute_.outputs) {
    const DType stored = output.view.dtype;
    const bool combined = !output.reduce.empty() || output.accumulate;
    const bool modular = output.combiner == Combiner::add || output.combiner == Combiner::multiply;
    const bool number = stored == DType::boolean || (combined && !modular);
    ask(output.node, number ? 64 : tilesim::bits(stored));
  }
  for (std::size_t i = values_.size(); i-- > 0;) {
    const VectorNode& node = compute_.nodes[i];
    if (node.op == VectorNode::Op::function) need_of_function(i);
    if (node.op != VectorNode::Op::convert) continue;
    const int own = all_needed(i) ? 64 : std::min(values_[i].asked, 32);
    ask(node.arguments[0], is_integer(node.dtype) ? std::min(own, tilesim::bits(node.dtype)) : 64);
  }
  for (std::size_t i = 0; i < values_.size(); ++i) needed_.push_back(all_needed(i)), values_[i].whole = is_whole(i);
}

int TypedCompute::append(const VectorNode& node, const NodeValue& value) {
  compute_.nodes.push_back(node), values_.push_back(value);
  return static_cast<int>(compute_.nodes.size()) - 1;
}

/// The node, or a conversion of it to 32 or 64 bits.
int TypedCompute::in_width(int node, Held wanted) {
  NodeValue value = value_at(node);
  if (is_floating(value.held) || bits_of(value.held) == bits_of(wanted)) return node;
  const bool to_wide = bits_of(wanted) == 64;
  const auto [place, fresh] = conversions_.try_emplace({node, to_wide ? 64 : 32}, 0);
  if (!fresh) return place->second;
  VectorNode made = compute_.nodes[static_cast<std::size_t>(node)];
  if (made.op != VectorNode::Op::constant) made = {.op = VectorNode::Op::convert, .arguments = {node, -1, -1}};
  made.dtype = to_wide ? DType::i64 : DType::i32;
  value.held = value.work = to_wide ? Held::wide : narrow(value.numbers);
  return place->second = append(made, value);
}

/// Range of a function's result before it is reduced to 0 or 1.
Numbers TypedCompute::before_truth(VectorNode node) const {
  Numbers operands[3];
  for (std::size_t a = 0; a < 3; ++a)
    if (node.arguments[a] >= 0) operands[a] = value_at(node.arguments[a]).numbers;
  node.dtype = DType::i64;
  return numbers_of(node, operands);
}

void TypedCompute::width_of_function(VectorNode& node, NodeValue& value, std::size_t old) {
  const int arity = info(node.function).arity, first = first_operand(node);
  const auto operand = [&](int a) -> int& { return node.arguments[static_cast<std::size_t>(a)]; };
  const bool is_truth = info(node.function).returns_boolean || node.dtype == DType::boolean;
  if (is_floating(value_at(operand(first)).held)) {
    value.work = real_ ? Held::real : Held::floating;
    value.held = info(node.function).returns_boolean ? Held::integer : value.work;
    return;
  }
  Numbers all = value_at(operand(first)).numbers;
  for (int a = first + 1; a < arity; ++a) all = either(all, value_at(operand(a)).numbers);
  if (is_modular(node.function) && !is_truth) {
    const bool far = node.function == Function::shift_left && !value_at(operand(1)).numbers.fits(Held::integer);
    value.work = needed_[old] || far ? Held::wide : Held::integer;
  } else {
    if (is_modular(node.function)) all = either(all, before_truth(node));
    const bool unsigned_64 = node.dtype == DType::u64 && all.low < 0;
    value.work = unsigned_64 ? Held::wide_natural : in_32_bits(all) ? narrow(all) : Held::wide;
    const bool counts_all = node.function == Function::popcount && of_64_bits(node.dtype);
    if (bits_of(value.work) == 32 && (counts_all || (!is_truth && needed_[old]))) value.work = Held::wide;
  }
  for (int a = first; a < arity; ++a) operand(a) = in_width(operand(a), value.work);
  value.held = is_truth ? Held::integer : bits_of(value.work) == 64 ? Held::wide : narrow(value.numbers);
}

/// Rewrites all nodes with the number of bits that are requested.
void TypedCompute::take_widths() {
  std::vector<VectorNode> nodes;
  std::vector<NodeValue> values;
  nodes.swap(compute_.nodes), values.swap(values_), conversions_.clear();
  std::vector<int> places;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    VectorNode node = nodes[i];
    NodeValue value = values[i];
    for (int& argument : node.arguments)
      if (argument >= 0) argument = places[static_cast<std::size_t>(argument)];
    value.held = kinds_[i] == Kind::floating ? (real_ ? Held::real : Held::floating)
                 : needed_[i]                ? Held::wide
                                             : narrow(value.numbers);
    if (node.op == VectorNode::Op::input && kinds_[i] == Kind::integer)
      value.held = held_as(compute_.inputs[static_cast<std::size_t>(node.index)].dtype);
    value.work = value.held;
    if (node.op == VectorNode::Op::function) width_of_function(node, value, i);
    places.push_back(append(node, value));
  }
  for (VectorOutput& output : compute_.outputs) output.node = places[static_cast<std::size_t>(output.node)];
  widths_of_outputs();
}

void TypedCompute::widths_of_outputs() {
  for (VectorOutput& output : compute_.outputs) {
    const bool combined = !output.reduce.empty() || output.accumulate;
    Held total = value_at(output.node).held;
    bool is_bounded = false;
    if (combined && !is_floating(total)) {
      // existing 64-bit values are added after the total is complete
      const Numbers numbers = total_numbers(output, output.accumulate && !of_64_bits(output.view.dtype));
      const bool logical = output.combiner == Combiner::logical_and || output.combiner == Combiner::logical_or;
      const bool modular = !logical && output.combiner != Combiner::maximum && output.combiner != Combiner::minimum;
      const bool lowest = modular && !of_64_bits(output.view.dtype) && output.view.dtype != DType::boolean;
      total = lowest ? Held::integer : in_32_bits(numbers) ? narrow(numbers) : Held::wide;
      if (logical) total = Held::integer;
      is_bounded = !modular && !logical && !output.reduce.empty() &&
                   !value_at(output.node).numbers.within(Numbers::all_of_type(output.view.dtype));
      if (!logical) output.node = in_width(output.node, total);
    }
    totals_.push_back(total), bounded_.push_back(is_bounded);
  }
}

}  // namespace tilesim::isa
