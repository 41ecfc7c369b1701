// Reads JSON text. nlohmann's parser (SAX) defines the grammar; this file checks places, duplicates and ranges.
#include <cmath>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "tilesim/base/aside.hpp"
#include "tilesim/base/file.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/json/json.hpp"

namespace tilesim {

namespace {

constexpr std::size_t json_depth_limit = 200;

/// Position of the lexer in the text, with line and column.
class Position {
 public:
  explicit Position(std::string_view text) : text_(text) {}
  void consume() {
    if ((++consumed_ & 0xFFF) == 0) worked(1 << 13);
  }

  /// Line of the last character of the current token. The lexer detects the end of a number one character later.
  int line(bool after_number = false) {
    std::size_t end = consumed_ > 0 ? consumed_ - 1 : 0;
    const bool digit = end < text_.size() && text_[end] >= '0' && text_[end] <= '9';
    if (after_number && !digit && end > 0) --end;
    advance(end);
    return line_;
  }
  std::string line_and_column() {
    line();
    return std::to_string(line_) + ":" + std::to_string(counted_ - line_start_ + 1);
  }

 private:
  void advance(std::size_t offset) {
    for (; counted_ < offset; ++counted_)
      if (text_[counted_] == '\n') {
        ++line_;
        line_start_ = counted_ + 1;
      }
  }

  std::string_view text_;
  std::size_t consumed_ = 0, counted_ = 0, line_start_ = 0;
  int line_ = 1;
};

/// An iterator that reports each character to a Position when the lexer consumes it.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, Position* position) : at_(at), position_(position) {}
  reference operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    position_->consume();
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  Position* position_;
};

}  // namespace

/// Builds values from SAX events.
class JsonHandler {
 public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = nlohmann::json::string_t;
  using binary_t = nlohmann::json::binary_t;

  JsonHandler(Position& position, std::shared_ptr<const std::string> source)
      : position_(position), source_(std::move(source)) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(number_integer_t value) { return add(Json(static_cast<std::int64_t>(value)), true); }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) fail("an integer is beyond 64 bits", std::to_string(value));
    return add(Json(static_cast<std::int64_t>(value)), true);
  }
  bool number_float(number_float_t value, const string_t& text) {
    if (text.find_first_of(".eE") == string_t::npos) fail("an integer is beyond 64 bits", text);
    if (!std::isfinite(value)) fail("a number is not finite", text);
    return add(Json(static_cast<double>(value)), true);
  }
  bool string(string_t& value) { return add(Json(std::move(value))); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool key(string_t& name) {
    Level& level = levels_.back();
    level.key = name;
    if (!level.keys.insert(name).second) fail("a key appears twice", "'" + name + "'");
    return true;
  }
  bool parse_error(std::size_t, const std::string& token, const nlohmann::json::exception& error) {
    constexpr int number_overflow = 406;  // json.exception.out_of_range
    if (error.id == number_overflow) {
      const bool is_integer = token.find_first_of(".eE") == std::string::npos;
      fail(is_integer ? "an integer is beyond 64 bits" : "a number is not finite", shortened(token));
    }
    const std::string_view message = error.what();
    const auto says = [&](std::string_view text) { return message.find(text) != std::string_view::npos; };
    if (says("unexpected end of input") || says("empty input"))
      fail("not valid JSON: the text ends before the value does", {});
    const std::size_t dash = message.find(" - ");
    const std::string_view reason = dash == std::string_view::npos ? message : message.substr(dash + 3);
    fail("not valid JSON: " + shortened(reason), {});
  }

  /// Rejects a zero byte after a value; the library would treat it as the end of the text.
  void refuse_zero_byte() const { fail("not valid JSON: a zero byte follows the value", {}); }

  Json take() { return std::move(root_); }

 private:
  struct Level {
    Json value;
    std::string key;
    std::unordered_set<std::string> keys;
  };

  [[noreturn]] void fail(const std::string& what, const std::string& value) const {
    const std::string at = path();
    const std::string place = *source_ + ":" + position_.line_and_column();
    throw UserError({what, at.empty() ? place : place + " (" + at + ")", value, {}, {}});
  }

  /// Shortens the offending text, which the library would quote completely and unchanged.
  static std::string shortened(std::string_view text) {
    constexpr std::size_t longest = 200;
    std::string result;
    for (const char c : text.substr(0, longest)) result += c >= ' ' && c <= '~' ? c : '?';
    return text.size() > longest ? result + "..." : result;
  }

  /// Path of the next value: "core.arrays[1].rows".
  std::string path() const {
    std::string text;
    for (const Level& level : levels_) {
      if (level.value.is_array()) {
        text += "[" + std::to_string(level.value.items_.size()) + "]";
      } else if (!level.keys.empty()) {
        if (!text.empty()) text += '.';
        text += level.key;
      }
    }
    return text;
  }

  void mark(Json& value, bool is_number) {
    value.path_ = path();
    value.line_ = position_.line(is_number);
    value.source_ = source_;
  }

  bool open(Json value) {
    mark(value, false);
    if (levels_.size() >= json_depth_limit)
      throw UserError({"nested too deeply", value.place(), {}, std::to_string(json_depth_limit) + " levels", {}});
    levels_.push_back({std::move(value), {}, {}});
    return true;
  }

  bool close() {
    Json value = std::move(levels_.back().value);
    levels_.pop_back();
    return store(std::move(value));
  }

  bool add(Json value, bool is_number = false) {
    mark(value, is_number);
    return store(std::move(value));
  }

  bool store(Json value) {
    if (levels_.empty()) {
      root_ = std::move(value);
    } else if (Level& level = levels_.back(); level.value.is_array()) {
      level.value.items_.push_back(std::move(value));
    } else {
      level.value.members_.emplace_back(level.key, std::move(value));
    }
    return true;
  }

  Position& position_;
  std::shared_ptr<const std::string> source_;
  std::vector<Level> levels_;
  Json root_;
};

Json Json::parse(std::string_view text, const std::string& source) {
  Position position(text);
  constexpr std::size_t large = 1 << 20;
  const std::shared_ptr<JsonHandler> handler =
      freed_aside(JsonHandler(position, std::make_shared<const std::string>(source)), text.size() > large);
  nlohmann::json::sax_parse(CountingIterator(text.data(), &position),
                            CountingIterator(text.data() + text.size(), &position), handler.get());
  if (text.find('\0') != std::string_view::npos) handler->refuse_zero_byte();
  return handler->take();
}

Json Json::read_file(const std::string& path) { return parse(tilesim::read_file(path), path); }

}  // namespace tilesim
