// Assembler directives: data, space, alignment, and directives that have no effect here.
#pragma once

#include <cstdint>
#include <string>

#include "tilesim/isa/text/statement.hpp"

namespace tilesim::isa {

/// Whether the directive only concerns a linker or a debugger.
bool is_read_over(const std::string& name);

/// Number of bytes of the directive at its address; `labels`: those defined so far. Throws UserError with the place.
std::uint64_t directive_bytes(const Statement& statement, const Labels& labels);

/// Appends the directive's bytes. Throws UserError for numbers that exceed the width.
void put_directive(const Statement& statement, const Labels& labels, std::string& bytes);

}  // namespace tilesim::isa
