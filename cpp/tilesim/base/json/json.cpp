#include "tilesim/base/json/json.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tilesim/base/interrupt.hpp"

namespace tilesim {

Json::Json(bool value) : kind_(Kind::boolean), boolean_(value) {}
Json::Json(std::int64_t value) : kind_(Kind::integer), integer_(value) {}
Json::Json(double value) : kind_(Kind::number), number_(value) {}
Json::Json(std::string value) : kind_(Kind::string), string_(std::move(value)) {}

Json Json::array() {
  Json value;
  value.kind_ = Kind::array;
  return value;
}

Json Json::object() {
  Json value;
  value.kind_ = Kind::object;
  return value;
}

std::string Json::place() const {
  std::string text;
  if (source_) text = *source_ + ":" + std::to_string(line_);
  if (!path_.empty()) text += text.empty() ? path_ : " (" + path_ + ")";
  return text;
}

namespace {

const char* describe(Json::Kind kind) {
  switch (kind) {
    case Json::Kind::null:
      return "null";
    case Json::Kind::boolean:
      return "true or false";
    case Json::Kind::integer:
      return "an integer";
    case Json::Kind::number:
      return "a number";
    case Json::Kind::string:
      return "a string";
    case Json::Kind::array:
      return "a list";
    case Json::Kind::object:
      return "an object";
  }
  return "";
}

/// The value as text, cut between characters if it is long.
std::string shortened(const Json& value) {
  constexpr std::size_t longest = 80;
  if (value.is_array() || value.is_object()) {
    if (value.size() > longest) return std::to_string(value.size()) + (value.is_array() ? " items" : " members");
  }
  std::string text = value.dump();
  if (text.size() <= longest) return text;
  std::size_t end = longest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

void Json::fail(const std::string& what, const std::string& allowed, const std::string& suggestion) const {
  throw UserError({what, place(), shortened(*this), allowed, suggestion});
}

bool Json::as_bool() const {
  if (kind_ != Kind::boolean) fail("wrong type", describe(Kind::boolean));
  return boolean_;
}

std::int64_t Json::as_int() const {
  if (kind_ != Kind::integer) fail("wrong type", describe(Kind::integer));
  return integer_;
}

std::int64_t Json::as_int(std::int64_t low, std::int64_t high) const {
  const std::int64_t value = as_int();
  if (value < low || value > high) fail("out of range", std::to_string(low) + " to " + std::to_string(high));
  return value;
}

double Json::as_double() const {
  if (kind_ == Kind::integer) return static_cast<double>(integer_);
  if (kind_ != Kind::number) fail("wrong type", describe(Kind::number));
  return number_;
}

const std::string& Json::as_string() const {
  if (kind_ != Kind::string) fail("wrong type", describe(Kind::string));
  return string_;
}

const std::vector<Json>& Json::items() const {
  if (kind_ != Kind::array) fail("wrong type", describe(Kind::array));
  return items_;
}

const std::vector<Json::Member>& Json::members() const {
  if (kind_ != Kind::object) fail("wrong type", describe(Kind::object));
  return members_;
}

const Json* Json::find(std::string_view key) const {
  for (const Member& member : members())
    if (member.first == key) return &member.second;
  return nullptr;
}

const Json& Json::at(std::string_view key) const {
  if (const Json* found = find(key)) return *found;
  std::vector<std::string> present;
  for (const Member& member : members_) present.push_back(member.first);
  if (key == "schema")
    fail("the key 'schema' is missing", {},
         "A file starts with schema \"tilesim.machine\" (or .graph, .program, .result, ...) and version 1; "
         "tilesim machine new writes one");
  const auto begins = [&](const std::string& word) { return word.size() > 3 && key.starts_with(word); };
  const auto begun = std::ranges::find_if(present, begins);
  const std::string close = begun != present.end() ? *begun : nearest(key, present);
  fail("the key '" + std::string(key) + "' is missing", {}, close.empty() ? "" : "There is a key '" + close + "'");
}

void Json::push(Json value) {
  worked(64);
  require(kind_ == Kind::array, "push on a JSON value that is not a list");
  items_.push_back(std::move(value));
}

void Json::set(std::string key, Json value) {
  worked(64);
  require(kind_ == Kind::object, "set on a JSON value that is not an object");
  for (Member& member : members_)
    if (member.first == key) {
      member.second = std::move(value);
      return;
    }
  members_.emplace_back(std::move(key), std::move(value));
}

std::size_t Json::size() const {
  return kind_ == Kind::array ? items_.size() : kind_ == Kind::object ? members_.size() : 0;
}

bool operator==(const Json& a, const Json& b) {
  if (a.kind_ != b.kind_) return false;
  switch (a.kind_) {
    case Json::Kind::null:
      return true;
    case Json::Kind::boolean:
      return a.boolean_ == b.boolean_;
    case Json::Kind::integer:
      return a.integer_ == b.integer_;
    case Json::Kind::number:
      return a.number_ == b.number_;
    case Json::Kind::string:
      return a.string_ == b.string_;
    case Json::Kind::array:
      return a.items_ == b.items_;
    case Json::Kind::object:
      break;
  }
  if (a.members_.size() != b.members_.size()) return false;
  return std::all_of(a.members_.begin(), a.members_.end(), [&](const Json::Member& member) {
    const Json* other = b.find(member.first);
    return other && *other == member.second;
  });
}

ObjectReader::ObjectReader(const Json& object) : object_(object) {
  worked(256);
  object.members();
}

const Json& ObjectReader::required(std::string_view key) {
  asked_.emplace(key);
  return object_.at(key);
}

const Json* ObjectReader::optional(std::string_view key) {
  asked_.emplace(key);
  return object_.find(key);
}

std::int64_t ObjectReader::integer(std::string_view key, std::int64_t low, std::int64_t high) {
  return required(key).as_int(low, high);
}

std::int64_t ObjectReader::integer_or(std::string_view key, std::int64_t fallback, std::int64_t low,
                                      std::int64_t high) {
  const Json* found = optional(key);
  return found ? found->as_int(low, high) : fallback;
}

std::string ObjectReader::string(std::string_view key) { return required(key).as_string(); }

std::string ObjectReader::string_or(std::string_view key, const std::string& fallback) {
  const Json* found = optional(key);
  return found ? found->as_string() : fallback;
}

bool ObjectReader::boolean_or(std::string_view key, bool fallback) {
  const Json* found = optional(key);
  return found ? found->as_bool() : fallback;
}

double ObjectReader::number_or(std::string_view key, double fallback) {
  const Json* found = optional(key);
  return found ? found->as_double() : fallback;
}

void ObjectReader::finish() {
  const std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const auto& [key, value] : object_.members()) {
    if (asked_.count(key)) continue;
    throw UserError({"unknown key", value.place(), "'" + key + "'", join(known), nearest(key, known)});
  }
}

std::string hash_text(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(hash));
  return buffer;
}

}  // namespace tilesim
