// Frees values that consist of very many objects on another thread, because this takes long.
#pragma once

#include <functional>
#include <memory>
#include <utility>

namespace tilesim {

/// Runs the work in a detached thread, or in this thread if none can be created. It must not use objects that end with
/// the process.
void run_aside(std::function<void()> work);

/// Holds a value that is freed in a separate thread if it is `large`, so that an interrupted call returns without
/// waiting seconds for it.
template <class T>
std::shared_ptr<T> freed_aside(T value, bool large) {
  if (!large) return std::make_shared<T>(std::move(value));
  return std::shared_ptr<T>(new T(std::move(value)), [](T* held) { run_aside([held] { delete held; }); });
}

}  // namespace tilesim
