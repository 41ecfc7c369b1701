// Signals and other exceptions that end a long call, in the main thread and in others.
#include "base/cancel.hpp"

#include <pybind11/eval.h>
#include <pybind11/gil_safe_call_once.h>

#include <chrono>
#include <thread>
#include <vector>

namespace py = pybind11;

namespace tilesim::bindings {

namespace {

std::vector<Stop::Flag>& entered() {
  thread_local std::vector<Stop::Flag> flags;
  return flags;
}

}  // namespace

void Stop::enter() { entered().push_back(requested_); }

void Stop::leave() {
  if (!entered().empty()) entered().pop_back();
}

Stop::Flag Stop::of_this_thread() { return entered().empty() ? nullptr : entered().back(); }

void pause_where_python_ends() {
#if PY_VERSION_HEX >= 0x030d0000
  const auto ending = [] { return Py_IsFinalizing() != 0; };
#else
  const auto ending = [] { return _Py_IsFinalizing() != 0; };
#endif
  while (ending()) std::this_thread::sleep_for(std::chrono::hours(1));
}

void raise_pending() {
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  // the interpreter delivers exceptions that were sent to a thread when that thread runs Python code
  PYBIND11_CONSTINIT static py::gil_safe_call_once_and_store<py::object> nothing;
  nothing.call_once_and_store_result([] { return py::eval("lambda: None"); }).get_stored()();
}

}  // namespace tilesim::bindings
