// Assembler directives: data, space, alignment, and directives that have no effect here.
#pragma once

#include <cstdint>
#include <string>

#include "tilesim/isa/text/statement.hpp"

namespace tilesim::isa {

/// Whether the directive only speaks to a linker or a debugger.
bool is_read_over(const std::string& name);

/// Bytes that it puts at its address; `labels` as far as they are known. Throws UserError with the place.
std::uint64_t directive_bytes(const Statement& statement, const Labels& labels);

/// Puts them. Numbers that the width does not hold are errors.
void put_directive(const Statement& statement, const Labels& labels, std::string& bytes);

}  // namespace tilesim::isa
