// numpy arrays as tilesim::Array and back, without a copy where the memory layout allows. Call with the GIL held.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <string>
#include <vector>

#include "tilesim/base/array.hpp"

namespace tilesim::bindings {

/// The numpy dtype of ours; ml_dtypes supplies bf16, the 8-bit and 4-bit ones.
pybind11::dtype numpy_dtype(DType dtype);

/// Throws UserError for a numpy dtype that Tilesim does not have.
DType from_numpy_dtype(const pybind11::dtype& dtype);

/// Anything numpy.asarray takes. Row-major, aligned arrays in native byte order are shared: the Array keeps the Python
/// object alive, and must not be written unless the caller owns the memory. Others are copied. Throws UserError for a
/// dtype that Tilesim does not have; `what` names the operand in the message.
Array array_from_python(pybind11::handle object, const std::string& what = {});

/// A writable numpy array over the Array's memory, which lives as long as the numpy array.
pybind11::array array_to_python(const Array& array);

/// Of several.
std::vector<Array> arrays_from_python(const pybind11::iterable& objects);
pybind11::list arrays_to_python(const std::vector<Array>& arrays);

}  // namespace tilesim::bindings
