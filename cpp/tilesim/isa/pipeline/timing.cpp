#include "tilesim/isa/pipeline/timing.hpp"

#include <cmath>
#include <optional>
#include <string_view>

namespace tilesim::isa {

namespace {

constexpr std::array<const char*, pipe_kinds> kind_names{"arithmetic", "load",   "store",  "special",
                                                         "cross_lane", "matrix", "results"};
constexpr std::array<const char*, 18> scalar_names{
    "integer",      "multiply",      "divide",        "load",           "store",       "branch",
    "jump",         "bits",          "float-add",     "float-multiply", "float-fused", "float-divide",
    "float-simple", "float-compare", "float-convert", "float-move",     "csr",         "atomic"};
constexpr std::array<int, scalar_names.size()> scalar_defaults{1, 3, 20, 3, 1, 1, 1, 1, 4, 4, 4, 20, 2, 3, 3, 2, 3, 10};

double number_in(const Json& value, double low, double high) {
  const double number = value.as_double();
  if (!(number >= low && number <= high))
    value.fail("the number is out of range", std::to_string(low) + " to " + std::to_string(high));
  return number;
}

Ticks cycles_of(const Json& value, double low = 0) { return ticks(number_in(value, low, 1e6)); }

class Cycles {
 public:
  explicit Cycles(const Json& object) : reader_(object) {}
  void operator()(const char* key, Ticks& to, double low = 0) {
    if (const Json* value = reader_.optional(key)) to = cycles_of(*value, low);
  }
  ObjectReader& reader() { return reader_; }

 private:
  ObjectReader reader_;
};

void read_class(const Json& object, ClassTiming& to) {
  Cycles take(object);
  if (const Json* cost = take.reader().optional("cost")) {
    if (cost->is_array()) {
      if (cost->items().size() != 4) cost->fail("costs by element width", "four numbers: for 8, 16, 32 and 64 bits");
      for (std::size_t i = 0; i < 4; ++i) to.cost[i] = cycles_of(cost->items()[i], -1e6);
    } else {
      to.cost.fill(cycles_of(*cost, -1e6));
    }
  }
  take("bits", to.bits, -1e6), take("start", to.start, -1e6), take("minimum", to.minimum), take("element", to.element);
  take("square", to.square), take("tree", to.tree), take("fold", to.fold), take("latency", to.latency);
  to.at_end = take.reader().boolean_or("at_end", to.at_end);
  to.merges = take.reader().boolean_or("merges", to.merges);
  to.by_vl = take.reader().boolean_or("by_vl", to.by_vl);
  to.pipes = static_cast<std::uint8_t>(take.reader().integer_or("pipes", to.pipes, 1, 255));
  take.reader().optional("sources");
  take.reader().finish();
}

/// Sets defaults that follow from the class, if the file gives none.
void natural(CoreTiming& core) {
  const auto at = [&](TimingClass c) -> ClassTiming& { return core.classes[static_cast<std::size_t>(c)]; };
  for (const TimingClass c : {TimingClass::reduction, TimingClass::reduction_logic, TimingClass::reduction_widening,
                              TimingClass::float_reduction, TimingClass::float_sum, TimingClass::float_sum_widening,
                              TimingClass::float_sum_ordered, TimingClass::float_sum_ordered_widening,
                              TimingClass::to_scalar, TimingClass::mask_to_scalar})
    at(c).at_end = true;
  at(TimingClass::register_move).by_vl = false;
}

void read_classes(const Json* object, CoreTiming& core) {
  std::array<const Json*, timing_classes> given{};
  if (object != nullptr)
    for (const auto& [key, value] : object->members()) {
      TimingClass named{};
      if (!class_named(key, named)) {
        std::vector<std::string> known;
        for (std::size_t i = 0; i < timing_classes; ++i) known.emplace_back(class_name(static_cast<TimingClass>(i)));
        value.fail("unknown class '" + key + "'", join(known), nearest(key, known));
      }
      given[static_cast<std::size_t>(named)] = &value;
    }
  // parents may follow their children in the list
  std::array<bool, timing_classes> done{};
  const auto fill = [&](auto&& self, TimingClass c) -> void {
    const auto i = static_cast<std::size_t>(c);
    if (done[i]) return;
    done[i] = true;
    if (const TimingClass parent = class_parent(c); parent != c) {
      self(self, parent);
      const bool at_end = core.classes[i].at_end, by_vl = core.classes[i].by_vl;
      core.classes[i] = core.timing_of(parent);
      core.classes[i].at_end |= at_end;
      core.classes[i].by_vl &= by_vl;
    }
    if (given[i] != nullptr) read_class(*given[i], core.classes[i]);
  };
  for (std::size_t i = 0; i < timing_classes; ++i) fill(fill, static_cast<TimingClass>(i));
}

void read_scalar(const Json* object, ScalarTiming& to) {
  for (std::size_t i = 0; i < scalar_names.size(); ++i) to.latency[i] = scalar_defaults[i] * cycle;
  to.mispredicted = 5 * cycle;
  std::optional<Cycles> given;
  if (object != nullptr) given.emplace(*object);
  for (std::size_t i = 0; i < scalar_names.size(); ++i) {
    if (given) (*given)(scalar_names[i], to.latency[i]);
    const std::uint8_t divider = ScalarTiming::divider_of(static_cast<std::uint8_t>(i));
    if (divider == 0) continue;
    to.interval[divider - 1] = to.latency[i];
    if (given) (*given)((std::string(scalar_names[i]) + "-interval").c_str(), to.interval[divider - 1]);
  }
  if (!given) return;
  Cycles& take = *given;
  take("taken", to.taken), take("mispredicted", to.mispredicted), take("vset", to.vset);
  take.reader().finish();
}

void read_memory(const Json* object, CoreTiming& core) {
  core.port_bytes = core.dlen / 8, core.load_latency = 8 * cycle;
  if (object == nullptr) return;
  Cycles take(*object);
  take("latency", core.load_latency);
  core.memory_ports = static_cast<unsigned>(take.reader().integer_or("ports", 1, 1, 16));
  take.reader().finish();
}

void read_pipes(const Json* object, CoreTiming& core) {
  if (object == nullptr) return;
  ObjectReader reader(*object);
  for (std::size_t i = 0; i < pipe_kinds; ++i)
    core.pipes[i] = static_cast<std::uint8_t>(reader.integer_or(kind_names[i], core.pipes[i], i < 3 ? 1 : 0, 8));
  reader.finish();
}

void read_units(const Json* list, CoreTiming& core) {
  if (list == nullptr) return;
  constexpr auto cross = static_cast<std::size_t>(PipeKind::cross_lane);
  for (const Json& item : list->items()) {
    ObjectReader reader(item);
    CustomUnit unit{reader.string("name"), static_cast<unsigned>(reader.integer_or("queue", 4, 1, 64)),
                    static_cast<unsigned>(reader.integer_or("pipes", 1, 1, 8))};
    reader.finish();
    for (const CustomUnit& other : core.units)
      if (other.name == unit.name) item.fail("two units have one name", "unique names");
    for (std::size_t i = 0; i < pipe_kinds; ++i)
      if (core.pipes[i] != 0 &&
          (unit.name == kind_names[i] || (i == cross && unit.name == unit_name(Unit::cross_lane))))
        item.fail("the core has such a unit", "another name");
    core.units.push_back(std::move(unit));
  }
  if (core.units.size() > 64) list->fail("too many units", "at most 64");
}

std::uint32_t power_of_two(ObjectReader& reader, const char* key, std::uint32_t fallback, std::uint32_t low,
                           std::uint32_t high) {
  const auto value = static_cast<std::uint32_t>(reader.integer_or(key, fallback, low, high));
  if ((value & (value - 1)) != 0) reader.required(key).fail("no power of two", "128, 256, 512, ...");
  return value;
}

}  // namespace

std::uint8_t ScalarTiming::divider_of(std::uint8_t scalar_class) {
  const std::string_view name = scalar_names.at(scalar_class);
  return name == "divide" ? 1 : name == "float-divide" ? 2 : 0;
}

Ticks ticks(double cycles) { return std::llround(cycles * static_cast<double>(cycle)); }
const char* pipe_name(PipeKind kind) { return kind_names[static_cast<std::size_t>(kind)]; }

std::uint8_t scalar_class(const std::string& timing) {
  for (std::size_t i = 0; i < scalar_names.size(); ++i)
    if (timing == scalar_names[i]) return static_cast<std::uint8_t>(i);
  return 0;
}

CoreTiming read_core(const Json& file) {
  CoreTiming core;
  ObjectReader reader(file);
  if (reader.string("schema") != "tilesim.core")
    file.at("schema").fail("the file does not describe a core", "tilesim.core");
  reader.integer("version", 1, 1);
  if (const Json* machine = file.find("machine")) {
    core = core_of(Machine::from_json(*machine));
    read_units(reader.optional("units"), core);
    return core;
  }
  core.name = reader.string("name");
  core.vlen = power_of_two(reader, "vlen", 256, 128, 65536);
  core.dlen = power_of_two(reader, "dlen", core.vlen, 32, 65536);
  core.join = power_of_two(reader, "join", 64, 8, 65536);
  core.width = static_cast<unsigned>(reader.integer_or("width", 1, 1, 16));
  core.dispatch = static_cast<unsigned>(reader.integer_or("dispatch", 1, 1, 16));
  core.queue = static_cast<unsigned>(reader.integer_or("queue", 8, 1, 64));
  core.pipes[0] = static_cast<std::uint8_t>(reader.integer_or("issue", 1, 1, 8));
  core.pipes[1] = static_cast<std::uint8_t>(reader.integer_or("loads", 1, 1, 8));
  core.pipes[2] = static_cast<std::uint8_t>(reader.integer_or("stores", 1, 1, 8));
  read_pipes(reader.optional("pipes"), core);
  read_units(reader.optional("units"), core);
  core.decoupled = reader.boolean_or("decoupled", true);
  core.chaining = reader.boolean_or("chaining", true);
  core.by_vl = reader.boolean_or("by_vl", true);
  core.mask_pipes = static_cast<unsigned>(reader.integer_or("mask_pipes", 255, 1, 255));
  const std::string order = reader.string_or("write_order", "ordered");
  if (order != "ordered" && order != "waits")
    file.at("write_order").fail("unknown order '" + order + "'", "ordered, waits");
  core.write_order = order == "waits" ? WriteOrder::waits : WriteOrder::ordered;
  if (const Json* delay = reader.optional("delay")) core.delay = cycles_of(*delay);
  if (const Json* bubble = reader.optional("bubble")) core.bubble = cycles_of(*bubble);
  read_memory(reader.optional("memory"), core);
  core.port_bytes = static_cast<unsigned>(reader.integer_or("port_bytes", core.port_bytes, 1, 1 << 16));
  core.port_beat = std::max<Ticks>(1, cycle * core.dlen / 8 / core.port_bytes);
  read_scalar(reader.optional("scalar"), core.scalar);
  natural(core);
  if (const Json* classes = reader.optional("classes"); classes != nullptr || true) read_classes(classes, core);
  reader.optional("sources"), reader.optional("description"), reader.optional("fitted");
  reader.finish();
  return core;
}

}  // namespace tilesim::isa
