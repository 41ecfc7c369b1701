// Control and status registers.
#pragma once

#include <cstdint>
#include <string_view>

#include "tilesim/isa/state/hart.hpp"

namespace tilesim::isa {

/// Number of a name, −1 if unknown; name of a number, empty if unknown.
int csr_number(std::string_view name);
std::string_view csr_name(unsigned number);

/// Throws Trap (illegal) if the register does not exist or cannot be written.
std::uint64_t read_csr(Hart& hart, const Op& op, unsigned number);
void write_csr(Hart& hart, const Op& op, unsigned number, std::uint64_t value);

}  // namespace tilesim::isa
