// Long calls that give up the GIL and still answer Ctrl-C.
#pragma once

#include <pybind11/pybind11.h>

#include <atomic>
#include <exception>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "tilesim/base/cancel.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/interrupt.hpp"

namespace tilesim::bindings {

/// Ends the calls of the threads that entered it: what Ctrl-C in the main thread does to workers.
class Stop {
 public:
  void request() { requested_->store(true, std::memory_order_relaxed); }
  bool requested() const { return requested_->load(std::memory_order_relaxed); }
  void enter();  ///< this thread's calls obey it until `leave`
  void leave();

  using Flag = std::shared_ptr<const std::atomic<bool>>;
  static Flag of_this_thread();  ///< null: none was entered

 private:
  std::shared_ptr<std::atomic<bool>> requested_ = std::make_shared<std::atomic<bool>>(false);
};

/// Does not return in a thread that outlives the interpreter: one that asks for the GIL then is ended by it, and its
/// stack unwound through frames that allow no exception. CPython 3.14 does the same for all threads. No GIL held.
void pause_where_python_ends();

/// Raises what is pending: signals in the main thread; in others what was sent by PyThreadState_SetAsyncExc. GIL held.
void raise_pending();

/// Runs `call(token)` without the GIL, or `call()`. The token, which is the thread's while it runs (see `worked`),
/// looks for signals, other exceptions and the thread's Stop about 20 times a second and calls `progress(fraction)` if
/// that is not None, and `counted(done, total)` where that is not None; what a signal's handler or `progress` raises
/// stops the call at its next poll and is raised here. `call` must not touch Python objects, and reads nothing that
/// another thread may change: it holds snapshots.
template <class Call>
auto cancellable(Call&& call, const pybind11::object& progress = pybind11::none(),
                 const pybind11::object& counted = pybind11::none()) {
  CancelToken token;
  const Stop::Flag stop = Stop::of_this_thread();
  std::exception_ptr raised;
  const auto guarded = [&](auto&& action) {
    pause_where_python_ends();
    const pybind11::gil_scoped_acquire gil;
    const CancelScope none(nullptr);  // of what a handler calls, only calls with tokens of their own can be cancelled
    try {
      action();
    } catch (const pybind11::error_already_set&) {
      raised = std::current_exception();
      token.request();
    }
  };
  token.check = [&] {
    guarded(raise_pending);
    return token.requested() || (stop && stop->load(std::memory_order_relaxed));
  };
  if (!progress.is_none()) token.progress = [&](double fraction) { guarded([&] { progress(fraction); }); };
  if (!counted.is_none())
    token.counted = [&](std::int64_t done, std::int64_t total) { guarded([&] { counted(done, total); }); };
  try {
    const pybind11::gil_scoped_release released;
    const CancelScope scope(&token);
    if constexpr (std::is_invocable_v<Call, CancelToken&>)
      return std::forward<Call>(call)(token);
    else
      return std::forward<Call>(call)();
  } catch (const Cancelled&) {
    if (raised) std::rethrow_exception(raised);
    throw;
  }
}

/// Held by a call that changes its object without the GIL; another thread's call meanwhile is an error, not a race.
class Exclusive {
 public:
  Exclusive(bool& busy, const char* what) : busy_(busy) {  // GIL held
    if (busy_)
      throw UserError({std::string(what) + " is in use by another thread", {}, {}, "one thread at a time", {}});
    busy_ = true;
  }
  ~Exclusive() { busy_ = false; }  // GIL held
  Exclusive(const Exclusive&) = delete;
  Exclusive& operator=(const Exclusive&) = delete;

 private:
  bool& busy_;
};

}  // namespace tilesim::bindings
