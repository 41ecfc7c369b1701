// Executes tile computes of any kind, and computes their kernel signature.
#include <bit>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/custom_operation.hpp"
#include "tilesim/tile/custom_operation.hpp"
#include "tilesim/tile/tile.hpp"

namespace tilesim {

namespace {

/// Hashes a sequence of numbers: FNV-1a over 64-bit words with a final mix (constants of splitmix64, Steele, Lea,
/// Flood, "Fast splittable pseudorandom number generators", 2014). Not std::hash, which differs between libraries.
class Signature {
 public:
  template <class Number>
  void add(Number value) {
    hash_ = (hash_ ^ static_cast<std::uint64_t>(value)) * 0x100000001B3ULL;
    hash_ ^= hash_ >> 29;
  }
  void add(double value) { add(std::bit_cast<std::uint64_t>(std::isnan(value) ? std::nan("") : value)); }
  void add(const TileView& view);
  void add(const VectorNode& node);
  void add(const std::string& text) {
    add(text.size());
    for (const char letter : text) add(static_cast<unsigned char>(letter));
  }
  void add(const std::vector<TileView>& views) {
    add(views.size());
    for (const TileView& view : views) add(view);
  }
  void add_overlaps();  ///< of all views so far
  std::uint64_t value() const {
    std::uint64_t z = hash_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    z ^= z >> 31;
    return z == 0 ? 1 : z;
  }

 private:
  std::uint64_t hash_ = 0xCBF29CE484222325ULL;
  std::vector<const TileView*> views_;
};

enum class StrideClass : std::uint8_t { zero, unit, constant, other, backwards };

/// `run`: stride at which the dim continues the inner dims without gaps. A dim of one element has no stride.
StrideClass class_of(const ViewDim& dim, std::int64_t run) {
  if (dim.extent <= 1 || dim.stride == 0) return StrideClass::zero;
  if (dim.stride < 0) return StrideClass::backwards;
  if (dim.stride == 1) return StrideClass::unit;
  return dim.stride == run ? StrideClass::constant : StrideClass::other;
}

/// Half-open range of bytes of a view; empty without an address.
std::pair<std::int64_t, std::int64_t> range_of(const TileView& view) {
  std::int64_t low = 0, high = 0;
  for (const ViewDim& dim : view.dims) {
    if (dim.extent <= 0) return {0, 0};
    (dim.stride < 0 ? low : high) += dim.stride * (dim.extent - 1);
  }
  if (view.address < 0) return {0, 0};
  return {view.address + low * bits(view.dtype) / 8, view.address + packed_bytes(view.dtype, high + 1)};
}

/// Adds which views share bytes, and whether they start at the same byte: a kernel must not overwrite unread bytes.
void Signature::add_overlaps() {
  for (std::size_t i = 0; i < views_.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const auto a = range_of(*views_[i]), b = range_of(*views_[j]);
      if (views_[i]->memory != views_[j]->memory || a.first >= b.second || b.first >= a.second) continue;
      add(i);
      add(j);
      add(views_[i]->address == views_[j]->address);
    }
}

void Signature::add(const TileView& view) {
  views_.push_back(&view);
  add(view.dtype);
  add(view.memory);
  add(view.dims.size());
  std::int64_t run = 1;
  for (auto dim = view.dims.rbegin(); dim != view.dims.rend(); ++dim) {
    add(dim->extent);
    add(class_of(*dim, run));
    if (dim->extent > 1) run = dim->stride * dim->extent;
  }
}

void Signature::add(const VectorNode& node) {
  using Op = VectorNode::Op;
  add(node.op);
  add(node.dtype);
  switch (node.op) {
    case Op::input:
    case Op::iota:
      add(node.index);
      break;
    case Op::constant:
      add(node.number);
      break;
    case Op::scalar:  // passed in a register: the kernel does not depend on its value
      break;
    case Op::function:
      add(node.function);
      break;
    case Op::convert:
      break;
    case Op::scan:
      add(node.index);
      add(node.combiner);
      add(node.reverse);
      add(node.exclusive);
      break;
  }
  for (const int argument : node.arguments) add(argument);
}

void sign(Signature& own, const Mma& mma) {
  for (const int dims : {mma.batch_dims, mma.m_dims, mma.n_dims, mma.k_dims, mma.packed}) own.add(dims);
  for (const TileView* view : {&mma.a, &mma.b, &mma.c}) own.add(*view);
  own.add(mma.accumulate);
  own.add(mma.stationary_a);
  own.add(mma.numerics.multiply ? static_cast<int>(*mma.numerics.multiply) : -1);
  own.add(mma.numerics.multiply_tf32);
  own.add(mma.numerics.accumulate);
}

void sign(Signature& own, const VectorCompute& compute) {
  own.add(compute.extents.size());
  for (const std::int64_t extent : compute.extents) own.add(extent);
  own.add(compute.inputs);
  own.add(compute.nodes.size());
  for (const VectorNode& node : compute.nodes) own.add(node);
  own.add(compute.outputs.size());
  for (const VectorOutput& output : compute.outputs) {
    own.add(output.node);
    own.add(output.view);
    own.add(output.reduce.size());
    for (const int dim : output.reduce) own.add(dim);
    own.add(output.combiner);
    own.add(output.accumulate);
  }
  own.add(compute.lane);
}

void sign(Signature& own, const Permute& permute) {
  own.add(permute.in);
  own.add(permute.out);
}

void sign(Signature& own, const Indexed& indexed) {
  for (const TileView* view : {&indexed.in, &indexed.index, &indexed.out}) own.add(*view);
  own.add(indexed.scatter);
  own.add(indexed.combiner ? static_cast<int>(*indexed.combiner) : -1);
}

void sign(Signature& own, const Sort& sort) {
  for (const TileView* view : {&sort.in, &sort.keys, &sort.positions}) own.add(*view);
  own.add(sort.descending);
}

void sign(Signature& own, const Opaque& opaque) {
  own.add(opaque.target);
  own.add(opaque.reads);
  own.add(opaque.writes);
}

class NoSource final : public ComputeSource {
 public:
  TileCompute compute() const override { throw InternalError("a latency needs its compute"); }
};

void carry_out(const Opaque& opaque) {
  const auto operation = find_operation(opaque.target);
  if (operation == nullptr)
    throw Unsupported({"An opaque operation has no semantics here.",
                       {},
                       "'" + opaque.target + "'",
                       {},
                       "ts.isa.operation declares one by its name"});
  on_arrays(opaque, [&](const std::vector<Array>& operands, std::vector<Array>& results) {
    operation->evaluate(operands, results);
  });
}
void carry_out(const auto& compute) { execute(compute); }

}  // namespace

void execute(const TileCompute& compute) {
  std::visit([](const auto& one) { carry_out(one); }, compute);
}

std::uint64_t signature_of(const TileCompute& compute) {
  Signature own;
  own.add(compute.index());
  std::visit([&](const auto& one) { sign(own, one); }, compute);
  own.add_overlaps();
  return own.value();
}

const ComputeSource& no_source() {
  static const NoSource none;
  return none;
}

}  // namespace tilesim
