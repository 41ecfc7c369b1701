// The error for allocations that exceed the host's memory. Python raises MemoryError.
#pragma once

#include <new>
#include <string>
#include <utility>

namespace tilesim {

/// Thrown if elements cannot be allocated. The text has dtype, shape and bytes; `naming` adds the tensor.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// Runs `call`. If it runs out of memory, prefixes the error's text with `place`, unless an inner call of `naming` did.
template <class Call>
auto naming(const std::string& place, Call&& call) {
  try {
    return call();
  } catch (const OutOfMemory& error) {
    const std::string text = error.what();
    throw OutOfMemory(text.starts_with("no memory") ? place + ": " + text : text);
  } catch (const std::bad_alloc&) {
    throw OutOfMemory(place + ": no memory");
  }
}

}  // namespace tilesim
