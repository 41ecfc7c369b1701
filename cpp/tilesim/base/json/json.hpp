// JSON values with their line and path. The reader rejects text that nlohmann's default accepts, such as duplicate
// keys.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tilesim/base/error.hpp"

namespace tilesim {

/// A JSON value. Objects keep the order of members. Integers have 64 bits; other numbers are doubles.
class Json {
 public:
  enum class Kind : std::uint8_t { null, boolean, integer, number, string, array, object };
  using Member = std::pair<std::string, Json>;

  Json() = default;
  Json(bool value);                                            // NOLINT(google-explicit-constructor)
  Json(std::int64_t value);                                    // NOLINT(google-explicit-constructor)
  Json(int value) : Json(static_cast<std::int64_t>(value)) {}  // NOLINT(google-explicit-constructor)
  Json(double value);                                          // NOLINT(google-explicit-constructor)
  Json(std::string value);                                     // NOLINT(google-explicit-constructor)
  Json(const char* value) : Json(std::string(value)) {}        // NOLINT(google-explicit-constructor)
  static Json array();
  static Json object();

  /// Parses text. Throws UserError with `source`:line:column and path for wrong syntax, a duplicate key, an integer
  /// beyond 64 bits, a non-finite number, or a depth above 200. `source` is a file name or "text".
  static Json parse(std::string_view text, const std::string& source = "text");
  static Json read_file(const std::string& path);
  /// The shortest text that reads back to an equal value; `indent` < 0: one line.
  std::string dump(int indent = -1) const;

  Kind kind() const { return kind_; }
  bool is_object() const { return kind_ == Kind::object; }
  bool is_array() const { return kind_ == Kind::array; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_integer() const { return kind_ == Kind::integer; }
  bool is_number() const { return kind_ == Kind::integer || kind_ == Kind::number; }
  bool is_null() const { return kind_ == Kind::null; }

  // Typed access. A wrong type throws UserError with the place, the value and the required type.
  bool as_bool() const;
  std::int64_t as_int() const;
  std::int64_t as_int(std::int64_t low, std::int64_t high) const;  ///< throws outside [low, high]
  double as_double() const;
  const std::string& as_string() const;
  const std::vector<Json>& items() const;        ///< of an array
  const std::vector<Member>& members() const;    ///< of an object
  const Json* find(std::string_view key) const;  ///< null if the key is missing
  const Json& at(std::string_view key) const;    ///< throws UserError if the key is missing

  // Construction.
  void push(Json value);
  void set(std::string key, Json value);  ///< appends, or replaces the member with this key
  std::size_t size() const;

  const std::string& path() const { return path_; }  ///< "core.arrays[1].rows"; empty if not parsed
  int line() const { return line_; }                 ///< 1-based; 0 if not parsed
  std::string place() const;                         ///< "file.json:12 (core.arrays[1].rows)"
  /// Throws UserError with the place of this value.
  [[noreturn]] void fail(const std::string& what, const std::string& allowed = {},
                         const std::string& suggestion = {}) const;

  friend bool operator==(const Json& a, const Json& b);  ///< compares values, not places

 private:
  Kind kind_ = Kind::null;
  bool boolean_ = false;
  std::int64_t integer_ = 0;
  double number_ = 0;
  std::string string_;
  std::vector<Json> items_;
  std::vector<Member> members_;
  std::string path_;
  int line_ = 0;
  std::shared_ptr<const std::string> source_;
  friend class JsonHandler;
};

/// Reads an object key by key; `finish()` throws if the object has a key that was not read, with the nearest spelling.
class ObjectReader {
 public:
  explicit ObjectReader(const Json& object);  ///< throws if it is not an object
  const Json& required(std::string_view key);
  const Json* optional(std::string_view key);
  std::int64_t integer(std::string_view key, std::int64_t low, std::int64_t high);
  std::int64_t integer_or(std::string_view key, std::int64_t fallback, std::int64_t low, std::int64_t high);
  std::string string(std::string_view key);
  std::string string_or(std::string_view key, const std::string& fallback);
  bool boolean_or(std::string_view key, bool fallback);
  double number_or(std::string_view key, double fallback);
  void finish();

 private:
  const Json& object_;
  std::set<std::string> asked_;
};

/// The 64-bit FNV-1a hash of a text as 16 hex digits; it identifies configurations in results.
std::string hash_text(std::string_view text);

}  // namespace tilesim
