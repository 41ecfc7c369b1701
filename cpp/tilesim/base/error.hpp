// Error types: mistakes of the user, unsupported features and broken invariants.
#pragma once

#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tilesim {

class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A mistake of the user: the place, the offending value, the allowed values, the nearest spelling.
class UserError : public Error {
 public:
  struct Parts {
    std::string what;        ///< what is wrong, a full sentence without the fields below
    std::string place;       ///< file:line, JSON path, operation name; empty if absent
    std::string value;       ///< the offending value as text; empty if absent
    std::string allowed;     ///< what would be accepted
    std::string suggestion;  ///< nearest legal spelling or remedy
  };
  explicit UserError(Parts parts);
  explicit UserError(const std::string& what) : UserError(Parts{what, {}, {}, {}, {}}) {}
  const Parts& parts() const { return parts_; }

 private:
  Parts parts_;
};

/// Legal input that Tilesim (or the chosen machine) cannot handle; names the operation.
class Unsupported : public UserError {
 public:
  using UserError::UserError;
};

/// A bug of Tilesim, with the state that broke the invariant.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// Thrown at a check point after cancellation was requested (Ctrl-C).
class Cancelled : public Error {
 public:
  Cancelled() : Error("cancelled") {}
};

/// The shortest candidate that starts with `word`, else the nearest by edit distance; empty if none is close.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// "a, b, c" for messages.
std::string join(std::span<const std::string> words, std::string_view separator = ", ");

/// Throws InternalError with `message` unless `condition`.
inline void require(bool condition, const char* message) {
  if (!condition) throw InternalError(message);
}

}  // namespace tilesim
