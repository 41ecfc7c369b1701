#include "tilesim/isa/kernel/vector_writer.hpp"

#include <array>
#include <bit>
#include <limits>

#include "tilesim/base/error.hpp"
#include "tilesim/isa/npu/functions.hpp"

namespace tilesim::isa {

namespace {

using F = Function;

[[noreturn]] void no_kernel(const char* what, std::string_view value) {
  throw Unsupported({what, {}, std::string(value), {}, {}});
}

}  // namespace

int stored_bits(DType dtype) {
  if (is_two_of_four(dtype) || dtype == DType::c64 || bits(dtype) > 32 || bits(dtype) < 8)
    no_kernel("no vector kernel loads this type", name(dtype));
  if (dtype == DType::u32) no_kernel("no vector kernel computes with this type", name(dtype));
  return bits(dtype);
}

Held held_as(DType dtype) { return is_float(dtype) ? Held::floating : Held::integer; }

NodeWriter::NodeWriter(Code& code, const VectorCompute& compute, std::int64_t elements, int lmul)
    : code_(code), compute_(compute), elements_(elements), lmul_(lmul) {
  for (const VectorNode& node : compute.nodes) {
    Held held = Held::integer;
    switch (node.op) {
      case VectorNode::Op::input:
        stored_bits(compute.inputs[static_cast<std::size_t>(node.index)].dtype);
        held = held_as(compute.inputs[static_cast<std::size_t>(node.index)].dtype);
        break;
      case VectorNode::Op::constant:
      case VectorNode::Op::scalar:
      case VectorNode::Op::convert:
        if (node.dtype == DType::f64 || node.dtype == DType::i64 || node.dtype == DType::u64)
          inexact_ = "the compute's meaning has 64 bits where the kernel has 32";
        held = held_as(node.dtype);
        break;
      case VectorNode::Op::iota:
        break;
      case VectorNode::Op::function:
        held = info(node.function).returns_boolean ? Held::integer : work(node);
        break;
      case VectorNode::Op::scan:
        held = held_[static_cast<std::size_t>(node.arguments[0])];
        break;
    }
    held_.push_back(held);
  }
}

/// What a function computes in: floats where one of its operands is (a select's condition aside).
Held NodeWriter::work(const VectorNode& node) const {
  for (int a = node.function == F::select ? 1 : 0; a < info(node.function).arity; ++a)
    if (held_[static_cast<std::size_t>(node.arguments[static_cast<std::size_t>(a)])] == Held::floating)
      return Held::floating;
  return Held::integer;
}

void NodeWriter::load(DType dtype, unsigned to, unsigned pointer, unsigned scratch, std::int64_t step) {
  const int width = stored_bits(dtype);
  set(width);
  static constexpr const char* loads[] = {"vle8.v", "vle16.v", "vle32.v"};
  const auto which = static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(width)) - 4);
  code_.op(loads[which], {width == 32 ? to : scratch, pointer});
  code_.advance(pointer, step);
  if (width == 32) return;
  if (is_float(dtype) && width == 8) {
    set();
    return code_.op("xf.widen", {to, scratch, static_cast<int>(dtype)});
  }
  if (is_float(dtype)) return code_.op(dtype == DType::bf16 ? "vfwcvtbf16.f.f.v" : "vfwcvt.f.f.v", {to, scratch});
  const bool has_sign = dtype_class(dtype) == DTypeClass::signed_integer;
  set();
  code_.op(has_sign ? (width == 8 ? "vsext.vf4" : "vsext.vf2") : (width == 8 ? "vzext.vf4" : "vzext.vf2"),
           {to, scratch});
}

void NodeWriter::store(DType dtype, Held held, unsigned from, unsigned pointer, unsigned scratch) {
  const int width = stored_bits(dtype);
  unsigned value = from;
  if (held != held_as(dtype)) {
    if (held == Held::integer)
      set(), code_.op("vfcvt.f.x.v", {scratch, from});
    else
      convert(dtype, held, scratch, from, scratch);
    value = scratch;
  } else if (dtype == DType::boolean) {
    set();
    code_.op("vmsne.vi", {0, from, 0});
    from_mask(scratch);
    value = scratch;
  }
  if (width == 32) {
    set();
    return code_.op("vse32.v", {value, pointer});
  }
  if (is_float(dtype) && width == 8) {
    set();
    code_.op("xf.narrow", {scratch, value, static_cast<int>(dtype)});
    set(8);
    return code_.op("vse8.v", {scratch, pointer});
  }
  set(16);
  if (is_float(dtype)) {
    code_.op(dtype == DType::bf16 ? "vfncvtbf16.f.f.w" : "vfncvt.f.f.w", {scratch, value});
    return code_.op("vse16.v", {scratch, pointer});
  }
  code_.op("vnsrl.wi", {scratch, value, 0});
  if (width == 16) return code_.op("vse16.v", {scratch, pointer});
  set(8);
  code_.op("vnsrl.wi", {scratch, scratch, 0});
  code_.op("vse8.v", {scratch, pointer});
}

/// Equally long for all values: what a scalar is does not change how long its kernel takes.
void NodeWriter::fill(unsigned to, std::uint32_t value) {
  set();
  const std::int64_t low = static_cast<std::int64_t>(std::uint64_t{value} << 52) >> 52;
  code_.op("lui", {t1, (value - low) >> 12 & 0xFFFFF});
  code_.op("addiw", {t1, t1, low});
  code_.op("vmv.v.x", {to, t1});
}

void NodeWriter::constant(const VectorNode& node, unsigned to) {
  if (held_as(node.dtype) == Held::floating) {
    float value = 0;
    tilesim::convert(&node.number, DType::f64, &value, DType::f32, 1);
    return fill(to, std::bit_cast<std::uint32_t>(value));
  }
  std::int32_t value = 0;
  tilesim::convert(&node.number, DType::f64, &value, DType::i32, 1);
  fill(to, static_cast<std::uint32_t>(value));
}

void NodeWriter::neutral(Combiner combiner, DType dtype, Held held, unsigned to) {
  if (held == Held::floating)
    return fill(to, std::bit_cast<std::uint32_t>(static_cast<float>(identity_element(combiner, dtype))));
  fill(to, static_cast<std::uint32_t>(integer_identity(combiner, is_float(dtype) ? DType::i32 : dtype)));
}

void NodeWriter::join(Combiner combiner, Held held, unsigned to, unsigned x, unsigned y, unsigned scratch) {
  set();
  const bool is_floating = held == Held::floating;
  switch (combiner) {
    case Combiner::add:
      return code_.op(is_floating ? "vfadd.vv" : "vadd.vv", {to, x, y});
    case Combiner::multiply:
      return code_.op(is_floating ? "vfmul.vv" : "vmul.vv", {to, x, y});
    case Combiner::maximum:
    case Combiner::minimum:
      return extreme(combiner == Combiner::maximum, held, to, x, y, scratch);
    default:
      no_kernel("no kernel combines so", name(combiner));
  }
}

void NodeWriter::from_mask(unsigned to) {
  code_.op("vmv.v.i", {to, 0});
  code_.op("vmerge.vim", {to, to, 1});
}

/// to = 1 where x is not 0, else 0.
void NodeWriter::truth(Held held, unsigned to, unsigned x, unsigned scratch) {
  set();
  if (held == Held::integer) {
    code_.op("vmsne.vi", {0, x, 0});
    return from_mask(to);
  }
  fill(scratch, std::bit_cast<std::uint32_t>(1.0F));
  fill(to, 0);
  code_.op("vmfne.vv", {0, x, to});
  code_.op("vmerge.vvm", {to, to, scratch});
}

/// The larger or smaller; NaN where one is.
void NodeWriter::extreme(bool largest, Held held, unsigned to, unsigned x, unsigned y, unsigned) {
  if (held == Held::integer) return code_.op(largest ? "vmax.vv" : "vmin.vv", {to, x, y});
  code_.op(largest ? "xf.max" : "xf.min", {to, x, y});
}

void NodeWriter::compare(const char* name, bool swapped, Held held, unsigned to, unsigned x, unsigned y) {
  static const std::map<std::string, std::array<const char*, 2>> names{{"eq", {"vmfeq.vv", "vmseq.vv"}},
                                                                       {"ne", {"vmfne.vv", "vmsne.vv"}},
                                                                       {"lt", {"vmflt.vv", "vmslt.vv"}},
                                                                       {"le", {"vmfle.vv", "vmsle.vv"}}};
  code_.op(names.at(name)[held == Held::floating ? 0 : 1], {0, swapped ? y : x, swapped ? x : y});
  from_mask(to);
}

void NodeWriter::unary(Function f, Held held, unsigned to, unsigned x, unsigned scratch) {
  const bool is_floating = held == Held::floating;
  switch (f) {
    case F::identity:
      return code_.op("vmv.v.v", {to, x});
    case F::negate:
      return is_floating ? code_.op("vfsgnjn.vv", {to, x, x}) : code_.op("vrsub.vi", {to, x, 0});
    case F::abs:
      if (is_floating) return code_.op("vfsgnjx.vv", {to, x, x});
      code_.op("vrsub.vi", {scratch, x, 0});
      return code_.op("vmax.vv", {to, x, scratch});
    case F::relu:
      if (!is_floating) return code_.op("vmax.vx", {to, x, zero});
      if (zero_ != 0) return code_.op("xf.max", {to, x, zero_});
      code_.op("vmv.v.i", {scratch, 0});
      return code_.op("xf.max", {to, x, scratch});
    case F::sqrt:
      if (is_floating) return code_.op("vfsqrt.v", {to, x});
      break;
    case F::reciprocal:
      if (!is_floating) break;
      fill(scratch, std::bit_cast<std::uint32_t>(1.0F));
      return code_.op("vfdiv.vv", {to, scratch, x});
    case F::round_even:
    case F::trunc:
      if (!is_floating) return code_.op("vmv.v.v", {to, x});
      // whole numbers from 2^23 on, and NaN, stay
      code_.op("vfcvt" + std::string(f == F::trunc ? ".rtz" : "") + ".x.f.v", {scratch, x});
      code_.op("vfcvt.f.x.v", {scratch, scratch});
      code_.op("vfsgnj.vv", {to, scratch, x});
      code_.op("vfsgnjx.vv", {scratch, x, x});
      code_.load_constant(t1, std::bit_cast<std::int32_t>(8388608.0F));
      code_.op("fmv.w.x", {0, t1});
      code_.op("vmflt.vf", {0, scratch, 0});
      return code_.op("vmerge.vvm", {to, x, to});
    case F::is_nan:
      if (!is_floating) break;
      code_.op("vmfne.vv", {0, x, x});
      return from_mask(to);
    case F::logical_not:
      if (is_floating) break;
      code_.op("vmseq.vi", {0, x, 0});
      return from_mask(to);
    default:
      if (is_floating && special_number(f) >= 0) return code_.op("fn", {to, x, special_number(f)});
  }
  no_kernel("no vector kernel computes this function", info(f).name);
}

void NodeWriter::binary(Function f, Held held, unsigned to, unsigned x, unsigned y, unsigned scratch) {
  const bool is_floating = held == Held::floating;
  const auto either = [&](const char* floats, const char* integers) {
    code_.op(is_floating ? floats : integers, {to, x, y});
  };
  switch (f) {
    case F::add:
      return either("vfadd.vv", "vadd.vv");
    case F::subtract:
      return either("vfsub.vv", "vsub.vv");
    case F::multiply:
      return either("vfmul.vv", "vmul.vv");
    case F::divide:
      if (is_floating) return code_.op("vfdiv.vv", {to, x, y});
      break;
    case F::maximum:
    case F::minimum:
      return extreme(f == F::maximum, held, to, x, y, scratch);
    case F::equal:
      return compare("eq", false, held, to, x, y);
    case F::not_equal:
      return compare("ne", false, held, to, x, y);
    case F::less:
      return compare("lt", false, held, to, x, y);
    case F::less_equal:
      return compare("le", false, held, to, x, y);
    case F::greater:
      return compare("lt", true, held, to, x, y);
    case F::greater_equal:
      return compare("le", true, held, to, x, y);
    default:
      break;
  }
  no_kernel("no vector kernel computes this function", info(f).name);
}

unsigned NodeWriter::as(Held wanted, int node, unsigned reg, unsigned scratch) {
  if (held(node) == wanted) return reg;
  code_.op("vfcvt.f.x.v", {scratch, reg});
  return scratch;
}

bool NodeWriter::taken(const VectorNode& node, Held in, unsigned to, const unsigned* arguments, unsigned scratch) {
  const InstructionInfo* own = code_.set().taken_for(node.function);
  if (own == nullptr || held_as(own->replaces->element) != in) return false;
  const DType element = own->replaces->element;
  const bool narrow = bits(element) == 16;
  const char* const down = element == DType::bf16 ? "vfncvtbf16.f.f.w" : "vfncvt.f.f.w";
  // arguments by their places in the text; one in the destination comes first
  std::vector<std::int64_t> operands{to};
  const bool in_place = own->is(reads_vd);
  const int arity = info(node.function).arity;
  if (narrow && arity > (in_place ? 1 : 2))
    no_kernel("no vector kernel converts so many operands", info(node.function).name);
  unsigned spare = to;  // a second narrow operand
  for (int a = 0; a < arity; ++a) {
    unsigned value = as(in, node.arguments[static_cast<std::size_t>(a)], arguments[a], scratch);
    if (narrow) {
      if (a > 0 && value == scratch)
        no_kernel("no vector kernel mixes integers and floats so", info(node.function).name);
      set(16);
      const unsigned place = a == 0 ? scratch : spare;
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
  set();
  const Held in = work(node);
  const int arity = info(node.function).arity;
  if (in == Held::integer && !info(node.function).returns_boolean && node.function != F::select && arity > 1)
    inexact_ = "integers wrap at 32 bits";
  int mixed = 0;
  for (int a = node.function == F::select ? 1 : 0; a < arity; ++a)
    mixed += held(node.arguments[static_cast<std::size_t>(a)]) != in ? 1 : 0;
  if (mixed > 1 || (mixed > 0 && arity > 2))
    no_kernel("no vector kernel mixes integers and floats so", info(node.function).name);
  if (taken(node, in, to, arguments, scratch)) return;
  const auto argument = [&](int a) {
    return as(in, node.arguments[static_cast<std::size_t>(a)], arguments[a], scratch);
  };
  if (node.function == F::select) {
    const bool condition = held(node.arguments[0]) == Held::floating;
    if (condition) no_kernel("no vector kernel selects by floats", {});
    code_.op("vmsne.vi", {0, arguments[0], 0});
    return code_.op("vmerge.vvm", {to, argument(2), argument(1)});
  }
  if (node.function == F::clamp) {
    extreme(true, in, scratch, arguments[1], arguments[0], scratch);
    return extreme(false, in, to, scratch, arguments[2], scratch);
  }
  if (node.function == F::fma) {
    if (in != Held::floating) no_kernel("no vector kernel computes this function", "fma");
    code_.op("vmv.v.v", {to, arguments[2]});
    return code_.op("vfmacc.vv", {to, arguments[0], arguments[1]});
  }
  if (arity == 1) return unary(node.function, in, to, argument(0), scratch);
  if (mixed > 0 && (node.function == F::maximum || node.function == F::minimum))
    no_kernel("no vector kernel mixes integers and floats so", info(node.function).name);
  const unsigned x = argument(0), y = argument(1);
  binary(node.function, in, to, x, y, scratch);
}

void NodeWriter::convert(DType through, Held from, unsigned to, unsigned source, unsigned scratch) {
  set();
  const Held target = held_as(through);
  if (from == Held::floating && target == Held::integer) {
    // outside of the range they saturate, where the meaning wraps
    inexact_ = "floats beyond an integer type's range saturate";
    code_.op("vmfne.vv", {0, source, source});
    code_.op("vfcvt.rtz.x.f.v", {to, source});
    return code_.op("vmerge.vim", {to, to, 0});
  }
  if (from == Held::integer && target == Held::floating) {
    code_.op("vfcvt.f.x.v", {to, source});
    source = to;
  }
  if (target == Held::floating && bits(through) == 16) {
    set(16);
    code_.op(through == DType::bf16 ? "vfncvtbf16.f.f.w" : "vfncvt.f.f.w", {scratch, source});
    return code_.op(through == DType::bf16 ? "vfwcvtbf16.f.f.v" : "vfwcvt.f.f.v", {to, scratch});
  }
  if (target == Held::floating && bits(through) == 8) {
    code_.op("xf.narrow", {scratch, source, static_cast<int>(through)});
    return code_.op("xf.widen", {to, scratch, static_cast<int>(through)});
  }
  if (target == Held::integer && bits(through) < 32) inexact_ = "integers are not wrapped to a narrower type";
  if (source != to) code_.op("vmv.v.v", {to, source});
}

}  // namespace tilesim::isa
