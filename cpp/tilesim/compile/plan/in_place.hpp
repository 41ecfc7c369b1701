// In-place reuse: results that use the bytes of the operand that they replace.
#pragma once

#include <string>
#include <vector>

#include "tilesim/graph/graph.hpp"
#include "tilesim/program/program.hpp"

namespace tilesim::lower {

/// Marks updates, calls and loops whose result reuses the bytes of an operand. An alias of the entry function extends
/// through calls and loops, so that only written elements move. An old value with another reader is not reused. A
/// result of a function reuses its operand only if every call permits this.
void mark_in_place(Graph& graph);

/// Descriptions of states of a marked graph that the entry function updates but copies completely.
std::vector<std::string> copied_states(const Graph& graph);

/// The operand whose bytes a result of a marked operation uses; no_value: the result has separate bytes.
ValueId old_value(const Op& op, ValueId result);

/// The tensors of a program, ordered such that an owner precedes its aliases. Necessary because an output may be an
/// alias of a temporary that is declared later.
std::vector<program::Tensor> owners_first(std::vector<program::Tensor> tensors);

}  // namespace tilesim::lower
