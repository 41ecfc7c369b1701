#include "tilesim/machine/sorts.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"

namespace tilesim {

namespace {

constexpr std::int64_t most_cores = 1024;

std::vector<std::string> names_of(const Machine& machine) {
  std::vector<std::string> names;
  for (const CoreSort& sort : machine.sorts) names.push_back(sort.name);
  return names;
}

const Setting* find_setting(const std::string& path) {
  for (const Setting& setting : machine_settings())
    if (setting.path == path) return &setting;
  return nullptr;
}

/// Settings of a core that each core type may set.
void change(CoreSort& sort, const std::string& path, const Json& value) {
  std::vector<std::string> known;
  for (const Setting& setting : machine_settings())
    if (setting.path.compare(0, 5, "core.") == 0 && setting.path != "core.count" &&
        setting.path != "core.isa.functions")
      known.push_back(setting.path);
  if (std::find(known.begin(), known.end(), path) == known.end())
    throw UserError({"unknown setting of a core type", value.place(), "'" + path + "'",
                     path == "core.count" ? "\"count\" beside \"core\"" : join(known), nearest(path, known)});
  sort.changes[path] = value;
}

void read_changes(Machine& machine, CoreSort& sort, const Json& json, const std::string& prefix) {
  for (const auto& [key, value] : json.members()) {
    const std::string path = prefix + key;
    if (!find_setting(path) && value.is_object() && !value.find("value")) {
      read_changes(machine, sort, value, path + ".");
    } else if (value.is_object() && value.find("value")) {  // value with its source
      ObjectReader reader(value);
      change(sort, path, reader.required("value"));
      machine.sources["cores." + sort.name + "." + path] = reader.string("source");
      reader.finish();
    } else {
      change(sort, path, value);
    }
  }
}

std::int64_t count_of(const Json& json) {
  const std::int64_t count = json.as_int();
  if (count < 1 || count > most_cores) json.fail("out of range", "1 to " + std::to_string(most_cores));
  return count;
}

CoreSort& sort_named(Machine& machine, const std::string& name) {
  for (CoreSort& sort : machine.sorts)
    if (sort.name == name) return sort;
  const std::vector<std::string> names = names_of(machine);
  throw UserError({"the machine has no cores of this type", machine.name, "'" + name + "'",
                   names.empty() ? "none: all cores are alike" : join(names), nearest(name, names)});
}

}  // namespace

void read_sorts(Machine& machine, const Json& json) {
  machine.sorts.clear();
  for (const Json& item : json.items()) {
    ObjectReader reader(item);
    CoreSort& sort = machine.sorts.emplace_back();
    sort.name = reader.string("sort");
    if (sort.name.empty() || sort.name.find('.') != std::string::npos)
      item.at("sort").fail("invalid name of a core type", "letters, digits, dashes");
    for (const CoreSort& other : machine.sorts)
      if (&other != &sort && other.name == sort.name) item.at("sort").fail("two core types have one name");
    sort.core.count = count_of(reader.required("count"));
    if (const Json* core = reader.optional("core")) read_changes(machine, sort, *core, "core.");
    reader.finish();
  }
  if (machine.sorts.empty()) json.fail("no cores", "[{\"sort\": \"big\", \"count\": 2, \"core\": {...}}, ...]");
  resolve_sorts(machine);
}

Json sorts_json(const Machine& machine) {
  Json list = Json::array();
  for (const CoreSort& sort : machine.sorts) {
    Json entry = Json::object(), all = Json::object();
    entry.set("sort", sort.name);
    entry.set("count", sort.core.count);
    for (const auto& [path, value] : sort.changes) put_setting(all, path, value);
    if (const Json* core = all.find("core")) entry.set("core", *core);
    list.push(std::move(entry));
  }
  return list;
}

void resolve_sorts(Machine& machine) {
  if (machine.sorts.empty()) return;
  std::int64_t total = 0;
  for (CoreSort& sort : machine.sorts) {
    Machine own = machine;
    own.sorts.clear();
    for (const auto& [path, value] : sort.changes) find_setting(path)->set(own, value);
    own.core.count = sort.core.count;
    sort.core = own.core;
    total += sort.core.count;
    if (sort.core.clock.hertz > machine.core.clock.hertz)
      throw UserError({"a core's clock is faster than core.clock, which counts the machine's cycles",
                       "cores." + sort.name + ".core.clock", std::to_string(sort.core.clock.hertz) + " Hz",
                       "at most " + std::to_string(machine.core.clock.hertz) + " Hz",
                       "set core.clock to that of the fastest core type"});
    if (sort.core.array.count > 0 && sort.core.array.rates.empty())
      throw UserError({"the setting core.array.rates is missing", "cores." + sort.name, {}, "{\"f32\": 1.0, ...}", {}});
  }
  if (total > most_cores)
    throw UserError({"too many cores", "cores", std::to_string(total), "at most " + std::to_string(most_cores), {}});
  machine.core.count = total;
}

bool replace_in_sorts(Machine& machine, const std::string& path, const Json& value) {
  if (path == "cores") {
    read_sorts(machine, value);
    return true;
  }
  if (path == "core.count" && !machine.sorts.empty()) {
    std::vector<std::string> paths;
    for (const CoreSort& sort : machine.sorts) paths.push_back("cores." + sort.name + ".count");
    throw UserError({"each core type has a count", path, value.dump(), join(paths), {}});
  }
  if (path.compare(0, 6, "cores.") != 0) return false;
  const std::size_t dot = path.find('.', 6);
  const std::string rest = dot == std::string::npos ? "" : path.substr(dot + 1);
  CoreSort& sort = sort_named(machine, path.substr(6, dot == std::string::npos ? dot : dot - 6));
  if (rest == "count")
    sort.core.count = count_of(value);
  else
    change(sort, rest, value);
  return true;
}

const CoreSpec& Machine::core_at(std::int64_t number) const {
  for (const CoreSort& sort : sorts) {
    if (number < sort.core.count) return sort.core;
    number -= sort.core.count;
  }
  return core;
}

std::vector<std::int64_t> Machine::cores_of(const std::string& sort) const {
  std::vector<std::int64_t> numbers;
  std::int64_t first = 0;
  for (const CoreSort& own : sorts) {
    for (std::int64_t i = 0; own.name == sort && i < own.core.count; ++i) numbers.push_back(first + i);
    first += own.core.count;
  }
  if (numbers.empty()) static_cast<void>(only(sort));
  return numbers;
}

Machine Machine::only(const std::string& sort) const {
  Machine result = *this;
  result.core = sort_named(result, sort).core;
  result.sorts.clear();
  return result;
}

}  // namespace tilesim
