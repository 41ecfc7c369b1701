#include "tilesim/isa/pipeline/classes.hpp"

#include <array>

namespace tilesim::isa {

namespace {

using T = TimingClass;

struct ClassNode {
  T is, parent;
  const char* name;
};

constexpr std::array<ClassNode, timing_classes> entries{{
    {T::vector, T::vector, "vector"},
    {T::integer, T::vector, "integer"},
    {T::logic, T::integer, "logic"},
    {T::shift, T::logic, "shift"},
    {T::carry, T::logic, "carry"},
    {T::move, T::logic, "move"},
    {T::register_move, T::move, "register-move"},
    {T::extend, T::move, "extend"},
    {T::integer_compare, T::logic, "compare"},
    {T::fixed, T::integer, "fixed"},
    {T::fixed_shift, T::shift, "fixed-shift"},
    {T::fixed_multiply, T::multiply, "fixed-multiply"},
    {T::multiply, T::integer, "multiply"},
    {T::multiply_add, T::multiply, "multiply-add"},
    {T::widening, T::integer, "widening"},
    {T::widening_multiply, T::widening, "widening-multiply"},
    {T::widening_multiply_add, T::widening_multiply, "widening-multiply-add"},
    {T::narrowing, T::shift, "narrowing"},
    {T::divide, T::integer, "divide"},
    {T::divide_scalar, T::divide, "divide-scalar"},
    {T::floating, T::vector, "float"},
    {T::float_extreme, T::floating, "float-extreme"},
    {T::float_fused, T::floating, "float-fused"},
    {T::float_sign, T::logic, "float-sign"},
    {T::float_classify, T::float_sign, "float-classify"},
    {T::float_compare, T::integer_compare, "float-compare"},
    {T::float_convert, T::floating, "float-convert"},
    {T::float_widening, T::widening, "float-widening"},
    {T::float_widening_first, T::float_widening, "float-widening-first"},
    {T::float_widening_convert, T::float_widening, "float-widening-convert"},
    {T::float_widening_fused, T::float_widening, "float-widening-fused"},
    {T::float_narrowing, T::narrowing, "float-narrowing"},
    {T::float_divide, T::floating, "float-divide"},
    {T::float_divide_scalar, T::float_divide, "float-divide-scalar"},
    {T::float_root, T::float_divide, "float-root"},
    {T::float_estimate, T::float_convert, "float-estimate"},
    {T::reduction, T::integer, "reduction"},
    {T::reduction_logic, T::reduction, "reduction-logic"},
    {T::reduction_widening, T::reduction, "reduction-widening"},
    {T::float_reduction, T::reduction, "float-reduction"},
    {T::float_sum, T::float_reduction, "float-sum"},
    {T::float_sum_widening, T::float_sum, "float-sum-widening"},
    {T::float_sum_ordered, T::float_sum, "float-sum-ordered"},
    {T::float_sum_ordered_widening, T::float_sum_ordered, "float-sum-ordered-widening"},
    {T::mask_logic, T::integer, "mask-logic"},
    {T::mask_scan, T::mask_logic, "mask-scan"},
    {T::iota, T::permutation, "iota"},
    {T::to_scalar, T::vector, "to-scalar"},
    {T::mask_to_scalar, T::to_scalar, "mask-to-scalar"},
    {T::from_scalar, T::vector, "from-scalar"},
    {T::permutation, T::logic, "permutation"},
    {T::slide_up, T::permutation, "slide-up"},
    {T::slide_down, T::permutation, "slide-down"},
    {T::slide_up_one, T::slide_up, "slide-up-one"},
    {T::slide_down_one, T::slide_down, "slide-down-one"},
    {T::gather_one, T::permutation, "gather-one"},
    {T::gather, T::permutation, "gather"},
    {T::compress, T::gather, "compress"},
    {T::special, T::vector, "special"},
    {T::matrix, T::vector, "matrix"},
    {T::memory, T::vector, "memory"},
    {T::load, T::memory, "load"},
    {T::load_strided, T::load, "load-strided"},
    {T::load_segment, T::load_strided, "load-segment"},
    {T::store, T::memory, "store"},
    {T::store_strided, T::store, "store-strided"},
    {T::store_segment, T::store_strided, "store-segment"},
}};

bool in_order() {
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (static_cast<std::size_t>(entries[i].is) != i) return false;
  return true;
}

/// The beginning of a mnemonic and its class; the first match counts.
struct Stem {
  std::string_view begin;
  T is;
};

constexpr Stem stems[] = {
    // moves precede the stems that begin like them
    {"vmv.x.s", T::to_scalar},
    {"vfmv.f.s", T::to_scalar},
    {"vmv.s.x", T::from_scalar},
    {"vfmv.s.f", T::from_scalar},
    {"vmv.v", T::move},
    {"vfmv.v", T::move},
    {"vmerge", T::carry},
    {"vfmerge", T::carry},
    {"vmv", T::register_move},
    // rows of lanes
    {"xl.spread", T::permutation},
    {"xl.reduce", T::reduction},
    {"xl.", T::permutation},
    {"xf.m", T::float_extreme},
    {"xf.widen", T::float_widening_convert},
    {"xf.narrow", T::float_narrowing},
    // masks
    {"vcpop", T::mask_to_scalar},
    {"vfirst", T::mask_to_scalar},
    {"vmsbf", T::mask_scan},
    {"vmsof", T::mask_scan},
    {"vmsif", T::mask_scan},
    {"viota", T::iota},
    {"vid", T::iota},
    {"vmand", T::mask_logic},
    {"vmnand", T::mask_logic},
    {"vmor", T::mask_logic},
    {"vmnor", T::mask_logic},
    {"vmxor", T::mask_logic},
    {"vmxnor", T::mask_logic},
    // reductions
    {"vfwredo", T::float_sum_ordered_widening},
    {"vfredo", T::float_sum_ordered},
    {"vfwredu", T::float_sum_widening},
    {"vfredu", T::float_sum},
    {"vfredm", T::float_reduction},
    {"vwred", T::reduction_widening},
    {"vredand", T::reduction_logic},
    {"vredor", T::reduction_logic},
    {"vredxor", T::reduction_logic},
    {"vred", T::reduction},
    // permutations
    {"vslideup", T::slide_up},
    {"vslidedown", T::slide_down},
    {"vslide1up", T::slide_up_one},
    {"vslide1down", T::slide_down_one},
    {"vfslide1up", T::slide_up_one},
    {"vfslide1down", T::slide_down_one},
    {"vrgather.vx", T::gather_one},
    {"vrgather.vi", T::gather_one},
    {"vrgather", T::gather},
    {"vcompress", T::compress},
    // floats
    {"vmf", T::float_compare},
    {"vfclass", T::float_classify},
    {"vfsgnj", T::float_sign},
    {"vfrsqrt7", T::float_estimate},
    {"vfrec7", T::float_estimate},
    {"vfsqrt", T::float_root},
    {"vfdiv.vv", T::float_divide},
    {"vfdiv", T::float_divide_scalar},
    {"vfrdiv", T::float_divide_scalar},
    {"vfwcvt", T::float_widening_convert},
    {"vfncvt", T::float_narrowing},
    {"vfcvt", T::float_convert},
    {"vfwadd.w", T::float_widening_first},
    {"vfwsub.w", T::float_widening_first},
    {"vfwadd", T::float_widening},
    {"vfwsub", T::float_widening},
    {"vfwmul", T::float_widening},
    {"vfw", T::float_widening_fused},
    {"vfmin", T::float_extreme},
    {"vfmax", T::float_extreme},
    {"vfm", T::floating},
    {"vfnm", T::float_fused},
    {"vf", T::floating},
    // integers
    {"vms", T::integer_compare},
    {"vmadc", T::integer_compare},
    {"vadc", T::carry},
    {"vsbc", T::carry},
    {"vand", T::logic},
    {"vor", T::logic},
    {"vxor", T::logic},
    {"vsll", T::shift},
    {"vsrl", T::shift},
    {"vsra", T::shift},
    {"vssrl", T::fixed_shift},
    {"vssra", T::fixed_shift},
    {"vsmul", T::fixed_multiply},
    {"vsadd", T::fixed},
    {"vssub", T::fixed},
    {"vaadd", T::fixed},
    {"vasub", T::fixed},
    {"vsext", T::extend},
    {"vzext", T::extend},
    {"vwmul", T::widening_multiply},
    {"vwmac", T::widening_multiply_add},
    {"vw", T::widening},
    {"vnmsub", T::multiply_add},
    {"vnmsac", T::multiply_add},
    {"vmacc", T::multiply_add},
    {"vmadd", T::multiply_add},
    {"vn", T::narrowing},
    {"vadd", T::integer},
    {"vsub", T::integer},
    {"vrsub", T::integer},
    {"vmin", T::integer},
    {"vmax", T::integer},
    {"vmul", T::multiply},
    {"vdiv", T::divide},
    {"vrem", T::divide},
};

T memory_class(const InstructionInfo& info, bool stores) {
  if (info.groups.fields > 1) return stores ? T::store_segment : T::load_segment;
  const std::string_view name = info.name;
  const bool apart = name.starts_with("vls") || name.starts_with("vss") || name.find("xei") != name.npos;
  if (apart) return stores ? T::store_strided : T::load_strided;
  return stores ? T::store : T::load;
}

}  // namespace

const char* class_name(TimingClass c) { return entries[static_cast<std::size_t>(c)].name; }
TimingClass class_parent(TimingClass c) { return entries[static_cast<std::size_t>(c)].parent; }

bool class_named(std::string_view name, TimingClass& found) {
  static const bool ordered = in_order();
  if (!ordered) return false;
  for (const ClassNode& entry : entries)
    if (name == entry.name) return found = entry.is, true;
  return false;
}

TimingClass class_of(const InstructionInfo& info) {
  if (info.is(is_load)) return memory_class(info, false);
  if (info.is(is_store)) return memory_class(info, true);
  if (info.extension == "custom") {
    if (T named; class_named(info.timing, named)) return named;
  } else {
    const std::string_view name = info.name;
    for (const Stem& stem : stems) {
      if (!name.starts_with(stem.begin)) continue;
      const bool vector = name.ends_with(".vv") || name.ends_with(".vvm");
      if (stem.is == T::floating && info.is(reads_vd)) return T::float_fused;
      if (stem.is == T::divide && !vector) return T::divide_scalar;
      return stem.is;
    }
  }
  switch (info.unit) {
    case Unit::special:
      return T::special;
    case Unit::cross_lane:
      return T::permutation;
    case Unit::matrix:
      return T::matrix;
    default:
      return T::vector;
  }
}

}  // namespace tilesim::isa
