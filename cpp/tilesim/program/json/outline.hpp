// The JSON form of a program without its statements.
#pragma once

#include "tilesim/program/program.hpp"

namespace tilesim::program {

/// Loops, branches, calls and scopes as in the JSON form. Statements in a row are an empty one in a loop, so that they
/// count as many. Tensors: those with typical values. "reads": whether loops or addresses depend on tensors; "sends":
/// whether cores send tiles to each other.
Json outline(const Program& program);

}  // namespace tilesim::program
