// Cancellation of long loops in all modules: a loop polls the token of the call that its thread executes.
#pragma once

#include <cstdint>

#include "tilesim/base/cancel.hpp"

namespace tilesim {

/// Sets the token of this thread's call until the scope ends; scopes nest. Null: calls cannot be cancelled.
class CancelScope {
 public:
  explicit CancelScope(CancelToken* token);
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;
  static CancelToken* current();  ///< null: this thread's call cannot be cancelled

 private:
  CancelToken* outer_;
};

namespace interrupt {
extern constinit thread_local std::int64_t left;  ///< units until the next poll
void poll();
}  // namespace interrupt

/// Counts work of this thread in units of a few nanoseconds (an element, a token of text, an operand) and polls the
/// call's token every 65,536 units. Throws Cancelled, so unfinished results must be private to the caller. Do not call
/// it in destructors.
inline void worked(std::int64_t units) {
  if ((interrupt::left -= units) < 0) interrupt::poll();
}

}  // namespace tilesim
