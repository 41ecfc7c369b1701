// Called by init_engine: DRAM is a part of that room.
#pragma once

#include <pybind11/pybind11.h>

void init_dram(pybind11::module_& module);
