// The private module tilesim._core. Each room registers itself in its own file; see rooms.hpp (generated).
#include <pybind11/pybind11.h>

#include "rooms.hpp"

PYBIND11_MODULE(_core, module) {
  module.doc() = "The compiled core of Tilesim (private; use the package tilesim).";
  module.attr("__version__") = TILESIM_VERSION;
  init_rooms(module);
}
