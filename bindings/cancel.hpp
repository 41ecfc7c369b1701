// Long calls that give up the GIL and still answer Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <utility>

#include "tilesim/base/cancel.hpp"
#include "tilesim/base/error.hpp"

namespace tilesim::bindings {

/// Runs `call(token)` without the GIL. The token looks for signals (in Python's main thread) about 20 times a second
/// and calls `progress(fraction)` if that is not None; what the signal's handler or `progress` raises stops the call at
/// its next poll and is raised here. `call` must not touch Python objects.
template <class Call>
auto cancellable(Call&& call, const pybind11::object& progress = pybind11::none()) {
  CancelToken token;
  std::exception_ptr raised;
  const auto guarded = [&](auto&& action) {
    const pybind11::gil_scoped_acquire gil;
    try {
      action();
    } catch (const pybind11::error_already_set&) {
      raised = std::current_exception();
      token.request();
    }
  };
  token.check = [&] {
    guarded([] {
      if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
    });
    return token.requested();
  };
  if (!progress.is_none()) token.progress = [&](double fraction) { guarded([&] { progress(fraction); }); };
  try {
    const pybind11::gil_scoped_release released;
    return std::forward<Call>(call)(token);
  } catch (const Cancelled&) {
    if (raised) std::rethrow_exception(raised);
    throw;
  }
}

}  // namespace tilesim::bindings
