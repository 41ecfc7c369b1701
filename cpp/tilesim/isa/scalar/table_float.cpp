#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

void declare_float(Declarations&) {}

}  // namespace tilesim::isa
