// Fuses operations that compute an operand of products: a whole vector kernel, or its last operations while its
// reductions remain a kernel.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/groups/groups.hpp"

namespace tilesim::lower {

/// Whether the operation belongs to the epilogue of a product.
bool Grouping::ends_product(int i) const {
  const int kernel = graph_.owner[index(i)], anchor = kernel < 0 ? -1 : graph_.kernels[index(kernel)].anchor;
  return anchor >= 0 && anchor != i && is_product(op(anchor).kind) && is_recomputable(op(i).kind);
}

/// The reason why the products that read a value cannot compute it; empty: they can.
std::string Grouping::why_no_operand(ValueId value) const {
  const int producer = uses_.producer[index(value)];
  if (!is_recomputable(op(producer).kind)) return "a reduction makes it";
  if (uses_.is_output[index(value)]) return "it is an output";
  for (int reader : uses_.consumers[index(value)]) {
    const Op& product = op(reader);
    if (ends_product(reader)) continue;
    if (!is_product(product.kind)) return "other operations than products read it";
    if (std::count(product.operands.begin(), product.operands.end(), value) != 1 ||
        (product.operands[0] != value && product.operands[1] != value))
      return "a product takes it more than once";
  }
  return {};
}

/// The kernel's recomputable operations of the operand's shape that compute `value`. They read row statistics from
/// memory, and also values that cuts exclude.
std::set<int> Grouping::tail_of(int kernel, ValueId value) const {
  std::set<int> tail;
  std::vector<ValueId> pending{value};
  while (!pending.empty()) {
    const ValueId next = pending.back();
    pending.pop_back();
    const int producer = next == no_value ? -1 : uses_.producer[index(next)];
    if (producer < 0 || !is_recomputable(op(producer).kind)) continue;
    const bool whole = next == value || shape(next) == shape(value);
    if (whole ? graph_.owner[index(producer)] != kernel : !repeats_in(tail, next, shape(value))) continue;
    if (next != value && cut(Rule::prologue, producer)) continue;
    if (!tail.insert(producer).second) continue;
    pending.insert(pending.end(), op(producer).operands.begin(), op(producer).operands.end());
  }
  return tail;
}

/// Whether a converted value is broadcast over the shape `whole`, and only operations of the tail read it, such as the
/// scales of quantized blocks.
bool Grouping::repeats_in(const std::set<int>& tail, ValueId value, const Shape& whole) const {
  const Shape& own = shape(value);
  const int producer = uses_.producer[index(value)], made_by = graph_.owner[index(producer)];
  if (made_by < 0 || graph_.kernels[index(made_by)].family != Family::vector || own.size() != whole.size() ||
      op(producer).kind != Kind::convert || uses_.is_output[index(value)])
    return false;
  for (std::size_t axis = 0; axis < own.size(); ++axis)
    if (own[axis] != 1 && own[axis] != whole[axis]) return false;
  return std::ranges::all_of(uses_.consumers[index(value)], [&](int reader) { return tail.count(reader) > 0; });
}

/// Bytes that the operations load and store as one kernel.
double Grouping::moved_by(const std::set<int>& ops) const {
  std::set<ValueId> moved;
  for (int i : ops) {
    for (ValueId operand : op(i).operands) {
      const int producer = operand == no_value ? -1 : uses_.producer[index(operand)];
      if (operand != no_value && !scalar(operand) && (producer < 0 || !ops.count(producer))) moved.insert(operand);
    }
    for (ValueId result : op(i).results)
      if (result != no_value && read_outside(result, i, ops)) moved.insert(result);
  }
  double bytes = 0;
  for (ValueId value : moved)
    bytes += static_cast<double>(element_count(shape(value)) * bits(context_.value(value).type.dtype)) / 8;
  return bytes;
}

/// Whether a kernel with operations `ops` must store this value.
bool Grouping::read_outside(ValueId value, int producer, const std::set<int>& ops) const {
  const std::vector<int>& readers = uses_.consumers[index(value)];
  const auto outside = [&](int reader) { return !ops.count(reader) && !computes_itself(reader, producer); };
  return uses_.is_output[index(value)] || std::any_of(readers.begin(), readers.end(), outside) ||
         read_by_tail(value, producer);
}

/// Removes from the vector kernel those operations of the tail that only products need.
void Grouping::move_tail(int kernel, int root, std::set<int> tail) {
  std::map<int, std::set<int>> gone;  // by kernel: operations to remove
  for (int i : tail) gone[graph_.owner[index(i)]];
  const auto moved = [&] {
    double bytes = 0;
    for (const auto& [from, none] : gone) {
      const std::vector<int>& own = graph_.kernels[index(from)].ops;
      bytes += moved_by({own.begin(), own.end()});
    }
    return bytes;
  };
  const double before = moved();
  std::set<int> left;
  tails_.push_back({root, tail, 0, false});
  for (auto i = tail.rbegin(); i != tail.rend(); ++i) {
    const ValueId made = op(*i).results[0];
    const std::vector<int>& readers = uses_.consumers[index(made)];
    const bool wanted = uses_.is_output[index(made)] || std::any_of(readers.begin(), readers.end(), [&](int reader) {
                          return !left.count(reader) && !computes_itself(reader, *i);
                        });
    if (!wanted) left.insert(*i), gone[graph_.owner[index(*i)]].insert(*i);
  }
  for (int i : tail) computed_by_readers_.insert(i);
  for (const auto& [from, ops] : gone) graph_.release(from, ops);
  tails_.back().spared = before - moved();
  tails_.back().whole = graph_.kernels[index(kernel)].ops.empty();
}

/// Moves the operations that compute operands of products into the products, which compute them per tile.
void Grouping::feed_products() {
  if (!rules_.has(Rule::prologue) || rules_.native || !rules_.resident_rows) return;
  for (int i = 0; i < count(); ++i) {
    if (!is_product(op(i).kind)) continue;
    const int product = graph_.owner[index(i)];
    for (std::size_t operand = 0; operand < 2; ++operand) {
      const ValueId value = op(i).operands[operand];
      const int producer = uses_.producer[index(value)], made_by = producer < 0 ? -1 : graph_.owner[index(producer)];
      if (made_by < 0 || graph_.kernels[index(made_by)].family != Family::vector) continue;
      const Apart* why = apart(value);
      const auto cheaper = cut(Rule::prologue, producer);
      std::string reason = why ? std::string() : why_no_operand(value);
      if (why)
        refused(Rule::prologue, product, producer, *why);
      else if (cheaper)
        refused(Rule::prologue, product, producer, *cheaper);
      else if (!reason.empty())
        refused(Rule::prologue, product, producer, std::move(reason));
      else
        move_tail(made_by, producer, tail_of(made_by, value));
    }
  }
}

/// Whether the reader recomputes the producer's result itself.
bool Grouping::computes_itself(int reader, int producer) const {
  return std::any_of(tails_.begin(), tails_.end(), [&](const Tail& tail) {
    if (is_product(op(reader).kind) || ends_product(reader)) return tail.root == producer;
    return graph_.owner[index(reader)] < 0 && tail.ops.count(reader) && tail.ops.count(producer);
  });
}

/// Whether a tail reads the value from memory because its producer is not part of the tail.
bool Grouping::read_by_tail(ValueId value, int producer) const {
  const std::vector<int>& readers = uses_.consumers[index(value)];
  return std::any_of(tails_.begin(), tails_.end(), [&](const Tail& tail) {
    return !tail.ops.count(producer) &&
           std::any_of(readers.begin(), readers.end(), [&](int reader) { return tail.ops.count(reader) > 0; });
  });
}

/// Adds the tails of its operands to a product's kernel.
void Grouping::add_tails(Kernel& kernel, int number) {
  std::set<int> ops(kernel.ops.begin(), kernel.ops.end());
  for (const auto& [root, tail, spared, whole] : tails_) {
    const ValueId value = op(root).results[0];
    const auto reads = [&](int i) { return std::ranges::count(op(i).operands, value) > 0; };
    if (std::ranges::none_of(kernel.ops, reads)) continue;
    for (int i : tail)
      if (ops.insert(i).second) taken(Rule::prologue, number, i);
    const auto shared = static_cast<double>(uses_.consumers[index(value)].size());
    kernel.spared_bytes += spared / shared;
    kernel.spares_kernel |= whole && shared == 1;
  }
  kernel.ops.assign(ops.begin(), ops.end());
}

}  // namespace tilesim::lower
