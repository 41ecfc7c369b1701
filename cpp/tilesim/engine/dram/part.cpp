#include "tilesim/engine/dram/part.hpp"

#include <algorithm>
#include <filesystem>

#include "tilesim/base/units.hpp"
#include "tilesim/engine/dram/mapping.hpp"

namespace tilesim::engine::dram {

namespace {

constexpr std::array<const char*, command_count> command_names{"RD", "WR", "ACT", "PREpb", "REFpb", "PREab", "REFab"};
const std::vector<std::string> level_names{"channel",    "pseudo_channel", "rank", "stack",
                                           "bank_group", "bank",           "row",  "column"};
const std::vector<std::string> page_names{"open", "closed", "timeout"};
const std::vector<std::string> refresh_names{"all_bank", "per_bank", "none"};

std::size_t choice(const Json& json, const std::vector<std::string>& allowed) {
  const auto found = std::find(allowed.begin(), allowed.end(), json.as_string());
  if (found == allowed.end())
    throw UserError({"unknown value", json.place(), "'" + json.as_string() + "'", join(allowed),
                     nearest(json.as_string(), allowed)});
  return static_cast<std::size_t>(found - allowed.begin());
}

/// Reads a list of commands; omits commands that this controller never issues.
std::vector<Command> read_commands(const Json& json) {
  static const std::vector<std::string> never{"RDA", "WRA", "RFMab", "RFMpb", "ACT2", "CAS_RD", "CAS_WR"};
  std::vector<Command> commands;
  for (const Json& item : json.items()) {
    const std::string& text = item.as_string();
    if (std::find(never.begin(), never.end(), text) != never.end()) continue;
    std::vector<std::string> known(command_names.begin(), command_names.end());
    const auto found = std::find(known.begin(), known.end(), text == "ACT1" ? "ACT" : text);
    if (found == known.end())
      throw UserError({"unknown command", item.place(), "'" + text + "'", join(known), nearest(text, known)});
    commands.push_back(static_cast<Command>(found - known.begin()));
  }
  if (json.items().empty()) json.fail("a constraint names no command");
  return commands;
}

void read_levels(Part& part, const Json& json) {
  std::size_t above = 0;
  for (const auto& [key, value] : json.members()) {
    const auto found = std::find(level_names.begin(), level_names.end(), key);
    if (found == level_names.end())
      throw UserError({"unknown level", value.place(), "'" + key + "'", join(level_names), nearest(key, level_names)});
    const auto rank = static_cast<std::size_t>(found - level_names.begin());
    if (!part.levels.empty() && rank <= above) value.fail("levels must go from the top down", join(level_names));
    above = rank;
    const std::int64_t count = value.as_int(1, 1 << 26);
    if ((count & (count - 1)) != 0) value.fail("a level's count is not a power of two", "1, 2, 4, ...");
    part.levels.push_back({key, count});
  }
  for (const char* needed : {"channel", "bank", "row", "column"})
    if (part.level(needed) < 0) json.fail(std::string("the level ") + needed + " is missing");
  if (part.levels[0].count != 1) json.at("channel").fail("a part must describe one channel", "1");
  std::int64_t banks = 1;
  for (int i = 0; i <= part.bank_level(); ++i) banks *= part.levels[static_cast<std::size_t>(i)].count;
  if (banks > bank_limit) json.fail("too many banks on a channel", "at most " + std::to_string(bank_limit));
}

void read_features(Part& part, const Json& json) {
  ObjectReader reader(json);
  Features& f = part.features;
  const auto ticks = [&](const Json& value) { return evaluate_timing(value, part.timing, part.clock_ps); };
  f.row_and_column_bus = choice(reader.required("command_bus"), {"shared", "row_and_column"}) == 1;
  if (const Json* edges = reader.optional("edges")) f.both_edges = choice(*edges, {"rising", "both"}) == 1;
  if (f.both_edges && !f.row_and_column_bus) json.fail("commands on both edges need a row and a column bus");
  if (const Json* window = reader.optional("two_step_activate")) {
    f.two_step_activate = true;
    f.activate_window = ticks(*window);
    if (f.activate_window < 1) window->fail("the second step of an activation needs a separate tick", "1 or more");
  }
  if (const Json* sync = reader.optional("clock_sync")) {
    ObjectReader inner(*sync);
    f.clock_sync = true;
    f.sync_read = ticks(inner.required("read"));
    f.sync_write = ticks(inner.required("write"));
    inner.finish();
  }
  if (f.row_and_column_bus && (f.two_step_activate || f.clock_sync))
    json.fail("two-step activation and clock synchronisation need a shared command bus");
  const Json& scope = reader.required("all_bank_scope");
  f.all_bank_scope = part.level(scope.as_string());
  if (f.all_bank_scope < 0 || f.all_bank_scope >= part.bank_level())
    scope.fail("all-bank commands name an unknown level above the bank");
  reader.finish();
}

void read_constraints(Part& part, const Json& json) {
  for (const Json& item : json.items()) {
    ObjectReader reader(item);
    Constraint c;
    const Json& level = reader.required("level");
    c.level = part.level(level.as_string());
    if (c.level < 0 || c.level > part.bank_level())
      throw UserError({"a constraint's level is unknown", level.place(), "'" + level.as_string() + "'",
                       join(level_names), nearest(level.as_string(), level_names)});
    c.after = read_commands(reader.required("after"));
    c.before = read_commands(reader.required("before"));
    c.cycles = evaluate_timing(reader.required("cycles"), part.timing, part.clock_ps);
    c.window = static_cast<int>(reader.integer_or("window", 1, 1, 16));
    c.sibling = reader.boolean_or("sibling", false);
    if (c.sibling && c.window > 1) item.fail("a window cannot limit siblings");
    if (c.sibling && c.level == 0) item.fail("the channel has no siblings");
    reader.finish();
    if (!c.after.empty() && !c.before.empty()) part.constraints.push_back(std::move(c));
  }
}

void read_energy(Part& part, const Json& json) {
  ObjectReader reader(json);
  const auto energy = [&](const char* key) { return parse_energy(reader.string(key)); };
  part.energy.activate = energy("activate");
  part.energy.read = energy("read");
  part.energy.write = energy("write");
  if (reader.optional("refresh_all")) part.energy.refresh_all = energy("refresh_all");
  if (reader.optional("refresh_bank")) part.energy.refresh_bank = energy("refresh_bank");
  part.energy.background_microwatts = reader.integer_or("background_microwatts", -1, 0, 1LL << 40);
  reader.finish();
}

/// Merges a file's keys into those of the file on which it is based; timings are merged one by one.
Json resolved(const Json& json, const std::filesystem::path& folder, int depth) {
  const Json* base = json.find("based_on");
  if (!base) return json;
  if (depth > 4) base->fail("parts based on each other");
  if (folder.empty() || base->as_string().find('/') != std::string::npos)
    base->fail("the base of this part cannot be found", "the name of a file beside this one");
  Json result = resolved(Json::read_file((folder / (base->as_string() + ".json")).string()), folder, depth + 1);
  for (const auto& [key, value] : json.members()) {
    if (key == "based_on") continue;
    const Json* inherited = result.find(key);
    if ((key == "timing" || key == "sources" || key == "levels") && inherited && value.is_object()) {
      Json merged = *inherited;
      for (const auto& [name, inner] : value.members()) merged.set(name, inner);
      result.set(key, std::move(merged));
    } else {
      result.set(key, value);
    }
  }
  return result;
}

}  // namespace

const char* name(Command command) { return command_names[static_cast<std::size_t>(command)]; }

void read_controller(Controller& c, const Json& json) {
  ObjectReader reader(json);
  c.read_queue = reader.integer_or("read_queue", c.read_queue, 1, queue_limit);
  c.write_queue = reader.integer_or("write_queue", c.write_queue, 1, queue_limit);
  c.write_high_watermark = reader.number_or("write_high_watermark", c.write_high_watermark);
  c.write_low_watermark = reader.number_or("write_low_watermark", c.write_low_watermark);
  if (!(c.write_low_watermark > 0 && c.write_low_watermark < c.write_high_watermark && c.write_high_watermark <= 1))
    json.fail("the drain watermarks contradict each other", "0 < low < high <= 1");
  if (const Json* page = reader.optional("page")) c.page = static_cast<PagePolicy>(choice(*page, page_names));
  c.page_timeout = reader.integer_or("page_timeout", c.page_timeout, 0, 1 << 24);
  if (c.page == PagePolicy::closed) c.page_timeout = 0;
  if (const Json* mode = reader.optional("refresh")) c.refresh = static_cast<RefreshMode>(choice(*mode, refresh_names));
  reader.finish();
}

Part Part::from_json(const Json& json) {
  ObjectReader reader(json);
  if (reader.string("schema") != "tilesim.dram") json.at("schema").fail("not a DRAM part", "\"tilesim.dram\"");
  if (reader.integer("version", 1, 1000000) != 1) json.at("version").fail("written by a newer Tilesim", "version 1");
  Part part;
  part.name = reader.string("name");
  part.standard = reader.string("standard");
  part.description = reader.string_or("description", "");
  part.clock_ps = reader.integer("clock_ps", 1, 1000000);
  part.burst_bytes = reader.integer("burst_bytes", 1, 4096);
  if ((part.burst_bytes & (part.burst_bytes - 1)) != 0)
    json.at("burst_bytes").fail("a burst is not a power of two", "1, 2, 4, ...");
  part.prefetch = reader.integer_or("prefetch", 1, 1, 1024);
  read_levels(part, reader.required("levels"));
  const std::int64_t columns = part.levels.back().count;
  if (columns % part.prefetch != 0 || ((columns / part.prefetch) & (columns / part.prefetch - 1)) != 0)
    json.at("levels").fail("a row does not hold a power of two of bursts", "columns / prefetch = 1, 2, 4, ...");
  for (const auto& [key, value] : reader.required("timing").members())
    part.timing[key] = evaluate_timing(value, part.timing, part.clock_ps);
  const auto ticks = [&](const char* key) { return evaluate_timing(reader.required(key), part.timing, part.clock_ps); };
  read_features(part, reader.required("features"));
  part.burst_cycles = ticks("burst_cycles");
  if (part.burst_cycles < 1) json.at("burst_cycles").fail("a burst takes no time", "1 or more");
  part.read_latency = ticks("read_latency");
  part.refresh_interval = ticks("refresh_interval");
  if (reader.optional("refresh_bank_interval")) part.refresh_bank_interval = ticks("refresh_bank_interval");
  read_constraints(part, reader.required("constraints"));
  part.mapping = reader.string("mapping");
  (void)AddressMap(part);  // throws unless the order covers the part
  if (const Json* controller = reader.optional("controller")) read_controller(part.controller, *controller);
  if (const Json* energy = reader.optional("energy"); energy && !energy->is_null()) read_energy(part, *energy);
  if (const Json* sources = reader.optional("sources"))
    for (const auto& [key, value] : sources->members()) part.sources[key] = value.as_string();
  if (part.energy.known() && part.sources.count("energy") == 0)
    json.fail("energies without a source", "sources.energy");
  reader.finish();
  check_part(part, json);
  return part;
}

Part Part::read_file(const std::string& path) {
  return from_json(resolved(Json::read_file(path), std::filesystem::path(path).parent_path(), 0));
}

Part Part::with_controller(const Json& settings) const {
  Part part = *this;
  read_controller(part.controller, settings);
  check_part(part, settings);
  return part;
}

namespace {

Json features_json(const Part& part) {
  const auto& features = part.features;
  Json f = Json::object();
  f.set("command_bus", features.row_and_column_bus ? "row_and_column" : "shared");
  f.set("edges", features.both_edges ? "both" : "rising");
  if (features.two_step_activate) f.set("two_step_activate", features.activate_window);
  if (features.clock_sync) {
    Json sync = Json::object();
    sync.set("read", features.sync_read);
    sync.set("write", features.sync_write);
    f.set("clock_sync", std::move(sync));
  }
  f.set("all_bank_scope", part.levels[static_cast<std::size_t>(features.all_bank_scope)].name);
  return f;
}

Json constraint_json(const Constraint& c, const std::vector<Level>& levels) {
  const auto commands = [](const std::vector<Command>& list) {
    Json names = Json::array();
    for (const Command command : list) names.push(dram::name(command));
    return names;
  };
  Json limit = Json::object();
  limit.set("level", levels[static_cast<std::size_t>(c.level)].name);
  limit.set("after", commands(c.after));
  limit.set("before", commands(c.before));
  limit.set("cycles", c.cycles);
  if (c.window > 1) limit.set("window", c.window);
  if (c.sibling) limit.set("sibling", true);
  return limit;
}

Json controller_json(const Controller& controller) {
  Json settings = Json::object();
  settings.set("read_queue", controller.read_queue);
  settings.set("write_queue", controller.write_queue);
  settings.set("write_high_watermark", controller.write_high_watermark);
  settings.set("write_low_watermark", controller.write_low_watermark);
  settings.set("page", page_names[static_cast<std::size_t>(controller.page)]);
  settings.set("page_timeout", controller.page_timeout);
  settings.set("refresh", refresh_names[static_cast<std::size_t>(controller.refresh)]);
  return settings;
}

Json energy_json(const CommandEnergy& energy) {
  Json e = Json::object();
  const auto text = [](std::int64_t femtojoules) { return std::to_string(femtojoules) + " fJ"; };
  e.set("activate", text(energy.activate));
  e.set("read", text(energy.read));
  e.set("write", text(energy.write));
  if (energy.refresh_all >= 0) e.set("refresh_all", text(energy.refresh_all));
  if (energy.refresh_bank >= 0) e.set("refresh_bank", text(energy.refresh_bank));
  if (energy.background_microwatts >= 0) e.set("background_microwatts", energy.background_microwatts);
  return e;
}

}  // namespace

Json Part::to_json() const {
  Json json = Json::object();
  json.set("schema", "tilesim.dram");
  json.set("version", 1);
  json.set("name", name);
  json.set("standard", standard);
  json.set("description", description);
  json.set("clock_ps", clock_ps);
  json.set("burst_bytes", burst_bytes);
  json.set("prefetch", prefetch);
  Json counts = Json::object(), times = Json::object(), limits = Json::array();
  for (const Level& level : levels) counts.set(level.name, level.count);
  json.set("levels", std::move(counts));
  json.set("mapping", mapping);
  json.set("features", features_json(*this));
  for (const auto& [key, value] : timing) times.set(key, value);
  json.set("timing", std::move(times));
  json.set("burst_cycles", burst_cycles);
  json.set("read_latency", read_latency);
  json.set("refresh_interval", refresh_interval);
  if (refresh_bank_interval > 0) json.set("refresh_bank_interval", refresh_bank_interval);
  for (const Constraint& c : constraints) limits.push(constraint_json(c, levels));
  json.set("constraints", std::move(limits));
  json.set("controller", controller_json(controller));
  if (energy.known()) json.set("energy", energy_json(energy));
  Json origins = Json::object();
  for (const auto& [key, value] : sources) origins.set(key, value);
  json.set("sources", std::move(origins));
  return json;
}

int Part::level(const std::string& wanted) const {
  for (std::size_t i = 0; i < levels.size(); ++i)
    if (levels[i].name == wanted) return static_cast<int>(i);
  return -1;
}

std::int64_t Part::count(const std::string& wanted) const {
  const int found = level(wanted);
  return found < 0 ? 1 : levels[static_cast<std::size_t>(found)].count;
}

int Part::banks() const {
  std::int64_t product = 1;
  for (int i = 0; i <= bank_level(); ++i) product *= levels[static_cast<std::size_t>(i)].count;
  return static_cast<int>(product);
}

int Part::node(int level, int bank) const {
  std::int64_t below = 1;
  for (int i = level + 1; i <= bank_level(); ++i) below *= levels[static_cast<std::size_t>(i)].count;
  return static_cast<int>(bank / below);
}

std::int64_t Part::capacity_bytes() const {
  return banks() * count("row") * (count("column") / prefetch) * burst_bytes;
}

double Part::bytes_per_second() const {
  return static_cast<double>(count("pseudo_channel") * burst_bytes) * 1e12 /
         static_cast<double>(burst_cycles * clock_ps);
}

}  // namespace tilesim::engine::dram
