// Shared by the two files that bind the room graph.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "tilesim/graph/graph.hpp"

namespace tilesim::bindings {

/// The function called `name`, the entry for "". UserError with a suggestion.
const GraphFunction& function_of(const Graph& graph, const std::string& name);
pybind11::tuple to_tuple(const Shape& shape);
/// Attributes of a kind from a dict; UserError for an unknown one (with the nearest) or a wrong type.
Attributes attributes_from(Kind kind, const pybind11::dict& values);
void bind_builder(pybind11::module_& module);

}  // namespace tilesim::bindings
