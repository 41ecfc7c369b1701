// Translates elementwise functions to instructions.
#include <bit>
#include <limits>
#include <utility>

#include "tilesim/isa/kernel/vector_writer.hpp"
#include "tilesim/isa/npu/functions.hpp"

namespace tilesim::isa {

namespace {

using F = Function;

/// Whether the function maps booleans to booleans, without a comparison.
bool closed_on_flags(F f) {
  return f == F::identity || f == F::multiply || f == F::maximum || f == F::minimum || f == F::bitwise_and ||
         f == F::bitwise_or || f == F::bitwise_xor || f == F::select || f == F::clamp || f == F::abs || f == F::relu;
}

}  // namespace

bool NodeWriter::takes_mask(const VectorNode& node) const {
  if (node.op == VectorNode::Op::convert) return is_floating(held(node.arguments[0])) != is_float(node.dtype);
  if (node.op != VectorNode::Op::function) return false;
  switch (node.function) {
    case F::identity:
    case F::negate:
    case F::abs:
    case F::relu:
    case F::sqrt:
    case F::reciprocal:
    case F::add:
    case F::subtract:
    case F::multiply:
    case F::divide:
    case F::remainder:
    case F::maximum:
    case F::minimum:
    case F::bitwise_and:
    case F::bitwise_or:
    case F::bitwise_xor:
    case F::clamp:
    case F::fma:
    case F::bitwise_not:
    case F::sign:
      return is_floating(value_of(node).work) && node.function == F::sign;
    case F::equal:
    case F::not_equal:
    case F::less:
    case F::less_equal:
    case F::greater:
    case F::greater_equal:
    case F::logical_and:
    case F::logical_or:
    case F::logical_xor:
    case F::logical_not:
      return is_floating(value_of(node).work);
    case F::power:
    case F::atan2:
      return false;
    case F::floor_divide:
      return !is_floating(value_of(node).work);
    default:
      return special_number(node.function) < 0;
  }
}

bool NodeWriter::taken(const VectorNode& node, Held in, unsigned to, const unsigned* arguments, unsigned scratch) {
  const InstructionInfo* own = code_.set().taken_for(node.function);
  if (own == nullptr || held_as(own->replaces->element) != in) return false;
  const DType element = own->replaces->element;
  const bool narrow = bits(element) == 16;
  const char* const down = element == DType::bf16 ? "vfncvtbf16.f.f.w" : "vfncvt.f.f.w";
  // operands in the order of the text; one in the destination comes first
  std::vector<std::int64_t> operands{to};
  const bool in_place = own->is(reads_vd);
  const int arity = info(node.function).arity;
  if (narrow && arity > (in_place ? 1 : 2))
    no_vector_kernel("no vector kernel converts so many operands", info(node.function).name);
  for (int a = 0; a < arity; ++a) {
    unsigned value = arguments[a];
    if (narrow) {
      set(16);
      const unsigned place = a == 0 ? scratch : to;  // a second narrow operand
      code_.op(down, {place, value});
      value = place;
    }
    if (a == 0 && in_place) {
      if (!narrow) code_.op("vmv.v.v", {to, value});
      continue;
    }
    operands.push_back(value);
  }
  if (!narrow) return code_.op(own->name, operands), true;
  operands[0] = scratch;
  code_.op(own->name, operands);
  code_.op(element == DType::bf16 ? "vfwcvtbf16.f.f.v" : "vfwcvt.f.f.v", {to, scratch});
  return true;
}

void NodeWriter::function(const VectorNode& node, unsigned to, const unsigned* arguments, unsigned scratch) {
  const Held in = value_of(node).work;
  set(bits_of(in));
  if (taken(node, in, to, arguments, scratch)) return;
  switch (info(node.function).arity) {
    case 1:
      unary(node, in, to, arguments[0], scratch);
      break;
    case 2:
      binary(node, in, to, arguments[0], arguments[1], scratch);
      break;
    default:
      if (node.function == F::select) {
        select(node, to, arguments);
      } else if (node.function == F::clamp) {
        extreme(true, in, scratch, arguments[1], arguments[0]);
        extreme(false, in, to, scratch, arguments[2]);
      } else {
        code_.op("vmv.v.v", {to, arguments[2]});
        code_.op(is_floating(in) ? "vfmacc.vv" : "vmacc.vv", {to, arguments[0], arguments[1]});
      }
  }
  const bool flags = node.dtype == DType::boolean && !is_floating(in) && !info(node.function).returns_boolean &&
                     node.function != F::bitwise_not;
  bool of_flags = closed_on_flags(node.function);
  for (int a = 0; a < info(node.function).arity; ++a)
    of_flags = of_flags && typed_.value_at(node.arguments[static_cast<std::size_t>(a)]).numbers.within({0, 1});
  if (!flags || (of_flags && bits_of(in) == 32)) return;
  at_most_one(to, to);
  if (bits_of(in) == 64) to_32_bits(to, to, 0);
}

void NodeWriter::select(const VectorNode& node, unsigned to, const unsigned* arguments) {
  const Held condition = held(node.arguments[0]);
  set(bits_of(condition));
  if (is_floating(condition))
    in_float_register(0, condition), code_.op("vmfne.vf", {0, arguments[0], 0});
  else
    code_.op("vmsne.vi", {0, arguments[0], 0});
  set(bits_of(value_of(node).work));
  code_.op("vmerge.vvm", {to, arguments[2], arguments[1]});
}

bool NodeWriter::compares(const VectorNode& node) const {
  return node.op == VectorNode::Op::function && node.function >= F::equal && node.function <= F::greater_equal &&
         code_.set().taken_for(node.function) == nullptr;
}

void NodeWriter::select_where(const VectorNode& node, unsigned to, const unsigned* arguments,
                              const VectorNode& comparison, const unsigned* compared) {
  const Held in = value_of(comparison).work;
  set(bits_of(in));
  compare(comparison.function, in, compared[0], compared[1]);
  set(bits_of(value_of(node).work));
  code_.op("vmerge.vvm", {to, arguments[2], arguments[1]});
}

/// Writes the comparison's mask to v0.
void NodeWriter::compare(F f, Held in, unsigned x, unsigned y) {
  if (f == F::greater || f == F::greater_equal) std::swap(x, y);
  const bool ordered = f != F::equal && f != F::not_equal;
  const std::string how = f == F::equal                     ? "eq"
                          : f == F::not_equal               ? "ne"
                          : f == F::less || f == F::greater ? "lt"
                                                            : "le";
  code_.op((is_floating(in) ? "vmf" : "vms") + how + (ordered && !has_sign(in) ? "u.vv" : ".vv"), {0, x, y});
}

void NodeWriter::unary(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned scratch) {
  is_floating(in) ? float_unary(node.function, in, to, x, scratch) : integer_unary(node, in, to, x, scratch);
}

/// Rounds to an integer; NaN and numbers from 2^23 (f64: 2^52) on are unchanged.
void NodeWriter::whole_number(F f, Held in, unsigned to, unsigned x, unsigned scratch) {
  code_.op("vfcvt" + std::string(f == F::round_even ? "" : ".rtz") + ".x.f.v", {scratch, x});
  code_.op("vfcvt.f.x.v", {scratch, scratch});
  code_.op("vfsgnj.vv", {to, scratch, x});
  if (f == F::floor || f == F::ceil) {
    const bool down = f == F::floor;
    code_.op("vmflt.vv", {0, down ? x : to, down ? to : x});
    in_float_register(down ? -1 : 1, in);
    code_.op("vfadd.vf", {scratch, to, 0});
    code_.op("vmerge.vvm", {to, to, scratch});
  }
  code_.op("vfsgnjx.vv", {scratch, x, x});
  in_float_register(in == Held::real ? 4503599627370496.0 : 8388608.0, in);
  code_.op("vmflt.vf", {0, scratch, 0});
  code_.op("vmerge.vvm", {to, x, to});
}

void NodeWriter::float_unary(F f, Held in, unsigned to, unsigned x, unsigned scratch) {
  switch (f) {
    case F::identity:
      return code_.op("vmv.v.v", {to, x});
    case F::negate:
      return code_.op("vfsgnjn.vv", {to, x, x});
    case F::abs:
      return code_.op("vfsgnjx.vv", {to, x, x});
    case F::relu:
      if (zero_ != 0) return code_.op("xf.max", {to, x, zero_});
      code_.op("vmv.v.i", {scratch, 0});
      return code_.op("xf.max", {to, x, scratch});
    case F::sqrt:
      return code_.op("vfsqrt.v", {to, x});
    case F::reciprocal:
      if (in == Held::real)
        fill_wide(scratch, std::bit_cast<std::int64_t>(1.0));
      else
        fill(scratch, std::bit_cast<std::uint32_t>(1.0F));
      return code_.op("vfdiv.vv", {to, scratch, x});
    case F::round_even:
    case F::trunc:
    case F::floor:
    case F::ceil:
      return whole_number(f, in, to, x, scratch);
    case F::sign:
      in_float_register(1, in);
      code_.op("vfmv.v.f", {scratch, 0});
      code_.op("vfsgnj.vv", {to, scratch, x});
      in_float_register(0, in);
      code_.op("vmfeq.vf", {0, x, 0});
      code_.op("vmerge.vim", {to, to, 0});
      code_.op("vmfne.vv", {0, x, x});
      return code_.op("vmerge.vvm", {to, to, x});
    case F::is_nan:
      code_.op("vmfne.vv", {0, x, x});
      return from_mask(to);
    case F::is_finite:
      code_.op("vfsgnjx.vv", {scratch, x, x});
      in_float_register(std::numeric_limits<double>::infinity(), in);
      code_.op("vmflt.vf", {0, scratch, 0});
      return from_mask(to);
    case F::logical_not:
      in_float_register(0, in);
      code_.op("vmfeq.vf", {0, x, 0});
      return from_mask(to);
    default:
      if (special_number(f) >= 0) return code_.op("fn", {to, x, special_number(f)});
  }
  no_vector_kernel(no_function_kernel, info(f).name);
}

void NodeWriter::binary(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch) {
  switch (node.function) {
    case F::maximum:
    case F::minimum:
      return extreme(node.function == F::maximum, in, to, x, y);
    case F::equal:
    case F::not_equal:
    case F::less:
    case F::less_equal:
    case F::greater:
    case F::greater_equal:
      if (!is_floating(in)) return compared(node.function, in, to, x, y);
      compare(node.function, in, x, y);
      return from_mask(to);
    case F::logical_and:
    case F::logical_or:
    case F::logical_xor:
      return logical(node, in, to, x, y, scratch);
    default:
      is_floating(in) ? float_binary(node.function, to, x, y) : integer_binary(node, in, to, x, y, scratch);
  }
}

void NodeWriter::logical(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch) {
  const F f = node.function;
  const std::string name = f == F::logical_and ? "and" : f == F::logical_or ? "or" : "xor";
  if (is_floating(in)) {
    for (const auto& [mask, of] : {std::pair{scratch, x}, {0U, y}})
      in_float_register(0, in), code_.op("vmfne.vf", {mask, of, 0});
    code_.op("vm" + name + ".mm", {0, 0, scratch});
    return from_mask(to);
  }
  if (!typed_.value_at(node.arguments[0]).numbers.within({0, 1})) at_most_one(scratch, x), x = scratch;
  if (!typed_.value_at(node.arguments[1]).numbers.within({0, 1})) at_most_one(to, y), y = to;
  code_.op("v" + name + ".vv", {to, x, y});
  if (bits_of(in) == 64) to_32_bits(to, to, 0);
}

/// to = min(x, 1), unsigned: 1 if x is not 0.
void NodeWriter::at_most_one(unsigned to, unsigned x) {
  code_.load_constant(t1, 1);
  code_.op("vminu.vx", {to, x, t1});
}

/// Takes 32 of 64 bits, starting at bit `from`.
void NodeWriter::to_32_bits(unsigned to, unsigned x, int from) {
  set();
  code_.load_constant(t1, from);
  code_.op("vnsrl.wx", {to, x, t1});
}

/// Compares integers to 0 or 1 without a mask, because instructions that read a mask must wait for it.
void NodeWriter::compared(F f, Held in, unsigned to, unsigned x, unsigned y) {
  const int highest = bits_of(in) - 1;
  const bool ordered = f != F::equal && f != F::not_equal, wide = bits_of(in) == 64;
  // computes x < y, or not (y < x); saturating differences keep their sign
  if (f == F::greater || f == F::less_equal) std::swap(x, y);
  const bool turned = f == F::less_equal || f == F::greater_equal || f == F::equal;
  if (!ordered || !has_sign(in)) {
    code_.op(ordered ? "vssubu.vv" : "vxor.vv", {to, ordered ? y : x, ordered ? x : y});
    at_most_one(to, to);
    if (wide) to_32_bits(to, to, 0);
  } else {
    code_.op("vssub.vv", {to, x, y});
    if (wide)
      to_32_bits(to, to, highest);
    else
      code_.op("vsrl.vi", {to, to, highest});
  }
  if (turned) code_.op("vxor.vi", {to, to, 1});
}

void NodeWriter::float_binary(F f, unsigned to, unsigned x, unsigned y) {
  switch (f) {
    case F::add:
      return code_.op("vfadd.vv", {to, x, y});
    case F::subtract:
      return code_.op("vfsub.vv", {to, x, y});
    case F::multiply:
      return code_.op("vfmul.vv", {to, x, y});
    case F::divide:
      return code_.op("vfdiv.vv", {to, x, y});
    case F::power:
      return code_.op("fn.power", {to, x, y});
    case F::atan2:
      return code_.op("fn.atan2", {to, x, y});
    case F::remainder:
      return code_.op("fn.remainder", {to, x, y});
    case F::floor_divide:
      return code_.op("fn.floor_divide", {to, x, y});
    default:
      no_vector_kernel(no_function_kernel, info(f).name);
  }
}

}  // namespace tilesim::isa
