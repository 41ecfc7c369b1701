// What the bindings of the room share.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <vector>

#include "tilesim/isa/pipeline/pipeline.hpp"
#include "tilesim/isa/run/process.hpp"
#include "tilesim/isa/table/instruction_set.hpp"

namespace tilesim::isa::bound {

/// An instruction set as Python holds it.
struct HeldSet { std::shared_ptr<const InstructionSet> set = InstructionSet::standard(); };

/// A row of the table.
pybind11::dict described(const InstructionInfo& info);
/// One of the user's: declared by a dict, carried out by a function (custom.cpp).
InstructionInfo from_python(const pybind11::dict& given, const pybind11::object& function);
/// State names and cycles, by unit.
pybind11::dict unit_times(const std::vector<UnitTimes>& units);

/// What a reader of ELF files found (program.cpp).
Image image_from(const pybind11::dict& from);

void init_instructions(pybind11::module_& module);
void init_custom(pybind11::module_& module);
void init_operations(pybind11::module_& module);
void init_program(pybind11::module_& module);

}  // namespace tilesim::isa::bound
