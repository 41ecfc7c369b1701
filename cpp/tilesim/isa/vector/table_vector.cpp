// Declares all vector tables.
#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa {

void declare_vector_set(Declarations& d);
void declare_vector_memory(Declarations& d);
void declare_vector_scatter(Declarations& d);
void declare_vector_integer(Declarations& d);
void declare_vector_compare(Declarations& d);
void declare_vector_widen(Declarations& d);
void declare_vector_fixed(Declarations& d);
void declare_vector_float(Declarations& d);
void declare_vector_fused(Declarations& d);
void declare_vector_float_compare(Declarations& d);
void declare_vector_estimate(Declarations& d);
void declare_vector_convert(Declarations& d);
void declare_vector_reduce(Declarations& d);
void declare_vector_mask(Declarations& d);
void declare_vector_permute(Declarations& d);

void declare_vector(Declarations& d) {
  for (const auto declare :
       {declare_vector_set, declare_vector_memory, declare_vector_scatter, declare_vector_integer,
        declare_vector_compare, declare_vector_widen, declare_vector_fixed, declare_vector_float, declare_vector_fused,
        declare_vector_float_compare, declare_vector_estimate, declare_vector_convert, declare_vector_reduce,
        declare_vector_mask, declare_vector_permute})
    declare(d);
}

}  // namespace tilesim::isa
