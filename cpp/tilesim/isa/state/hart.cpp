#include "tilesim/isa/state/hart.hpp"

#include <cfenv>

namespace tilesim::isa {

namespace {

/// The rounding mode in <cfenv>, which lacks nearest with ties away.
int host_mode(Round mode) {
  switch (mode) {
    case Round::zero:
      return FE_TOWARDZERO;
    case Round::down:
      return FE_DOWNWARD;
    case Round::up:
      return FE_UPWARD;
    default:
      return FE_TONEAREST;
  }
}

}  // namespace

std::uint8_t Hart::flags() {
  const int raised = std::fetestexcept(FE_ALL_EXCEPT);
  if ((raised & FE_INEXACT) != 0) fflags |= inexact;
  if ((raised & FE_UNDERFLOW) != 0) fflags |= underflow;
  if ((raised & FE_OVERFLOW) != 0) fflags |= overflow;
  if ((raised & FE_DIVBYZERO) != 0) fflags |= divide_by_zero;
  if ((raised & FE_INVALID) != 0) fflags |= invalid;
  std::feclearexcept(FE_ALL_EXCEPT);
  return fflags;
}

void Hart::set_flags(std::uint8_t flags) {
  std::feclearexcept(FE_ALL_EXCEPT);
  fflags = flags & 31;
}

void Hart::set_rounding(unsigned mode) {
  frm = static_cast<Round>(mode & 7);
  host = frm <= Round::up ? frm : Round::nearest_even;
  std::fesetround(host_mode(host));
}

}  // namespace tilesim::isa
