// Nests as Python dicts, and the mapping problem of one product on one machine.
#pragma once

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "tilesim/mapping/nest.hpp"
#include "tilesim/mapping/vector.hpp"

namespace tilesim::bindings {

struct MappingProblem {
  mapping::Problem problem;
  Share machine;
  std::shared_ptr<const Machine> whole;  ///< that the share is of
};

/// {"tiles": [..], "order": [..], "depths": [..], "unit": "array" | "vector"}
mapping::Nest nest_from_python(const pybind11::dict& nest, const std::string& operation);
pybind11::dict nest_to_python(const mapping::Nest& nest);

struct VectorProblem {
  mapping::VectorProblem problem;
  Share machine;
  std::shared_ptr<const Machine> whole;
};

/// Whether a mapping given from outside is legal for the kernel as it was divided over the contexts of a core.
template <class Own, class Mapping>
mapping::Legality legal_here(const Own& own, const Mapping& given) {
  mapping::Legality verdict = mapping::legal(own.problem, given, own.machine);
  if (verdict.legal && given.contexts != own.problem.contexts)
    verdict = {false, "these are tiles for " + std::to_string(given.contexts) +
                          " contexts of a core, and the kernel is divided over " +
                          std::to_string(own.problem.contexts)};
  return verdict;
}

/// {"tiles": [..], "lane": axis, "depth": buffers}
mapping::VectorTiles tiles_from_python(const pybind11::dict& tiles, const std::string& operation);
pybind11::dict tiles_to_python(const mapping::VectorTiles& tiles);
void init_mapping_vector(pybind11::module_& module);

}  // namespace tilesim::bindings
