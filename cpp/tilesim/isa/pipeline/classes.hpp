// Timing classes group instructions of equal cost. A core's file gives numbers to classes, never to single
// instructions; a class without numbers takes those of its parent.
#pragma once

#include <cstdint>
#include <string_view>

#include "tilesim/isa/table/instruction.hpp"

namespace tilesim::isa {

enum class TimingClass : std::uint8_t {
  vector,  ///< root: the default of all classes
  integer,
  logic,
  shift,
  carry,
  move,
  register_move,
  extend,
  integer_compare,
  fixed,
  fixed_shift,
  fixed_multiply,
  multiply,
  multiply_add,
  widening,
  widening_multiply,
  widening_multiply_add,
  narrowing,
  divide,
  divide_scalar,
  floating,
  float_extreme,
  float_fused,
  float_sign,
  float_classify,
  float_compare,
  float_convert,
  float_widening,
  float_widening_first,
  float_widening_convert,
  float_widening_fused,
  float_narrowing,
  float_divide,
  float_divide_scalar,
  float_root,
  float_estimate,
  reduction,
  reduction_logic,
  reduction_widening,
  float_reduction,
  float_sum,
  float_sum_widening,
  float_sum_ordered,
  float_sum_ordered_widening,
  mask_logic,
  mask_scan,
  iota,
  to_scalar,
  mask_to_scalar,
  from_scalar,
  permutation,
  slide_up,
  slide_down,
  slide_up_one,
  slide_down_one,
  gather_one,
  gather,
  compress,
  special,
  matrix,
  memory,
  load,
  load_strided,
  load_segment,
  store,
  store_strided,
  store_segment,
  count
};

inline constexpr std::size_t timing_classes = static_cast<std::size_t>(TimingClass::count);

const char* class_name(TimingClass c);
TimingClass class_parent(TimingClass c);  ///< the root is its own parent
/// Returns false for an unknown name.
bool class_named(std::string_view name, TimingClass& found);

/// The class of a vector instruction, by its timing word, group rule and unit, and by its mnemonic if several
/// instructions share these three.
TimingClass class_of(const InstructionInfo& info);

}  // namespace tilesim::isa
