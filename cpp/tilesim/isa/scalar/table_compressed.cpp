#include "tilesim/isa/table/means.hpp"

namespace tilesim::isa {

void declare_compressed(Declarations&) {}

}  // namespace tilesim::isa
