// Reading and writing JSON text. The grammar is nlohmann's (SAX); places, duplicates and ranges are checked here.
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tilesim/base/json.hpp"

namespace tilesim {

namespace {

constexpr std::size_t depth_limit = 200;

/// Counts lines as the lexer consumes characters.
struct Position {
  int line = 1;
};

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
    if (*at_ == '\n') ++position_->line;
    ++at_;
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

  JsonHandler(const Position& position, std::shared_ptr<const std::string> source)
      : position_(position), source_(std::move(source)) {}

  bool null() { return add(Json()); }
  bool boolean(bool value) { return add(Json(value)); }
  bool number_integer(number_integer_t value) { return add(Json(static_cast<std::int64_t>(value))); }
  bool number_unsigned(number_unsigned_t value) {
    if (value > static_cast<number_unsigned_t>(INT64_MAX)) fail("an integer is beyond 64 bits", std::to_string(value));
    return add(Json(static_cast<std::int64_t>(value)));
  }
  bool number_float(number_float_t value, const string_t& text) {
    if (text.find_first_of(".eE") == string_t::npos) fail("an integer is beyond 64 bits", text);
    if (!std::isfinite(value)) fail("a number is not finite", text);
    return add(Json(static_cast<double>(value)));
  }
  bool string(string_t& value) { return add(Json(std::move(value))); }
  bool binary(binary_t&) { return false; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool end_object() { return close(); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return close(); }
  bool key(string_t& name) {
    for (const Json::Member& member : stack_.back().members_)
      if (member.first == name) fail("a key appears twice", "'" + name + "'");
    keys_.back() = name;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& error) {
    std::string reason = error.what();
    if (const auto colon = reason.find("syntax error"); colon != std::string::npos) reason = reason.substr(colon);
    fail("not valid JSON: " + reason, {});
  }

  Json take() { return std::move(root_); }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& value) const {
    const std::string at = path();
    throw UserError(
        {what, *source_ + ":" + std::to_string(position_.line) + (at.empty() ? "" : " (" + at + ")"), value, {}, {}});
  }

  std::string path() const {
    std::string text;
    for (std::size_t i = 0; i < stack_.size(); ++i) {
      if (stack_[i].is_array())
        text += "[" + std::to_string(stack_[i].items_.size()) + "]";
      else if (!keys_[i].empty())
        text += (text.empty() ? "" : ".") + keys_[i];
    }
    return text;
  }

  void mark(Json& value) const {
    value.path_ = path();
    value.line_ = position_.line;
    value.source_ = source_;
  }

  bool open(Json value) {
    mark(value);
    if (stack_.size() >= depth_limit) fail("nested too deeply", std::to_string(depth_limit) + " levels");
    stack_.push_back(std::move(value));
    keys_.emplace_back();
    return true;
  }

  bool close() {
    Json value = std::move(stack_.back());
    stack_.pop_back();
    keys_.pop_back();
    return place(std::move(value));
  }

  bool add(Json value) {
    mark(value);
    return place(std::move(value));
  }

  bool place(Json value) {
    if (stack_.empty())
      root_ = std::move(value);
    else if (stack_.back().is_array())
      stack_.back().items_.push_back(std::move(value));
    else
      stack_.back().members_.emplace_back(keys_.back(), std::move(value));
    return true;
  }

  const Position& position_;
  std::shared_ptr<const std::string> source_;
  std::vector<Json> stack_;
  std::vector<std::string> keys_;
  Json root_;
};

Json Json::parse(std::string_view text, const std::string& source) {
  Position position;
  JsonHandler handler(position, std::make_shared<const std::string>(source));
  nlohmann::json::sax_parse(CountingIterator(text.data(), &position),
                            CountingIterator(text.data() + text.size(), &position), &handler);
  return handler.take();
}

Json Json::read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw UserError({"the file cannot be read", path, {}, {}, {}});
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) throw UserError({"the file cannot be read", path, {}, "a regular file", {}});
  return parse(text.str(), path);
}

namespace {

void write_string(const std::string& text, std::string& out) {
  out += '"';
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\r':
        out += "\\r";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char buffer[8];
          std::snprintf(buffer, sizeof buffer, "\\u%04x", c);
          out += buffer;
        } else {
          out += c;
        }
    }
  }
  out += '"';
}

void write_number(double value, std::string& out) {
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";  // stays a number that is not an integer
  out += text;
}

void write(const Json& value, int indent, int level, std::string& out) {
  const auto line = [&](int depth) {
    if (indent < 0) return;
    out += '\n';
    out.append(static_cast<std::size_t>(indent * depth), ' ');
  };
  switch (value.kind()) {
    case Json::Kind::null:
      out += "null";
      return;
    case Json::Kind::boolean:
      out += value.as_bool() ? "true" : "false";
      return;
    case Json::Kind::integer:
      out += std::to_string(value.as_int());
      return;
    case Json::Kind::number:
      write_number(value.as_double(), out);
      return;
    case Json::Kind::string:
      write_string(value.as_string(), out);
      return;
    default:
      break;
  }
  const bool list = value.is_array();
  out += list ? '[' : '{';
  bool first = true;
  const auto separate = [&] {
    if (!first) out += indent < 0 ? ", " : ",";
    first = false;
    line(level + 1);
  };
  if (list) {
    for (const Json& item : value.items()) separate(), write(item, indent, level + 1, out);
  } else {
    for (const auto& [key, member] : value.members()) {
      separate();
      write_string(key, out);
      out += ": ";
      write(member, indent, level + 1, out);
    }
  }
  if (!first) line(level);
  out += list ? ']' : '}';
}

}  // namespace

std::string Json::dump(int indent) const {
  std::string out;
  write(*this, indent, 0, out);
  return out;
}

}  // namespace tilesim
