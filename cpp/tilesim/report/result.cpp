#include "tilesim/report/result.hpp"

#include <array>

#include "tilesim/base/error.hpp"
#include "tilesim/base/json/names.hpp"

namespace tilesim {

namespace {
constexpr std::array<std::string_view, unit_state_count> state_names{
    "busy", "wait_load", "wait_store", "wait_dependency", "wait_port", "idle"};

Json strings(const std::vector<std::string>& list) {
  Json json = Json::array();
  for (const std::string& text : list) json.push(text);
  return json;
}

Json texts(const std::map<std::string, std::string>& map) {
  Json json = Json::object();
  for (const auto& [key, value] : map) json.set(key, value);
  return json;
}

Json unit_json(const UnitUse& use) {
  Json json = Json::object();
  json.set("unit", use.unit);
  json.set("kind", use.kind);
  json.set("core", use.core);
  Json cycles = Json::object();
  for (std::size_t i = 0; i < state_names.size(); ++i) cycles.set(std::string(state_names[i]), use.cycles[i]);
  json.set("cycles", std::move(cycles));
  json.set("operations", use.operations);
  json.set("bytes", use.bytes);
  json.set("work", use.work);
  return json;
}

UnitUse read_unit(const Json& json) {
  ObjectReader reader(json);
  UnitUse use;
  use.unit = reader.string("unit");
  use.kind = reader.string("kind");
  use.core = reader.required("core").as_int();
  ObjectReader cycles(reader.required("cycles"));
  for (std::size_t i = 0; i < state_names.size(); ++i) use.cycles[i] = cycles.required(state_names[i]).as_int();
  cycles.finish();
  use.operations = reader.required("operations").as_int();
  use.bytes = reader.required("bytes").as_int();
  use.work = reader.required("work").as_double();
  reader.finish();
  return use;
}

template <class Use, class Visit>
void operation_fields(Use& use, Visit visit) {
  visit("count", use.count);
  visit("start", use.start);
  visit("finish", use.finish);
  visit("cycles", use.cycles);
  visit("exclusive", use.exclusive);
  visit("load_bytes", use.load_bytes);
  visit("store_bytes", use.store_bytes);
  visit("array_busy", use.array_busy);
  visit("vector_busy", use.vector_busy);
  visit("memory_busy", use.memory_busy);
  visit("launch", use.launch);
}

/// Fields that are written only if they are not 0.
template <class R, class Visit>
void traffic_fields(R& result, Visit visit) {
  visit("memory_merged_bytes", result.memory_merged_bytes);
  visit("memory_forwarded_bytes", result.memory_forwarded_bytes);
  visit("memory_padding_bytes", result.memory_padding_bytes);
  visit("on_chip_bytes", result.on_chip_bytes);
}

template <class R, class Visit>
void integer_fields(R& result, Visit visit) {
  visit("cycles", result.cycles);
  visit("hertz", result.hertz);
  visit("tile_operations", result.tile_operations);
  visit("events", result.events);
  visit("memory_read_bytes", result.memory_read_bytes);
  visit("memory_written_bytes", result.memory_written_bytes);
  visit("network_bytes", result.network_bytes);
  visit("intervals_dropped", result.intervals_dropped);
}

std::vector<std::string> read_strings(const Json& json) {
  std::vector<std::string> list;
  for (const Json& item : json.items()) list.push_back(item.as_string());
  return list;
}

std::map<std::string, std::string> read_texts(const Json& json) {
  std::map<std::string, std::string> map;
  for (const auto& [key, value] : json.members()) map[key] = value.as_string();
  return map;
}

Json operation_json(const OperationUse& use) {
  Json json = Json::object();
  json.set("name", use.name);
  json.set("operation", names_json(use.operation));
  operation_fields(use, [&](const char* key, std::int64_t value) { json.set(key, value); });
  json.set("multiply_adds", use.multiply_adds);
  json.set("vector_operations", use.vector_operations);
  json.set("bound", use.bound);
  json.set("bound_share", use.bound_share);
  return json;
}

OperationUse read_operation(const Json& json) {
  ObjectReader reader(json);
  OperationUse use;
  use.name = reader.string("name");
  use.operation = names_of(reader.required("operation"));
  operation_fields(use, [&](const char* key, std::int64_t& value) { value = reader.required(key).as_int(); });
  use.multiply_adds = reader.required("multiply_adds").as_double();
  use.vector_operations = reader.required("vector_operations").as_double();
  use.bound = reader.string("bound");
  use.bound_share = reader.required("bound_share").as_double();
  reader.finish();
  return use;
}

Json job_json(const JobUse& job) {
  Json json = Json::object(), cores = Json::array();
  json.set("program", job.program);
  for (std::int64_t core : job.cores) cores.push(core);
  json.set("cores", std::move(cores));
  json.set("arrival", job.arrival);
  json.set("start", job.start);
  json.set("finish", job.finish);
  return json;
}

JobUse read_job(const Json& json) {
  ObjectReader reader(json);
  JobUse job;
  job.program = reader.string("program");
  for (const Json& core : reader.required("cores").items()) job.cores.push_back(core.as_int());
  job.arrival = reader.required("arrival").as_int();
  job.start = reader.required("start").as_int();
  job.finish = reader.required("finish").as_int();
  reader.finish();
  return job;
}

Json energy_json(const std::vector<EnergyPart>& energy) {
  Json energy_list = Json::array();
  for (const EnergyPart& part : energy) {
    Json entry = Json::object();
    entry.set("part", part.part);
    entry.set("count", part.count);
    entry.set("femtojoules", part.femtojoules);
    entry.set("known", part.known);
    energy_list.push(std::move(entry));
  }
  return energy_list;
}

Json intervals_json(const std::vector<Interval>& intervals) {
  Json interval_list = Json::array();
  for (const Interval& interval : intervals) {
    Json entry = Json::array();
    entry.push(std::int64_t{interval.unit});
    entry.push(std::int64_t{interval.label});
    entry.push(interval.start);
    entry.push(interval.finish);
    interval_list.push(std::move(entry));
  }
  return interval_list;
}

}  // namespace

std::string_view name(UnitState state) { return state_names[static_cast<std::size_t>(state)]; }

Json Result::to_json() const {
  Json json = Json::object();
  json.set("schema", "tilesim.result");
  json.set("version", 2);
  json.set("program", program);
  json.set("machine", machine);
  json.set("source", source);
  integer_fields(*this, [&](const char* key, std::int64_t value) { json.set(key, value); });
  if (memory_local_bytes + memory_remote_bytes > 0) {
    json.set("memory_local_bytes", memory_local_bytes);
    json.set("memory_remote_bytes", memory_remote_bytes);
  }
  traffic_fields(*this, [&](const char* key, std::int64_t value) {
    if (value != 0) json.set(key, value);
  });
  json.set("seconds", seconds());
  json.set("multiply_adds", multiply_adds);
  json.set("vector_operations", vector_operations);
  json.set("bottleneck", bottleneck);
  json.set("bottleneck_share", bottleneck_share);
  Json unit_list = Json::array(), operation_list = Json::array();
  for (const UnitUse& use : units) unit_list.push(unit_json(use));
  for (const OperationUse& use : operations) operation_list.push(operation_json(use));
  json.set("units", std::move(unit_list));
  json.set("operations", std::move(operation_list));
  if (!jobs.empty()) {
    Json list = Json::array();
    for (const JobUse& job : jobs) list.push(job_json(job));
    json.set("jobs", std::move(list));
  }
  if (!counts.empty()) json.set("counts", counts_json(counts));
  json.set("energy", energy_json(energy));
  if (!lowering.empty()) json.set("lowering", lowering);
  if (!setting.empty()) json.set("setting", setting);
  if (!bounds.is_null()) json.set("bounds", bounds);
  json.set("approximations", strings(approximations));
  json.set("fidelity", texts(fidelity));
  json.set("hashes", texts(hashes));
  if (!versions.empty()) json.set("versions", texts(versions));
  if (!data_sources.empty()) json.set("data_sources", texts(data_sources));
  if (!options.empty()) json.set("options", texts(options));
  json.set("labels", strings(labels));
  json.set("intervals", intervals_json(intervals));
  if (!memory.is_null()) json.set("memory", memory);
  if (!cache.is_null()) json.set("cache", cache);
  if (!network.is_null()) json.set("network", network);
  if (!live.is_null()) json.set("live", live);
  json.set("configuration", configuration);
  return json;
}

Result Result::from_json(const Json& json) {
  ObjectReader reader(json);
  if (reader.string("schema") != "tilesim.result") json.at("schema").fail("not a result file", "\"tilesim.result\"");
  if (reader.integer("version", 1, 1000000) > 2)
    json.at("version").fail("written by a newer Tilesim", "version 1 or 2");
  Result result;
  result.program = reader.string("program");
  result.machine = reader.string("machine");
  result.source = reader.string("source");
  integer_fields(result, [&](const char* key, std::int64_t& value) { value = reader.required(key).as_int(); });
  result.memory_local_bytes = reader.integer_or("memory_local_bytes", 0, 0, INT64_MAX);
  result.memory_remote_bytes = reader.integer_or("memory_remote_bytes", 0, 0, INT64_MAX);
  traffic_fields(result,
                 [&](const char* key, std::int64_t& value) { value = reader.integer_or(key, 0, 0, INT64_MAX); });
  json.at("hertz").as_int(1, INT64_MAX);  // seconds divide by it
  reader.required("seconds");
  result.multiply_adds = reader.required("multiply_adds").as_double();
  result.vector_operations = reader.required("vector_operations").as_double();
  result.bottleneck = reader.string("bottleneck");
  result.bottleneck_share = reader.required("bottleneck_share").as_double();
  for (const Json& item : reader.required("units").items()) result.units.push_back(read_unit(item));
  for (const Json& item : reader.required("operations").items()) result.operations.push_back(read_operation(item));
  if (const Json* jobs = reader.optional("jobs"))
    for (const Json& item : jobs->items()) result.jobs.push_back(read_job(item));
  if (const Json* counts = reader.optional("counts")) result.counts = read_counts(*counts);
  for (const Json& item : reader.required("energy").items())
    result.energy.push_back({item.at("part").as_string(), item.at("count").as_int(), item.at("femtojoules").as_int(),
                             item.at("known").as_bool()});
  if (const Json* lowering = reader.optional("lowering")) result.lowering = lowering->as_string();
  if (const Json* setting = reader.optional("setting")) result.setting = setting->as_string();
  if (const Json* bounds = reader.optional("bounds")) result.bounds = *bounds;
  result.approximations = read_strings(reader.required("approximations"));
  result.fidelity = read_texts(reader.required("fidelity"));
  result.hashes = read_texts(reader.required("hashes"));
  if (const Json* versions = reader.optional("versions")) result.versions = read_texts(*versions);
  if (const Json* sources = reader.optional("data_sources")) result.data_sources = read_texts(*sources);
  if (const Json* options = reader.optional("options")) result.options = read_texts(*options);
  result.labels = read_strings(reader.required("labels"));
  for (const Json& item : reader.required("intervals").items()) {
    if (item.items().size() != 4) item.fail("an interval has four numbers", "[unit, label, start, finish]");
    result.intervals.push_back({static_cast<std::int32_t>(item.items()[0].as_int()),
                                static_cast<std::int32_t>(item.items()[1].as_int()), item.items()[2].as_int(),
                                item.items()[3].as_int()});
  }
  if (const Json* memory = reader.optional("memory")) result.memory = *memory;
  reader.optional("page");            // data for a page that is generated from the file
  reader.optional("tile_latencies");  // counts of the host's table, independent of timing
  if (const Json* cache = reader.optional("cache")) result.cache = *cache;
  if (const Json* network = reader.optional("network")) result.network = *network;
  if (const Json* live = reader.optional("live")) result.live = *live;
  result.configuration = reader.required("configuration");
  reader.finish();
  return result;
}

std::string Result::timing_hash() const {
  std::string text;
  const auto add = [&](std::int64_t value) { text += std::to_string(value) + ","; };
  for (std::int64_t value : {cycles, tile_operations, memory_read_bytes, memory_written_bytes, network_bytes})
    add(value);
  if (memory_remote_bytes > 0) add(memory_remote_bytes);
  if (on_chip_bytes > 0) add(on_chip_bytes);
  for (const UnitUse& use : units) {
    for (std::int64_t value : use.cycles) add(value);
    add(use.operations);
    add(use.bytes);
  }
  for (const OperationUse& use : operations)
    operation_fields(use, [&](const char*, std::int64_t value) { add(value); });
  return hash_text(text);
}

}  // namespace tilesim
