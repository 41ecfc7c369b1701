// Translates integer functions to instructions.
#include <cmath>

#include "tilesim/isa/kernel/vector_writer.hpp"

namespace tilesim::isa {

namespace {

using F = Function;

std::string signed_name(const char* name, Held held) { return name + std::string(has_sign(held) ? ".vv" : "u.vv"); }

bool is_number(const VectorNode& node) {
  return node.op == VectorNode::Op::constant || node.op == VectorNode::Op::scalar;
}

}  // namespace

void NodeWriter::integer_unary(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned scratch) {
  switch (node.function) {
    case F::identity:
    case F::floor:
    case F::ceil:
    case F::round_even:
    case F::trunc:
      return code_.op("vmv.v.v", {to, x});
    case F::negate:
      return code_.op("vrsub.vi", {to, x, 0});
    case F::abs:
      if (!has_sign(in)) return code_.op("vmv.v.v", {to, x});
      code_.op("vrsub.vi", {scratch, x, 0});
      return code_.op("vmax.vv", {to, x, scratch});
    case F::relu:
      if (in == Held::wide_natural) break;
      if (!has_sign(in)) return code_.op("vmv.v.v", {to, x});
      return code_.op("vmax.vx", {to, x, zero});
    case F::sign:
      code_.load_constant(t1, has_sign(in) ? bits_of(in) - 1 : 1);
      if (!has_sign(in)) return code_.op("vminu.vx", {to, x, t1});
      code_.op("vsra.vx", {scratch, x, t1});
      code_.op("vrsub.vi", {to, x, 0});
      code_.load_constant(t1, bits_of(in) - 1);
      code_.op("vsrl.vx", {to, to, t1});
      return code_.op("vor.vv", {to, to, scratch});
    case F::bitwise_not:
      if (node.dtype != DType::boolean) return code_.op("vxor.vi", {to, x, -1});
      [[fallthrough]];
    case F::logical_not:
      at_most_one(to, x);
      if (bits_of(in) == 64) to_32_bits(to, to, 0);
      return code_.op("vxor.vi", {to, to, 1});
    case F::is_finite:
    case F::is_nan:
      set();
      return code_.op("vmv.v.i", {to, node.function == F::is_finite ? 1 : 0});
    case F::popcount:
      return count_bits(node.dtype, in, to, x, scratch);
    default:
      break;
  }
  no_vector_kernel(no_function_kernel, info(node.function).name);
}

/// Counts in groups of 2, 4 and 8 bits, then sums all bytes by a product.
void NodeWriter::count_bits(DType dtype, Held in, unsigned to, unsigned x, unsigned scratch) {
  const int width = bits_of(in), counted = is_integer(dtype) ? bits(dtype) : dtype == DType::boolean ? 1 : 64;
  const auto with = [&](const char* name, unsigned result, unsigned operand, std::uint64_t number) {
    code_.load_constant(t1, width == 64 ? static_cast<std::int64_t>(number) : static_cast<std::int32_t>(number));
    code_.op(name, {result, operand, t1});
  };
  const std::uint64_t all = ~std::uint64_t{0};
  if (counted < width) with("vand.vx", to, x, (std::uint64_t{1} << counted) - 1), x = to;
  code_.op("vsrl.vi", {scratch, x, 1});
  with("vand.vx", scratch, scratch, all / 3);
  code_.op("vsub.vv", {to, x, scratch});
  code_.op("vsrl.vi", {scratch, to, 2});
  with("vand.vx", scratch, scratch, all / 5);
  with("vand.vx", to, to, all / 5);
  code_.op("vadd.vv", {to, to, scratch});
  code_.op("vsrl.vi", {scratch, to, 4});
  code_.op("vadd.vv", {to, to, scratch});
  with("vand.vx", to, to, all / 17);
  with("vmul.vx", to, to, all / 255);
  with("vsrl.vx", to, to, static_cast<std::uint64_t>(width - 8));
}

void NodeWriter::integer_binary(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y,
                                unsigned scratch) {
  switch (node.function) {
    case F::add:
      return code_.op("vadd.vv", {to, x, y});
    case F::subtract:
      return code_.op("vsub.vv", {to, x, y});
    case F::multiply:
      return code_.op("vmul.vv", {to, x, y});
    case F::bitwise_and:
      return code_.op("vand.vv", {to, x, y});
    case F::bitwise_or:
      return code_.op("vor.vv", {to, x, y});
    case F::bitwise_xor:
      return code_.op("vxor.vv", {to, x, y});
    case F::divide:
    case F::remainder:
    case F::floor_divide:
      return divide(node, in, to, x, y, scratch);
    case F::shift_left:
    case F::shift_right:
      return shift(node, in, to, x, y, scratch);
    default:
      no_vector_kernel(no_function_kernel, info(node.function).name);
  }
}

bool NodeWriter::checks_divisor(const VectorNode& node) const {
  const bool divides =
      node.op == VectorNode::Op::function &&
      (node.function == F::divide || node.function == F::remainder || node.function == F::floor_divide);
  if (!divides || is_floating(held(node.arguments[1]))) return false;
  const VectorNode& divisor = compute_.nodes[static_cast<std::size_t>(node.arguments[1])];
  return !is_number(divisor) && typed_.value_at(node.arguments[1]).numbers.contains(0);
}

void NodeWriter::divide(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch) {
  const VectorNode& divisor = compute_.nodes[static_cast<std::size_t>(node.arguments[1])];
  if (is_number(divisor) && std::abs(divisor.number) < 1) inexact_ = "it divides by zero";
  if (checks_divisor(node)) {
    const unsigned smallest = divisors_[bits_of(in) == 64 ? 1 : 0];
    if (smallest == 0) no_vector_kernel(no_function_kernel, info(node.function).name);
    code_.op("vminu.vv", {smallest, smallest, y});
  }
  if (node.function == F::remainder) return code_.op(signed_name("vrem", in), {to, x, y});
  code_.op(signed_name("vdiv", in), {to, x, y});
  if (node.function == F::divide || !has_sign(in)) return;
  // subtract one if the remainder is not 0 and its sign differs from the divisor's
  code_.op("vmv.v.v", {scratch, x});
  code_.op("vnmsac.vv", {scratch, to, y});
  if (typed_.value_at(node.arguments[1]).numbers.low > 0) {
    code_.load_constant(t1, bits_of(in) - 1);
    code_.op("vsra.vx", {scratch, scratch, t1});
    return code_.op("vadd.vv", {to, to, scratch});
  }
  code_.op("vmseq.vi", {0, scratch, 0});
  code_.op("vxor.vv", {scratch, scratch, y});
  code_.op("vmsgt.vi", {scratch, scratch, -1});
  code_.op("vmor.mm", {0, 0, scratch});
  code_.op("vadc.vim", {to, to, -1});
}

void NodeWriter::shift(const VectorNode& node, Held in, unsigned to, unsigned x, unsigned y, unsigned scratch) {
  const bool left = node.function == F::shift_left;
  const int most = bits_of(in) - 1;
  const std::string name = left ? "vsll.vv" : has_sign(in) ? "vsra.vv" : "vsrl.vv";
  if (typed_.value_at(node.arguments[1]).numbers.within({0, most})) return code_.op(name, {to, x, y});
  if (!left && has_sign(in)) {  // larger shifts leave only the sign
    code_.load_constant(t1, most);
    code_.op("vminu.vx", {scratch, y, t1});
    return code_.op(name, {to, x, scratch});
  }
  code_.op(name, {to, x, y});
  code_.load_constant(t1, most);
  code_.op("vmsgtu.vx", {0, y, t1});
  code_.op("vmerge.vim", {to, to, 0});
}

}  // namespace tilesim::isa
