#include "tilesim/isa/movement/combine_writer.hpp"

#include <string>

#include "tilesim/base/error.hpp"

namespace tilesim::isa {

namespace {

[[noreturn]] void never_combines(DType dtype, Combiner combiner) {
  throw Unsupported(
      {"no kernel combines this way", {}, std::string(name(combiner)) + " of " + std::string(name(dtype)), {}, {}});
}

const char* float_name(DType dtype, Combiner combiner) {
  const bool narrow = bits(dtype) <= 32;
  switch (combiner) {
    case Combiner::add:
      return "vfadd.vv";
    case Combiner::multiply:
      return "vfmul.vv";
    case Combiner::maximum:
      return narrow ? "xf.max" : nullptr;
    case Combiner::minimum:
      return narrow ? "xf.min" : nullptr;
    default:
      return nullptr;
  }
}

const char* integer_name(DType dtype, Combiner combiner) {
  const bool has_sign = dtype_class(dtype) == DTypeClass::signed_integer;
  switch (combiner) {
    case Combiner::add:
      return "vadd.vv";
    case Combiner::multiply:
      return "vmul.vv";
    case Combiner::maximum:
      return has_sign ? "vmax.vv" : dtype == DType::u64 ? nullptr : "vmaxu.vv";
    case Combiner::minimum:
      return has_sign ? "vmin.vv" : dtype == DType::u64 ? nullptr : "vminu.vv";
    default:
      return nullptr;
  }
}

/// Instruction for operands of 0 and 1.
const char* boolean_name(Combiner combiner) {
  const bool all = combiner == Combiner::multiply || combiner == Combiner::minimum || combiner == Combiner::logical_and;
  return all ? "vand.vv" : "vor.vv";
}

}  // namespace

CombineWriter::CombineWriter(DType dtype, Combiner combiner) : dtype_(dtype) {
  if (is_two_of_four(dtype) || is_complex(dtype) || value_bits(dtype) < 8 || (is_float(dtype) && bits(dtype) == 8))
    never_combines(dtype, combiner);
  name_ = dtype == DType::boolean ? boolean_name(combiner)
          : is_float(dtype)       ? float_name(dtype, combiner)
                                  : integer_name(dtype, combiner);
  if (name_ == nullptr) never_combines(dtype, combiner);
  wide_ = is_float(dtype) && bits(dtype) == 16;
}

void CombineWriter::combine(Code& code, std::int64_t elements, int group, int slot) const {
  const unsigned from = fresh(slot, group), to = old(slot, group);
  code.set_vl(elements, static_cast<unsigned>(bits(dtype_)), group);
  if (!wide_) return code.op(name_, {to, to, from});
  const unsigned a = from + (2U << group), b = from + (4U << group);
  const bool brain = dtype_ == DType::bf16;
  code.op(brain ? "vfwcvtbf16.f.f.v" : "vfwcvt.f.f.v", {a, from});
  code.op(brain ? "vfwcvtbf16.f.f.v" : "vfwcvt.f.f.v", {b, to});
  code.set_vl(elements, 32, group + 1);
  code.op(name_, {b, b, a});
  code.set_vl(elements, 16, group);
  code.op(brain ? "vfncvtbf16.f.f.w" : "vfncvt.f.f.w", {to, b});
}

}  // namespace tilesim::isa
