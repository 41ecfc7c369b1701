#include "tilesim/base/interrupt.hpp"

#include <utility>

namespace tilesim {

namespace {

constexpr std::int64_t between_polls = 1 << 16;

constinit thread_local CancelToken* current = nullptr;

}  // namespace

constinit thread_local std::int64_t interrupt::left = between_polls;

void interrupt::poll() {
  left = between_polls;
  if (current != nullptr) current->poll();
}

CancelScope::CancelScope(CancelToken* token) : outer_(std::exchange(tilesim::current, token)) {}

CancelScope::~CancelScope() { tilesim::current = outer_; }

CancelToken* CancelScope::current() { return tilesim::current; }

}  // namespace tilesim
