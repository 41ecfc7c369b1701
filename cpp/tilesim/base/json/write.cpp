// Writes JSON text in UTF-8 that reads back to an equal value.
#include <charconv>
#include <cmath>
#include <cstdio>

#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/json/json.hpp"

namespace tilesim {

namespace {

/// Length of the well-formed UTF-8 sequence at the start of `text`; 0 if there is none (RFC 3629, section 4).
std::size_t sequence_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return follows(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    const bool overlong = lead == 0xE0 && byte(1) < 0xA0, surrogate = lead == 0xED && byte(1) > 0x9F;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool overlong = lead == 0xF0 && byte(1) < 0x90, beyond = lead == 0xF4 && byte(1) > 0x8F;
    return follows(1) && follows(2) && follows(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

void write_escaped(char c, std::string& out) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\t':
      out += "\\t";
      return;
    case '\r':
      out += "\\r";
      return;
    default:
      break;
  }
  char buffer[8];
  std::snprintf(buffer, sizeof buffer, "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
  out += buffer;
}

/// Writes a string. Bytes that are not UTF-8 (for instance in a file name) become the replacement character.
void write_string(std::string_view text, std::string& out) {
  out += '"';
  while (!text.empty()) {
    const std::size_t length = sequence_length(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (byte < 0x20 || byte == '"' || byte == '\\' || byte == 0x7F) {
      write_escaped(text[0], out);
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

void write_number(double value, std::string& out) {
  if (!std::isfinite(value)) throw InternalError("a number that is not finite cannot be written as JSON");
  char buffer[40];
  const std::string_view text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr - buffer);
  out += text;
  if (text.find_first_of(".e") == std::string_view::npos) out += ".0";  // reads back as a number, not an integer
}

class Writer {
 public:
  Writer(int indent, std::string& out) : indent_(indent), out_(out) {}

  void write(const Json& value, int level) {
    worked(32);
    switch (value.kind()) {
      case Json::Kind::null:
        out_ += "null";
        return;
      case Json::Kind::boolean:
        out_ += value.as_bool() ? "true" : "false";
        return;
      case Json::Kind::integer:
        out_ += std::to_string(value.as_int());
        return;
      case Json::Kind::number:
        return write_number(value.as_double(), out_);
      case Json::Kind::string:
        return write_string(value.as_string(), out_);
      case Json::Kind::array:
        return write_array(value, level);
      case Json::Kind::object:
        return write_object(value, level);
    }
  }

 private:
  void write_array(const Json& value, int level) {
    out_ += '[';
    bool first = true;
    for (const Json& item : value.items()) {
      separate(first, level + 1);
      write(item, level + 1);
    }
    if (!first) line(level);
    out_ += ']';
  }

  void write_object(const Json& value, int level) {
    out_ += '{';
    bool first = true;
    for (const auto& [key, member] : value.members()) {
      separate(first, level + 1);
      write_string(key, out_);
      out_ += ": ";
      write(member, level + 1);
    }
    if (!first) line(level);
    out_ += '}';
  }

  void separate(bool& first, int level) {
    if (!first) out_ += indent_ < 0 ? ", " : ",";
    first = false;
    line(level);
  }

  void line(int level) {
    if (indent_ < 0) return;
    out_ += '\n';
    out_.append(static_cast<std::size_t>(indent_) * static_cast<std::size_t>(level), ' ');
  }

  int indent_;
  std::string& out_;
};

}  // namespace

std::string Json::dump(int indent) const {
  std::string out;
  Writer(indent, out).write(*this, 0);
  return out;
}

}  // namespace tilesim
