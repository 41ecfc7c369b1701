#include "tilesim/machine/user_instruction.hpp"

#include <algorithm>
#include <array>

#include "tilesim/base/error.hpp"

namespace tilesim {

namespace {

constexpr double most_cycles = 1e6;
constexpr std::array<const char*, 6> units{"arithmetic", "special", "cross-lane", "matrix", "load", "store"};
/// Types of the elements in registers while a kernel computes, possibly after a conversion.
constexpr std::array<const char*, 4> elements{"f32", "f16", "bf16", "i32"};

template <std::size_t n>
std::vector<std::string> all(const std::array<const char*, n>& names) {
  return {names.begin(), names.end()};
}

/// Words of the operands in their order in the text.
std::vector<std::string> words(const std::string& text) {
  std::vector<std::string> found;
  std::string word;
  const std::size_t space = text.find(' ');
  for (const char c : space == std::string::npos ? std::string() : text.substr(space)) {
    if (c == ' ') continue;
    if (c == ',') found.push_back(std::exchange(word, {}));
    if (c != ',') word += c;
  }
  if (!word.empty()) found.push_back(word);
  return found;
}

bool is_name(const std::string& text, const char* more) {
  return !text.empty() && text.size() <= 40 && std::ranges::all_of(text, [more](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view(more).find(c) != std::string_view::npos;
  });
}

const std::string& one_of(const Json& json, const char* what, const std::vector<std::string>& allowed) {
  const std::string& text = json.as_string();
  if (std::ranges::find(allowed, text) == allowed.end()) json.fail(what, join(allowed), nearest(text, allowed));
  return text;
}

std::optional<double> cycles_at(ObjectReader& reader, const char* key, double least) {
  const Json* json = reader.optional(key);
  if (json == nullptr) return std::nullopt;
  const double value = json->as_double();
  if (!(value >= least && value <= most_cycles)) json->fail("out of range", "0.00390625 to 1e6 cycles");
  return value;
}

void read_unit(const Json& json, UserInstruction& to) {
  if (!json.is_object()) {
    to.unit = one_of(json, "unknown unit", all(units));
    return;
  }
  ObjectReader reader(json);
  UserUnit own{reader.string("name"), reader.integer_or("queue", 4, 1, 64), reader.integer_or("pipes", 1, 1, 8)};
  reader.finish();
  if (!is_name(own.name, "-_")) json.at("name").fail("invalid name of a unit", "letters, digits, '-' and '_'");
  to.custom = own, to.unit = "arithmetic";
}

UserInstruction instruction_at(const Json& json) {
  constexpr std::int64_t most = 0xFFFFFFFF;
  ObjectReader reader(json);
  UserInstruction read;
  read.text = reader.string("instruction");
  if (!is_name(read.name(), "._")) json.at("instruction").fail("no mnemonic", "such as 'my.vexp2 vd, vs2'");
  read.match = static_cast<std::uint32_t>(reader.integer("match", 0, most));
  read.mask = static_cast<std::uint32_t>(reader.integer("mask", 0, most));
  read.element = one_of(reader.required("element"), "kernels do not compute with such elements", all(elements));
  read.width = read.element == "f32" || read.element == "i32" ? 32 : 16;
  read_unit(reader.required("unit"), read);
  read.per_register = cycles_at(reader, "cycles_per_register", 1.0 / 256);
  read.whole = cycles_at(reader, "cycles", 1);
  if (read.per_register && read.whole) json.fail("cycles for each register or for all, not both");
  read.latency = cycles_at(reader, "latency", 0);
  read.description = reader.string_or("description", "");
  reader.finish();
  return read;
}

Json from_instruction(const UserInstruction& one) {
  Json json = Json::object();
  json.set("instruction", one.text);
  json.set("match", std::int64_t{one.match});
  json.set("mask", std::int64_t{one.mask});
  json.set("element", one.element);
  if (one.custom) {
    Json unit = Json::object();
    unit.set("name", one.custom->name), unit.set("queue", one.custom->queue), unit.set("pipes", one.custom->pipes);
    json.set("unit", std::move(unit));
  } else {
    json.set("unit", one.unit);
  }
  if (one.per_register) json.set("cycles_per_register", *one.per_register);
  if (one.whole) json.set("cycles", *one.whole);
  if (one.latency) json.set("latency", *one.latency);
  if (!one.description.empty()) json.set("description", one.description);
  return json;
}

}  // namespace

std::string UserInstruction::operands() const {
  std::string plain;
  for (std::string word : words(text)) {
    std::erase(word, '+');
    plain += (plain.empty() ? "" : ", ") + word;
  }
  return plain;
}

bool UserInstruction::declared_as(const UserInstruction& other) const {
  return text == other.text && match == other.match && mask == other.mask && element == other.element &&
         width == other.width && unit == other.unit && custom == other.custom && per_register == other.per_register &&
         whole == other.whole && latency == other.latency;
}

void check_stands_for(const UserInstruction& instruction, Function function) {
  const FunctionInfo& of = info(function);
  std::vector<std::string> given = words(instruction.text);
  const std::string place = "'" + instruction.text + "'";
  if (of.returns_boolean || function == Function::select)
    throw UserError({"no instruction computes a function of conditions", place, std::string(of.name), {}, {}});
  if (std::ranges::find(elements, instruction.element) == elements.end())
    throw UserError({"kernels do not compute with such elements",
                     place,
                     instruction.element.empty() ? "none stated" : instruction.element,
                     join(all(elements)),
                     {}});
  int sources = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    const std::string& word = given[i];
    const bool destination = i == 0 && (word == "vd" || word == "vd+"), source = word == "vs1" || word == "vs2";
    const bool twice = std::ranges::count(given, word) > 1;
    if (twice || (!destination && !source && !(word == "vm" && i + 1 == given.size())))
      throw UserError({"an instruction for a function takes vector registers", place, word, "vd, vs2, vs1, vm", {}});
    sources += source || word == "vd+" ? 1 : 0;
  }
  if (given.empty() || sources != of.arity)
    throw UserError({"the function has another number of operands",
                     place,
                     std::to_string(sources) + " operands",
                     std::string(of.name) + " has " + std::to_string(of.arity),
                     {}});
}

Json to_json(const UserInstructions& instructions) {
  if (instructions.empty()) return {};
  Json json = Json::object();
  for (const auto& [function, one] : instructions) json.set(std::string(info(function).name), from_instruction(one));
  return json;
}

UserInstructions user_instructions(const Json& json, const UserInstructions& known) {
  UserInstructions read;
  if (json.is_string() && json.as_string().empty()) return read;  // no instructions, in the table of settings
  for (const auto& [key, value] : json.members()) {
    try {
      const Function function = parse_function(key);
      UserInstruction one = instruction_at(value);
      check_stands_for(one, function);
      const auto before = known.find(function);
      if (before != known.end() && before->second.declared_as(one)) one.meaning = before->second.meaning;
      read[function] = std::move(one);
    } catch (const UserError& error) {
      UserError::Parts parts = error.parts();
      if (parts.place.empty() || parts.place.starts_with("'"))
        parts.place = value.place() + (parts.place.empty() ? "" : ", " + parts.place);
      throw UserError(std::move(parts));
    }
  }
  return read;
}

}  // namespace tilesim
