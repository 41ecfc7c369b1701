// Text of messages between C++ and Python, whatever bytes it holds and whatever an object does. With the GIL held.
#pragma once

#include <pybind11/pybind11.h>

#include <string>

#include "tilesim/base/error.hpp"

namespace tilesim::bindings {

/// A text for Python: bytes that are no UTF-8 (of file names, of damaged files) as "\xff".
inline pybind11::str readable(const std::string& text) {
  PyObject* decoded = PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace");
  if (decoded == nullptr) throw pybind11::error_already_set();
  return pybind11::reinterpret_steal<pybind11::str>(decoded);
}

/// An object as a message shows it; the name of its type where its own repr raises.
inline std::string shown(pybind11::handle value) {
  pybind11::object text = pybind11::reinterpret_steal<pybind11::object>(PyObject_Repr(value.ptr()));
  if (!text) {
    PyErr_Clear();
    return std::string("an object of ") + Py_TYPE(value.ptr())->tp_name;
  }
  const auto bytes =
      pybind11::reinterpret_steal<pybind11::object>(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
  return bytes.cast<std::string>();
}

/// The exception Unsupported with the parts of an error.
pybind11::object unsupported(const UserError& error);

}  // namespace tilesim::bindings
