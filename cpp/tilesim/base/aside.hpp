// Frees values with very many objects on another thread, because freeing them takes seconds.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace tilesim {

/// Runs `work` in a detached thread, or in this thread if the system cannot create one. `work` must not use objects
/// that are destroyed when the process exits.
void run_aside(std::function<void()> work);

/// Wraps a value. A `large` value is freed in a separate thread, so that an interrupted call returns at once.
template <class T>
std::shared_ptr<T> freed_aside(T value, bool large) {
  if (!large) return std::make_shared<T>(std::move(value));
  return std::shared_ptr<T>(new T(std::move(value)), [](T* held) { run_aside([held] { delete held; }); });
}

}  // namespace tilesim
