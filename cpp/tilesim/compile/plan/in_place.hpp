// In-place reuse: results that take the bytes of the operand that they replace.
#pragma once

#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Marks updates, calls and loops whose result takes the bytes of an operand: an alias of the entry function reaches
/// through calls and loops, so that only what is written moves. Not where anything else reads the old value; a result
/// of a function takes its operand's bytes only if it may in every call.
void mark_in_place(Graph& graph);

/// Of a marked graph: states that the entry function updates, and that are copied whole nevertheless, in words.
std::vector<std::string> copied_states(const Graph& graph);

/// The operand in whose bytes a result of a marked operation lies; no_value: it has its own.
ValueId old_value(const Op& op, ValueId result);

/// The tensors of a program with owners before their aliases: one of an output may be an alias of a temporary that was
/// declared after it.
std::vector<program::Tensor> owners_first(std::vector<program::Tensor> tensors);

}  // namespace tilesim::lower
