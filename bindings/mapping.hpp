// Nests as Python dicts, and the mapping problem of one product on one machine.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "tilesim/mapping/nest.hpp"
#include "tilesim/mapping/vector.hpp"

namespace tilesim::bindings {

struct MappingProblem {
  mapping::Problem problem;
  Machine machine;
};

/// {"tiles": [..], "order": [..], "depths": [..], "unit": "array" | "vector"}
mapping::Nest nest_from_python(const pybind11::dict& nest, const std::string& operation);
pybind11::dict nest_to_python(const mapping::Nest& nest);

struct VectorProblem {
  mapping::VectorProblem problem;
  Machine machine;
};

/// {"tiles": [..], "lane": axis, "depth": buffers}
mapping::VectorTiles tiles_from_python(const pybind11::dict& tiles, const std::string& operation);
pybind11::dict tiles_to_python(const mapping::VectorTiles& tiles);
void init_mapping_vector(pybind11::module_& module);

}  // namespace tilesim::bindings
