// Error types: mistakes of the user, unsupported features, and bugs.
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

/// A mistake of the user. The message has the place, the offending value, the allowed values and a suggestion.
class UserError : public Error {
 public:
  struct Parts {
    std::string what;        ///< what is wrong: a sentence without the fields below
    std::string place;       ///< file:line, JSON path or operation name; may be empty
    std::string value;       ///< the offending value as text; may be empty
    std::string allowed;     ///< values that would be accepted
    std::string suggestion;  ///< nearest allowed spelling, or a remedy
  };
  explicit UserError(Parts parts);
  explicit UserError(const std::string& what) : UserError(Parts{what, {}, {}, {}, {}}) {}
  const Parts& parts() const { return parts_; }

 private:
  Parts parts_;
};

/// The input is legal, but Tilesim or the machine does not support it. The message names the operation.
class Unsupported : public UserError {
 public:
  using UserError::UserError;
};

/// A bug in Tilesim. The message describes the state.
class InternalError : public Error {
 public:
  using Error::Error;
};

/// CancelToken::poll throws it after a request to cancel (Ctrl-C).
class Cancelled : public Error {
 public:
  Cancelled() : Error("cancelled") {}
};

/// The shortest candidate that starts with `word`, else the closest by edit distance; empty if no candidate is close.
std::string nearest(std::string_view word, std::span<const std::string> candidates);

/// Joins words for messages: "a, b, c".
std::string join(std::span<const std::string> words, std::string_view separator = ", ");

/// Throws InternalError with `message` if `condition` is false.
inline void require(bool condition, const char* message) {
  if (!condition) throw InternalError(message);
}

}  // namespace tilesim
