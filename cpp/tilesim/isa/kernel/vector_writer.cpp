#include "tilesim/isa/kernel/vector_writer.hpp"

#include <algorithm>
#include <bit>
#include <limits>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

/// The lowest or highest integer of a representation.
std::int64_t end_of(Held held, bool lowest) {
  if (held == Held::integer) return lowest ? INT32_MIN : INT32_MAX;
  if (held == Held::natural) return lowest ? 0 : UINT32_MAX;
  return lowest ? INT64_MIN : INT64_MAX;
}

}  // namespace

void no_vector_kernel(const char* what, std::string_view value) {
  throw Unsupported({what, {}, std::string(value), {}, {}});
}

int stored_bits(DType dtype) {
  if (is_two_of_four(dtype) || is_complex(dtype) || value_bits(dtype) < 8)
    no_vector_kernel("no vector kernel loads this type", name(dtype));
  return bits(dtype);
}

NodeWriter::NodeWriter(Code& code, const TypedCompute& typed, std::int64_t elements, int lmul)
    : code_(code),
      typed_(typed),
      compute_(typed.compute()),
      first_(compute_.nodes.data()),
      elements_(elements),
      lmul_(lmul),
      inexact_(typed.inexact()) {
  refuse_unknown();
}

NodeWriter::NodeWriter(Code& code, const VectorCompute& compute, std::int64_t elements, int lmul)
    : code_(code),
      own_(std::in_place, compute),
      typed_(*own_),
      compute_(own_->compute()),
      first_(compute.nodes.data()),
      elements_(elements),
      lmul_(lmul),
      inexact_(own_->inexact()) {
  refuse_unknown();
  require(compute.nodes.size() == compute_.nodes.size(), "operands of running sums are not of one kind");
  const auto extreme = [](Combiner combiner) { return combiner == Combiner::maximum || combiner == Combiner::minimum; };
  for (const VectorNode& node : compute_.nodes) {
    if (node.op == VectorNode::Op::scan && node.dtype == DType::u64 && extreme(node.combiner))
      no_vector_kernel("no kernel of running sums orders numbers of this type", name(node.dtype));
    if (node.op != VectorNode::Op::function || widest() == 32) continue;
    const Held first = typed_.value_at(node).work;
    for (int a = node.function == Function::select ? 1 : 0; a < info(node.function).arity; ++a)
      if (held(node.arguments[static_cast<std::size_t>(a)]) != first)
        no_vector_kernel("no kernel of running sums mixes flags and integers of 64 bits", info(node.function).name);
    if (node.dtype == DType::u64 && !is_modular(node.function))
      no_vector_kernel("no kernel of running sums computes with this type", name(node.dtype));
  }
}

void NodeWriter::refuse_unknown() const {
  for (const TileView& input : compute_.inputs) stored_bits(input.dtype);
  for (const VectorOutput& output : compute_.outputs) {
    const bool extreme = output.combiner == Combiner::maximum || output.combiner == Combiner::minimum;
    if (stored_bits(output.view.dtype) == 64 && output.view.dtype == DType::u64 && extreme &&
        (output.accumulate || !output.reduce.empty()))
      no_vector_kernel("no vector kernel orders numbers of this type across a result", name(output.view.dtype));
  }
  for (const VectorNode& node : compute_.nodes)
    if (node.op != VectorNode::Op::input &&
        (is_complex(node.dtype) || value_bits(node.dtype) != bits(node.dtype) || node.dtype == DType::f4e2m1fn))
      no_vector_kernel("no vector kernel computes with this type", name(node.dtype));
}

void NodeWriter::set(int bits) {
  const int part = std::bit_width(static_cast<unsigned>(typed_.bits() / bits)) - 1;
  code_.set_vl(elements_, static_cast<unsigned>(bits), lmul_ - part);
}

/// Values that are widened twice are loaded directly into `to`.
void NodeWriter::load(DType dtype, unsigned to, unsigned pointer, unsigned scratch, std::int64_t step) {
  const int width = stored_bits(dtype);
  static constexpr const char* loads[] = {"vle8.v", "vle16.v", "vle32.v", "vle64.v"};
  const bool doubled = typed_.real() && is_float(dtype) && width < 64, twice = doubled && width < 32;
  const bool aside = (width < 32 || doubled) && !twice;
  set(width);
  code_.op(loads[std::bit_width(static_cast<unsigned>(width)) - 4], {aside ? scratch : to, pointer});
  code_.advance(pointer, step);
  if (!aside && !twice) return;
  if (!is_float(dtype)) {
    const bool has_sign = dtype_class(dtype) == DTypeClass::signed_integer;
    set();
    return code_.op(has_sign ? (width == 8 ? "vsext.vf4" : "vsext.vf2") : (width == 8 ? "vzext.vf4" : "vzext.vf2"),
                    {to, scratch});
  }
  const unsigned single = twice ? scratch : to, from = twice ? to : scratch;
  if (width == 8) set(), code_.op("xf.widen", {single, from, static_cast<int>(dtype)});
  if (width == 16) code_.op(dtype == DType::bf16 ? "vfwcvtbf16.f.f.v" : "vfwcvt.f.f.v", {single, from});
  if (doubled) widen(Held::floating, to, scratch);
}

void NodeWriter::widen(Held from, unsigned to, unsigned x) {
  set(from == Held::floating ? 32 : 64);
  code_.op(from == Held::floating ? "vfwcvt.f.f.v" : from == Held::natural ? "vzext.vf2" : "vsext.vf2", {to, x});
}

void NodeWriter::keep_zero(unsigned reg) {
  set(typed_.bits());
  code_.op("vmv.v.i", {reg, 0});
  zero_ = reg;
}

void NodeWriter::store(DType dtype, Held held, unsigned from, unsigned pointer, unsigned scratch, bool is_flag) {
  static constexpr const char* stores[] = {"vse8.v", "vse16.v", "vse32.v", "vse64.v"};
  const int width = stored_bits(dtype);
  unsigned value = from;
  int now = bits_of(held);
  if (dtype == DType::boolean && !is_flag) truth(held, scratch, from, scratch), value = scratch, now = 32;
  if (is_float(dtype)) {
    if (width < now && width == 8 && now == 64)
      no_vector_kernel("no vector kernel rounds 64 bits to this type", name(dtype));
    if (width < now && now == 64) {
      set();
      code_.op(width == 32 ? "vfncvt.f.f.w" : "vfncvt.rod.f.f.w", {scratch, value});
      value = scratch;
    }
    if (width == 8) set(), code_.op("xf.narrow", {scratch, value, static_cast<int>(dtype)});
    if (width == 16) set(16), code_.op(dtype == DType::bf16 ? "vfncvtbf16.f.f.w" : "vfncvt.f.f.w", {scratch, value});
    if (width < 32) value = scratch;
  } else {
    if (now < width) widen(held, scratch, value), value = scratch;
    for (; now > width; now /= 2) {
      set(now / 2);
      code_.op("vnsrl.wi", {scratch, value, 0});
      value = scratch;
    }
  }
  set(width);
  code_.op(stores[std::bit_width(static_cast<unsigned>(width)) - 4], {value, pointer});
}

/// Always the same instructions, so that the kernel's time does not depend on the scalar's value.
void NodeWriter::fill(unsigned to, std::uint32_t value) {
  set();
  const std::int64_t low = static_cast<std::int64_t>(std::uint64_t{value} << 52) >> 52;
  code_.op("lui", {t1, (value - low) >> 12 & 0xFFFFF});
  code_.op("addiw", {t1, t1, low});
  code_.op("vmv.v.x", {to, t1});
}

void NodeWriter::fill_wide(unsigned to, std::int64_t value) {
  set(64);
  code_.load_constant(t1, value);
  code_.op("vmv.v.x", {to, t1});
}

void NodeWriter::constant(const VectorNode& node, unsigned to) {
  const Held held = value_of(node).held;
  if (held == Held::real) return fill_wide(to, std::bit_cast<std::int64_t>(node.number));
  if (held == Held::floating) {
    float value = 0;
    tilesim::convert(&node.number, DType::f64, &value, DType::f32, 1);
    return fill(to, std::bit_cast<std::uint32_t>(value));
  }
  std::int64_t value = 0;
  tilesim::convert(&node.number, DType::f64, &value, DType::i64, 1);
  if (held == Held::wide) return fill_wide(to, value);
  fill(to, static_cast<std::uint32_t>(value));
}

void NodeWriter::neutral(Combiner combiner, DType dtype, Held held, unsigned to) {
  if (held == Held::real) return fill_wide(to, std::bit_cast<std::int64_t>(identity_element(combiner, dtype)));
  if (held == Held::wide) return fill_wide(to, integer_identity(combiner, is_float(dtype) ? DType::i64 : dtype));
  if (held == Held::floating)
    return fill(to, std::bit_cast<std::uint32_t>(static_cast<float>(identity_element(combiner, dtype))));
  fill(to, static_cast<std::uint32_t>(integer_identity(combiner, is_float(dtype) ? DType::i32 : dtype)));
}

void NodeWriter::identity(Combiner combiner, Held held, unsigned to) {
  const bool extreme = combiner == Combiner::maximum || combiner == Combiner::minimum;
  if (held == Held::real) return fill_wide(to, std::bit_cast<std::int64_t>(identity_element(combiner, DType::f64)));
  if (held == Held::floating) return neutral(combiner, DType::f32, held, to);
  const std::int64_t value =
      extreme ? end_of(held, combiner == Combiner::maximum) : integer_identity(combiner, DType::i64);
  bits_of(held) == 64 ? fill_wide(to, value) : fill(to, static_cast<std::uint32_t>(value));
}

void NodeWriter::bound(Combiner combiner, DType dtype, Held held, unsigned to) {
  const std::int64_t value = integer_identity(combiner, dtype);
  bits_of(held) == 64 ? fill_wide(to, value) : fill(to, static_cast<std::uint32_t>(value));
}

void NodeWriter::join(Combiner combiner, Held held, unsigned to, unsigned x, unsigned y, unsigned) {
  set(bits_of(held));
  switch (combiner) {
    case Combiner::add:
      return code_.op(is_floating(held) ? "vfadd.vv" : "vadd.vv", {to, x, y});
    case Combiner::multiply:
      return code_.op(is_floating(held) ? "vfmul.vv" : "vmul.vv", {to, x, y});
    case Combiner::maximum:
    case Combiner::logical_or:
      return extreme(true, held, to, x, y);
    case Combiner::minimum:
    case Combiner::logical_and:
      return extreme(false, held, to, x, y);
  }
}

void NodeWriter::from_mask(unsigned to) {
  set();
  code_.op("vmv.v.i", {to, 0});
  code_.op("vmerge.vim", {to, to, 1});
}

/// Nonzero floats give 1.0.
void NodeWriter::truth(Held held, unsigned to, unsigned x, unsigned scratch) {
  set(bits_of(held));
  if (!is_floating(held)) {
    at_most_one(to, x);
    if (bits_of(held) == 64) to_32_bits(to, to, 0);
    return;
  }
  identity(Combiner::multiply, held, scratch);
  code_.op("vmv.v.i", {to, 0});
  code_.op("vmfne.vv", {0, x, to});
  code_.op("vmerge.vvm", {to, to, scratch});
}

/// The larger or smaller value; NaN if a float is NaN.
void NodeWriter::extreme(bool largest, Held held, unsigned to, unsigned x, unsigned y) {
  if (is_floating(held)) return code_.op(largest ? "xf.max" : "xf.min", {to, x, y});
  const std::string sign = has_sign(held) ? ".vv" : "u.vv";
  code_.op((largest ? "vmax" : "vmin") + sign, {to, x, y});
}

void NodeWriter::keep_divisors(int bits, unsigned reg) {
  bits == 64 ? fill_wide(reg, -1) : fill(reg, ~std::uint32_t{0});
  divisors_[bits == 64 ? 1 : 0] = reg;
}

void NodeWriter::refuse_zeros(int bits) {
  set(bits);
  code_.op("vmseq.vi", {0, divisors_[bits == 64 ? 1 : 0], 0});
  code_.load_constant(t1, 0);  // result of vcpop.m in a dry run, where vectors have no values
  code_.op("vcpop.m", {t1, 0});
  code_.op("beq", {t1, zero, 8});
  code_.op("ebreak", std::vector<std::int64_t>{});
}

}  // namespace tilesim::isa
