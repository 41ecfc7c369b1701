#include "tilesim/machine/machine.hpp"

#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"
#include "tilesim/machine/sorts.hpp"

namespace tilesim {

namespace {

/// The settings below `prefix`, split at the first dot: sections hold further objects.
void read_section(Machine& machine, const Json& json, const std::string& prefix) {
  std::vector<std::string> known;
  for (const Setting& setting : machine_settings()) {
    if (setting.path.compare(0, prefix.size(), prefix) != 0) continue;
    const std::string rest = setting.path.substr(prefix.size());
    const std::string key = rest.substr(0, rest.find('.'));
    if (known.empty() || known.back() != key) known.push_back(key);
  }
  for (const auto& [key, value] : json.members()) {
    const std::string path = prefix + key;
    bool section = false;
    const Setting* found = nullptr;
    for (const Setting& setting : machine_settings()) {
      if (setting.path == path) found = &setting;
      section |= setting.path.compare(0, path.size() + 1, path + ".") == 0;
    }
    if (found) {
      // {"value": ..., "source": "..."} states the source of the number.
      const bool sourced = value.is_object() && value.find("value");
      if (sourced) {
        ObjectReader reader(value);
        found->set(machine, reader.required("value"));
        machine.sources[path] = reader.string("source");
        reader.finish();
      } else {
        found->set(machine, value);
      }
    } else if (section) {
      read_section(machine, value, path + ".");
    } else {
      throw UserError({"unknown setting", value.place(), "'" + path + "'", join(known), nearest(key, known)});
    }
  }
}

/// Rejects 2:4 weights on input-stationary arrays: cells hold the weights and select among the streamed elements.
void check_pattern(const Machine& machine) {
  const auto check = [](const CoreSpec& core) {
    if (core.array.two_of_four && core.array.dataflow == Dataflow::input_stationary)
      throw UserError({"arrays that hold the first operand take no pattern of the second one",
                       "core.array.pattern",
                       "2:4 with the dataflow input_stationary",
                       "none, or another dataflow",
                       {}});
  };
  check(machine.core);
  for (const CoreSort& sort : machine.sorts) check(sort.core);
}

void check_machine(const Machine& machine, const Json& json) {
  if (machine.memory.bytes_per_second <= 0) json.fail("the setting memory.bandwidth is missing", "\"100 GB/s\", ...");
  if (machine.core.array.count > 0 && machine.core.array.rates.empty())
    json.fail("the setting core.array.rates is missing", "{\"f32\": 1.0, ...}");
  try {
    check_memory(machine);
    check_pattern(machine);
  } catch (const UserError& error) {
    const UserError::Parts& parts = error.parts();
    json.fail(parts.what + ": " + parts.place + " is " + parts.value, parts.allowed);
  }
  const Json* memory = json.find("memory");
  const Json* cache = memory ? memory->find("cache") : nullptr;
  if (cache && !cache->find("sets")) cache->fail("the setting memory.cache.sets is missing", "1 or more; 0: no cache");
  check_cache(machine, cache ? cache->place() : json.place());
  check_sparse(machine, json.place());
}

}  // namespace

Machine Machine::from_json(const Json& json) {
  ObjectReader reader(json);
  if (reader.string("schema") != "tilesim.machine") json.at("schema").fail("not a machine file", "\"tilesim.machine\"");
  if (reader.integer("version", 1, 1000000) != 1) json.at("version").fail("written by a newer Tilesim", "version 1");
  Machine machine;
  machine.name = reader.string("name");
  machine.description = reader.string_or("description", "");
  for (const char* section : {"core", "network", "memory", "layout", "energy", "host"})
    if (const Json* body = reader.optional(section)) read_section(machine, *body, std::string(section) + ".");
  if (const Json* cores = reader.optional("cores")) {
    const std::int64_t counted = machine.core.count;
    read_sorts(machine, *cores);
    const Json* core = json.find("core");
    if (core && core->find("count") && counted != machine.core.count)
      core->at("count").fail("the core types together have another number of cores",
                             std::to_string(machine.core.count));
  }
  if (const Json* lowering = reader.optional("lowering")) {
    begin_lowering(machine, *lowering);
    read_section(machine, *lowering, "lowering.");
  }
  if (const Json* sources = reader.optional("sources"))
    for (const auto& [path, source] : sources->members()) {
      bool known = path == "cores" || path.compare(0, 6, "cores.") == 0;
      for (const Setting& setting : machine_settings()) known |= setting.path == path;
      if (!known) source.fail("a source for a setting that does not exist: '" + path + "'");
      machine.sources[path] = source.as_string();
    }
  reader.finish();
  check_machine(machine, json);
  return machine;
}

Machine Machine::read_file(const std::string& path) { return from_json(Json::read_file(path)); }

namespace {

/// Writes the settings that `wanted` accepts, the core types, and the existing sections of the profile.
template <class Wanted>
void put_settings(Json& json, const Machine& machine, const Wanted& wanted) {
  bool sorts = machine.sorts.empty();
  for (const Setting& setting : machine_settings()) {
    if (!sorts && setting.path.starts_with("lowering.")) {
      json.set("cores", sorts_json(machine));
      sorts = true;
    }
    if (Json value = setting.get(machine); !value.is_null() && wanted(setting, value))
      put_setting(json, setting.path, std::move(value));
  }
}

}  // namespace

Json Machine::to_json() const {
  Json json = Json::object();
  json.set("schema", "tilesim.machine");
  json.set("version", 1);
  json.set("name", name);
  json.set("description", description);
  put_settings(json, *this, [](const Setting&, const Json&) { return true; });
  Json origins = Json::object();
  for (const auto& [path, source] : sources) origins.set(path, source);
  json.set("sources", std::move(origins));
  return json;
}

namespace {

/// Settings of the section that a path names; the names of all sections if it is unknown.
std::vector<std::string> settings_near(const std::string& path) {
  const std::string section = path.substr(0, path.rfind('.') + 1);
  std::vector<std::string> near, sections;
  for (const Setting& setting : machine_settings()) {
    const std::string own = setting.path.substr(0, setting.path.rfind('.') + 1);
    if (own == section) near.push_back(setting.path);
    if (std::find(sections.begin(), sections.end(), own + "*") == sections.end()) sections.push_back(own + "*");
  }
  if (near.empty()) return sections;
  for (const std::string& inner : sections)
    if (inner.starts_with(section) && inner != section + "*") near.push_back(inner);
  return near;
}

}  // namespace

Machine Machine::replace(const std::map<std::string, Json>& changes) const {
  Machine result = *this;
  std::vector<std::string> known;
  for (const Setting& setting : machine_settings()) known.push_back(setting.path);
  for (const auto& [path, value] : changes) {
    result.sources[path] = "replaced by the user";
    if (replace_in_sorts(result, path, value)) continue;
    const Setting* found = nullptr;
    for (const Setting& setting : machine_settings())
      if (setting.path == path) found = &setting;
    if (!found)
      throw UserError({"unknown setting", {}, "'" + path + "'", join(settings_near(path)), nearest(path, known)});
    try {
      found->set(result, value);
    } catch (const UserError& error) {
      throw UserError({error.parts().what, path, error.parts().value, error.parts().allowed, error.parts().suggestion});
    }
  }
  resolve_sorts(result);
  check_memory(result);
  check_sparse(result, {});
  check_pattern(result);
  const auto of_cache = changes.lower_bound("memory.cache.");
  if (of_cache != changes.end() && of_cache->first.compare(0, 13, "memory.cache.") == 0) {
    if (result.memory.cache.sets == 0 && !changes.count("memory.cache.sets"))
      throw UserError({"the machine has no cache", of_cache->first, {}, "memory.cache.sets of 1 or more with it", {}});
    check_cache(result, "memory.cache");
  }
  return result;
}

std::string Machine::hash() const {
  Json json = Json::object();
  json.set("schema", "tilesim.machine");
  json.set("version", 1);
  json.set("name", name);
  json.set("description", "");
  const Machine fresh;
  put_settings(json, *this, [&fresh](const Setting& setting, const Json& value) {
    return !setting.added || value.dump() != setting.get(fresh).dump();
  });
  json.set("sources", Json());
  json.set("description", "");
  return hash_text(json.dump());
}

double Device::matrix_flops_per_second(DType dtype) const {
  const auto found = matrix_rates.find(dtype);
  return found == matrix_rates.end() ? 0 : found->second;
}

double Device::vector_flops_per_second(DType dtype) const {
  const auto found = vector_rates.find(dtype);
  return found == vector_rates.end() ? 0 : found->second;
}

namespace {

void add_rates(Device& device, const CoreSpec& core) {
  const double clock = static_cast<double>(core.clock.hertz), cores = static_cast<double>(core.count);
  const ArraySpec& array = core.array;
  const bool sparse = array.sparse.present();
  const double cells =
      static_cast<double>(array.count * (sparse ? array.sparse.multipliers : array.rows * array.columns));
  for (const auto& [dtype, rate] : array.rates) device.matrix_rates[dtype] += 2 * cells * rate * clock * cores;
  const VectorSpec& vector = core.vector;
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (!vector.dtypes.empty() && !vector.dtypes.count(dtype)) continue;
    const double packed = vector.packs_narrow && bits(dtype) < 32 ? 32.0 / std::max(8, bits(dtype))
                          : bits(dtype) > 32                      ? 0.5
                                                                  : 1.0;
    device.vector_rates[dtype] +=
        static_cast<double>(vector.lanes * vector.sublanes * vector.issue) / vector.simple * packed * clock * cores;
  }
}

}  // namespace

Device Device::from_machine(const Machine& machine) {
  Device device;
  device.name = machine.name;
  if (machine.sorts.empty()) add_rates(device, machine.core);
  for (const CoreSort& sort : machine.sorts) add_rates(device, sort.core);
  device.memory_bytes_per_second = static_cast<double>(machine.memory.bytes_per_second);
  device.kernel_seconds =
      static_cast<double>(machine.core.kernel_launch_cycles) / static_cast<double>(machine.core.clock.hertz);
  return device;
}

}  // namespace tilesim
