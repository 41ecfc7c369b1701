// Meshes and shardings of graphs.
#pragma once

#include <pybind11/pybind11.h>

#include "graph/graph.hpp"

namespace tilesim::bindings {

void bind_shardings(pybind11::module_& module, pybind11::class_<SharedGraph>& type);

}  // namespace tilesim::bindings
