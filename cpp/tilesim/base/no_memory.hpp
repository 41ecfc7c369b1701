// The error for allocations that exceed the memory of the host; it names the object. Python raises MemoryError.
#pragma once

#include <new>
#include <string>
#include <utility>

namespace tilesim {

/// Thrown where elements cannot be allocated; the text says dtype, shape, bytes, and by `naming` which tensor.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string text) : text_(std::move(text)) {}
  const char* what() const noexcept override { return text_.c_str(); }

 private:
  std::string text_;
};

/// Runs `call`; puts `place` before the text of what it throws for lack of memory, unless a caller within did so.
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
