// Conversions between representations in registers.
#include <algorithm>
#include <bit>
#include <cmath>

#include "tilesim/isa/kernel/vector_writer.hpp"

namespace tilesim::isa {

namespace {

/// Whether the float's integer part fits 32 bits.
bool truncates_to_32_bits(const NodeValue* known) {
  return known != nullptr && known->least > -2147483649.0 && known->most < 2147483648.0;
}

/// Whether the lowest bits of the type represent the value, or contain all requested bits.
bool stays_within(DType through, Held from, const NodeValue* known, int asked) {
  if (bits(through) >= std::min(asked, 32)) return true;
  if (known == nullptr) return false;
  const Numbers all = Numbers::all_of_type(through);
  if (!is_floating(from)) return known->whole && known->numbers.within(all);
  return known->least > static_cast<double>(all.low) - 1 && known->most < static_cast<double>(all.high) + 1;
}

}  // namespace

/// Whether a conversion does not change its operand.
bool NodeWriter::changes_nothing(const VectorNode& node) const {
  if (node.op != VectorNode::Op::convert) return false;
  const NodeValue& from = typed_.value_at(node.arguments[0]);
  if (node.dtype == DType::boolean)
    return !is_floating(from.held) && bits_of(from.held) == 32 && from.numbers.within({0, 1});
  const Held held = value_of(node).held;
  if (is_float(node.dtype)) return is_floating(from.held) && bits(node.dtype) >= bits_of(from.held);
  return !is_floating(from.held) && bits_of(from.held) == bits_of(held) &&
         stays_within(node.dtype, from.held, &from, value_of(node).asked);
}

/// Loads a constant into f0.
void NodeWriter::in_float_register(double value, Held held) {
  if (held == Held::real) {
    code_.load_constant(t1, std::bit_cast<std::int64_t>(value));
    return code_.op("fmv.d.x", {0, t1});
  }
  code_.load_constant(t1, std::bit_cast<std::int32_t>(static_cast<float>(value)));
  code_.op("fmv.w.x", {0, t1});
}

void NodeWriter::keep_float_zero() { code_.op(typed_.real() ? "fmv.d.x" : "fmv.w.x", {1, 0}); }

void NodeWriter::conversion(const VectorNode& node, unsigned to, unsigned source, unsigned scratch) {
  const NodeValue& from = typed_.value_at(node.arguments[0]);
  change(node.dtype, from.held, value_of(node).held, &from, value_of(node).asked, to, source, scratch);
}

void NodeWriter::convert(const VectorNode& node, unsigned to, unsigned source, unsigned scratch) {
  const Held from = held(node.arguments[0]), wanted = value_of(node).held;
  if (wanted != Held::wide) return change(node.dtype, from, wanted, nullptr, 64, to, source, scratch);
  if (is_floating(from))
    to_integer(from, nullptr, wanted, to, source, scratch), source = to;
  else if (bits_of(from) < 64)
    return widen(from, to, source);  // a boolean
  if (bits(node.dtype) < 64) return wrap(node.dtype, to, source, 64);
  set(64);
  if (source != to) code_.op("vmv.v.v", {to, source});
}

void NodeWriter::change(DType through, Held from, Held held, const NodeValue* known, int asked, unsigned to,
                        unsigned source, unsigned scratch) {
  if (through == DType::boolean) {
    set(bits_of(from));
    if (!is_floating(from)) return truth(from, to, source, scratch);
    in_float_register(0, from);
    code_.op("vmfne.vf", {0, source, 0});
    return from_mask(to);
  }
  if (is_float(through)) return to_float(through, from, known, to, source, scratch);
  if (is_floating(from)) {
    to_integer(from, known, held, to, source, scratch);
    source = to;
  } else if (bits_of(from) > bits_of(held)) {
    set();
    code_.op("vnsrl.wi", {to, source, 0});
    source = to;
  } else if (bits_of(from) < bits_of(held)) {
    return widen(from, to, source);
  }
  if (!stays_within(through, from, known, asked)) return wrap(through, to, source);
  set(bits_of(held));
  if (source != to) code_.op("vmv.v.v", {to, source});
}

/// Wraps an integer of `of` bits (32 or 64) to the lowest bits of a type.
void NodeWriter::wrap(DType through, unsigned to, unsigned source, int of) {
  set(of);
  const int width = tilesim::bits(through), left = of - width;
  if (dtype_class(through) == DTypeClass::unsigned_integer) {
    code_.load_constant(t1, (std::int64_t{1} << width) - 1);
    return code_.op("vand.vx", {to, source, t1});
  }
  if (left < 32) {
    code_.op("vsll.vi", {to, source, left});
    return code_.op("vsra.vi", {to, to, left});
  }
  code_.load_constant(t1, left);
  code_.op("vsll.vx", {to, source, t1});
  code_.op("vsra.vx", {to, to, t1});
}

/// Converts a float to an integer, rounding towards zero; NaN gives 0.
void NodeWriter::to_integer(Held from, const NodeValue* known, Held held, unsigned to, unsigned source,
                            unsigned scratch) {
  if (bits_of(held) == 64 || !truncates_to_32_bits(known)) return modulo(from, held, to, source, scratch);
  set();
  code_.op(from == Held::real ? "vfncvt.rtz.x.f.w" : "vfcvt.rtz.x.f.v", {to, source});
  set(bits_of(from));
  code_.op("vmfne.vv", {0, source, source});
  set();
  code_.op("vmerge.vim", {to, to, 0});
}

/// The lowest bits of a float's integer part of any size: x - 2^n * round(x / 2^n) is exact. NaN and infinities give 0,
/// as do numbers too large for such bits.
void NodeWriter::modulo(Held from, Held held, unsigned to, unsigned source, unsigned scratch) {
  const int width = from == Held::floating && bits_of(held) == 32 ? 32 : 64;
  const Held work = width == 32 ? Held::floating : Held::real;
  if (from != work)
    widen(from, to, source);
  else
    set(width), code_.op("vmv.v.v", {to, source});
  set(width);
  in_float_register(std::ldexp(1.0, -width), work);
  code_.op("vfmul.vf", {scratch, to, 0});
  code_.op("vfcvt.x.f.v", {scratch, scratch});
  code_.op("vfcvt.f.x.v", {scratch, scratch});
  in_float_register(std::ldexp(1.0, width), work);
  code_.op("vfnmsac.vf", {to, 0, scratch});
  // 2^(n-1) saturates to 2^(n-1) - 1
  in_float_register(std::ldexp(1.0, width - 1), work);
  code_.op("vmfge.vf", {0, to, 0});
  code_.op("vfcvt.rtz.x.f.v", {scratch, to});
  code_.op("vadc.vim", {to, scratch, 0});
  set(bits_of(from));
  code_.op("vfsgnjx.vv", {scratch, source, source});
  in_float_register(std::ldexp(1.0, width + (from == Held::floating ? 24 : 53)), from);
  code_.op("vmflt.vf", {0, scratch, 0});
  set(width);
  code_.op("vmv.v.i", {scratch, 0});
  code_.op("vmerge.vvm", {to, scratch, to});
  if (width > bits_of(held)) set(), code_.op("vnsrl.wi", {to, to, 0});
}

/// An integer that a float represents exactly and that rounds to narrower floats as `x` does: dropped bits are replaced
/// by one bit that tells whether any of them was set.
void NodeWriter::to_odd(Held from, unsigned to, unsigned x, unsigned scratch) {
  const int width = bits_of(from), dropped = width == 64 ? 11 : 8, kept = width == 64 ? 53 : 24;
  const auto with = [&](const char* name, unsigned result, unsigned operand, std::int64_t number) {
    code_.load_constant(t1, number);
    code_.op(name, {result, operand, t1});
  };
  set(width);
  with("vand.vx", scratch, x, (std::int64_t{1} << dropped) - 1);
  code_.op("vrsub.vi", {scratch, scratch, 0});
  with("vsra.vx", scratch, scratch, width - 1);
  with("vand.vx", scratch, scratch, std::int64_t{1} << dropped);
  with("vand.vx", to, x, -(std::int64_t{1} << dropped));
  code_.op("vor.vv", {to, to, scratch});
  const std::int64_t limit = std::int64_t{1} << kept;
  if (has_sign(from)) with("vadd.vx", scratch, x, limit);
  with("vmsgtu.vx", 0, has_sign(from) ? scratch : x, has_sign(from) ? 2 * limit : limit);
  code_.op("vmerge.vvm", {to, x, to});
}

void NodeWriter::to_float(DType through, Held from, const NodeValue* known, unsigned to, unsigned source,
                          unsigned scratch) {
  if (is_floating(from)) return through_float(through, from, to, source, scratch);
  const bool natural = from == Held::natural, wide = bits_of(from) == 64, narrow = bits(through) < 32;
  const std::string sign = natural ? "xu" : "x";
  const bool by_double = typed_.real() || (wide && narrow);
  const std::int64_t exact = std::int64_t{1} << (by_double ? 53 : 24);
  const bool large = known == nullptr || !known->numbers.within({-exact, exact});
  if (narrow && large && !(by_double && !wide)) to_odd(from, to, source, scratch), source = to;
  if (through == DType::f32 || !by_double) {
    set();
    const unsigned single = typed_.real() || (wide && source == to) ? scratch : to;
    code_.op(wide ? "vfncvt.f." + sign + ".w" : "vfcvt.f." + sign + ".v", {single, source});
    if (typed_.real()) return widen(Held::floating, to, scratch);
    return through_float(through, Held::floating, to, single, scratch);
  }
  // exact in 64 bits
  if (wide)
    set(64), code_.op("vfcvt.f." + sign + ".v", {to, source});
  else
    set(), code_.op("vfwcvt.f." + sign + ".v", {to, source});
  if (typed_.real()) return through_float(through, Held::real, to, to, scratch);
  set();
  code_.op("vfncvt.rod.f.f.w", {scratch, to});
  code_.op("vmv.v.v", {to, scratch});
  through_float(through, Held::floating, to, to, scratch);
}

/// Rounds a float to the values of a type; `source` may equal `to`.
void NodeWriter::through_float(DType through, Held from, unsigned to, unsigned source, unsigned scratch) {
  const int width = bits(through);
  set(bits_of(from));
  if (width >= bits_of(from)) {
    if (source != to) code_.op("vmv.v.v", {to, source});
    return;
  }
  const bool real = from == Held::real, brain = through == DType::bf16;
  unsigned narrow = scratch, back = to;
  if (real) {
    set();
    code_.op(width == 32 ? "vfncvt.f.f.w" : "vfncvt.rod.f.f.w", {scratch, source});
    source = scratch, narrow = to, back = scratch;
  }
  if (width == 16) {
    set(16);
    code_.op(brain ? "vfncvtbf16.f.f.w" : "vfncvt.f.f.w", {narrow, source});
    code_.op(brain ? "vfwcvtbf16.f.f.v" : "vfwcvt.f.f.v", {back, narrow});
  }
  if (width == 8) {
    set();
    code_.op("xf.narrow", {narrow, source, static_cast<int>(through)});
    code_.op("xf.widen", {back, narrow, static_cast<int>(through)});
  }
  if (real) widen(Held::floating, to, scratch);
}

}  // namespace tilesim::isa
