#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

void declare_bits(Declarations&) {}

}  // namespace tilesim::isa
