// Nests as Python dicts, and the mapping problem of one product on one machine.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "tilesim/mapping/nest.hpp"

namespace tilesim::bindings {

struct MappingProblem {
  mapping::Problem problem;
  Machine machine;
};

/// {"tiles": [..], "order": [..], "depths": [..], "unit": "array" | "vector"}
mapping::Nest nest_from_python(const pybind11::dict& nest, const std::string& operation);
pybind11::dict nest_to_python(const mapping::Nest& nest);

}  // namespace tilesim::bindings
