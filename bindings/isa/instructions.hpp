// Called by init_isa: instructions of the user's, whose meaning is a Python function.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>

#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa::bound {

/// An instruction set as Python holds it.
struct HeldSet { std::shared_ptr<const InstructionSet> set = InstructionSet::standard(); };

void init_instructions(pybind11::module_& module);

}  // namespace tilesim::isa::bound
