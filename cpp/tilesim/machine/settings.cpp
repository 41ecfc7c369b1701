#include "tilesim/machine/settings.hpp"

#include <array>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings_text.hpp"

namespace tilesim {

namespace {

using U = SettingUnit;
constexpr double big = 1e15;

template <class Access>
Setting whole(std::string path, U unit, double low, double high, std::string description, Access access) {
  return {std::move(path),
          unit,
          low,
          high,
          std::move(description),
          {},
          [access, unit](const Machine& m) {
            const std::int64_t value = access(const_cast<Machine&>(m));
            return unit == U::count ? Json(value) : Json(format_with(value, unit));
          },
          [access, unit, low, high](Machine& m, const Json& json) {
            const std::int64_t value = parse_with(json, unit);
            check_range(json, static_cast<double>(value), low, high, unit);
            access(m) = value;
          }};
}

template <class Access>
Setting ratio(std::string path, double low, double high, std::string description, Access access) {
  return {std::move(path),
          U::ratio,
          low,
          high,
          std::move(description),
          {},
          [access](const Machine& m) { return Json(access(const_cast<Machine&>(m))); },
          [access, low, high](Machine& m, const Json& json) {
            check_range(json, json.as_double(), low, high, U::ratio);
            access(m) = json.as_double();
          }};
}

template <class Access>
Setting flag(std::string path, std::string description, Access access) {
  return {std::move(path),
          U::flag,
          0,
          1,
          std::move(description),
          {},
          [access](const Machine& m) { return Json(access(const_cast<Machine&>(m))); },
          [access](Machine& m, const Json& json) { access(m) = json.as_bool(); }};
}

template <class Access>
Setting free_text(std::string path, std::string description, Access access) {
  return {std::move(path),
          U::text,
          0,
          0,
          std::move(description),
          {},
          [access](const Machine& m) { return Json(access(const_cast<Machine&>(m))); },
          [access](Machine& m, const Json& json) { access(m) = json.as_string(); }};
}

template <class Get, class Set>
Setting choice(std::string path, std::vector<std::string> allowed, std::string description, Get get, Set set) {
  return {std::move(path),
          U::text,
          0,
          0,
          std::move(description),
          allowed,
          [get](const Machine& m) { return Json(get(m)); },
          [set, allowed](Machine& m, const Json& json) {
            const std::string& text = json.as_string();
            for (std::size_t i = 0; i < allowed.size(); ++i)
              if (allowed[i] == text) return set(m, i);
            json.fail("unknown value", join(allowed), nearest(text, allowed));
          }};
}

constexpr std::array<const char*, 3> dataflows{"weight_stationary", "output_stationary", "input_stationary"};

DType dtype_at(const Json& json, const std::string& text) {
  try {
    return parse_dtype(text);
  } catch (const UserError& error) {
    throw UserError(
        {error.parts().what, json.place(), error.parts().value, error.parts().allowed, error.parts().suggestion});
  }
}

Setting rates() {
  return {"core.array.rates",
          U::text,
          0,
          0,
          "dtypes that the arrays multiply, with products per cell and cycle",
          {},
          [](const Machine& m) {
            Json object = Json::object();
            for (const auto& [dtype, rate] : m.core.array.rates) object.set(std::string(name(dtype)), rate);
            return object;
          },
          [](Machine& m, const Json& json) {
            m.core.array.rates.clear();
            for (const auto& [key, value] : json.members()) {
              if (value.as_double() <= 0 || value.as_double() > 64) value.fail("out of range", "above 0, at most 64");
              m.core.array.rates[dtype_at(value, key)] = value.as_double();
            }
          }};
}

Setting vector_dtypes() {
  return {"core.vector.dtypes",
          U::text,
          0,
          0,
          "dtypes that the vector unit computes on; empty: all",
          {},
          [](const Machine& m) {
            Json list = Json::array();
            for (const auto& [dtype, has] : m.core.vector.dtypes)
              if (has) list.push(std::string(name(dtype)));
            return list;
          },
          [](Machine& m, const Json& json) {
            m.core.vector.dtypes.clear();
            for (const Json& item : json.items()) m.core.vector.dtypes[dtype_at(item, item.as_string())] = true;
          }};
}

Setting multiply_type() {
  return {"core.array.multiply",
          U::text,
          0,
          0,
          "float operands wider than this are rounded to it before the product; 'as stored': never",
          {},
          [](const Machine& m) {
            return m.core.array.numerics.multiply ? Json(std::string(name(*m.core.array.numerics.multiply)))
                                                  : Json("as stored");
          },
          [](Machine& m, const Json& json) {
            m.core.array.numerics.multiply.reset();
            if (json.as_string() != "as stored") m.core.array.numerics.multiply = dtype_at(json, json.as_string());
          }};
}

Setting accumulate_type() {
  return {"core.array.accumulate",
          U::text,
          0,
          0,
          "type of partial sums of float products",
          {},
          [](const Machine& m) { return Json(std::string(name(m.core.array.numerics.accumulate))); },
          [](Machine& m, const Json& json) { m.core.array.numerics.accumulate = dtype_at(json, json.as_string()); }};
}

Setting layout_tile() {
  return {"layout.tile",
          U::text,
          0,
          0,
          "padding of the second minor and the minor dimension of tensors in memory; empty: dense",
          {},
          [](const Machine& m) {
            Json list = Json::array();
            for (std::int64_t extent : m.layout.tile) list.push(extent);
            return list;
          },
          [](Machine& m, const Json& json) {
            if (json.items().size() != 0 && json.items().size() != 2)
              json.fail("a tile needs two extents", "[second minor, minor] or []");
            m.layout.tile.clear();
            for (const Json& item : json.items()) m.layout.tile.push_back(item.as_int(1, 4096));
          }};
}

#define AT(member) [](Machine& m) -> auto& { return m.member; }

void array_settings(std::vector<Setting>& all) {
  all.push_back(whole("core.array.count", U::count, 0, 64, "arrays per core", AT(core.array.count)));
  all.push_back(whole("core.array.rows", U::count, 1, 65536,
                      "rows of cells: the contracted dimension in weight stationary", AT(core.array.rows)));
  all.push_back(whole("core.array.columns", U::count, 1, 65536, "columns of cells", AT(core.array.columns)));
  all.push_back(choice(
      "core.array.dataflow", {dataflows.begin(), dataflows.end()}, "operand that stays in the cells",
      [](const Machine& m) { return std::string(dataflows[static_cast<std::size_t>(m.core.array.dataflow)]); },
      [](Machine& m, std::size_t i) { m.core.array.dataflow = static_cast<Dataflow>(i); }));
  all.push_back(rates());
  all.push_back(choice(
      "core.array.pattern", {"none", "2:4"},
      "2:4: weights that keep two of four adjacent elements take half of the contraction's steps",
      [](const Machine& m) { return std::string(m.core.array.two_of_four ? "2:4" : "none"); },
      [](Machine& m, std::size_t i) { m.core.array.two_of_four = i == 1; }));
  all.back().added = true;
  all.push_back(multiply_type());
  all.push_back(accumulate_type());
  all.push_back(whole("core.array.weight_rows_per_cycle", U::count, 1, 65536,
                      "rows of the stationary tile loaded per cycle", AT(core.array.weight_rows_per_cycle)));
  all.push_back(flag("core.array.weight_double_buffer", "the next stationary tile loads while the present one is used",
                     AT(core.array.weight_double_buffer)));
  for (Setting& setting : sparse_settings()) all.push_back(std::move(setting));
}

void vector_settings(std::vector<Setting>& all) {
  all.push_back(whole("core.vector.lanes", U::count, 1, 65536, "lanes", AT(core.vector.lanes)));
  all.push_back(whole("core.vector.sublanes", U::count, 1, 1024, "32-bit elements per lane and register",
                      AT(core.vector.sublanes)));
  all.push_back(whole("core.vector.issue", U::count, 1, 64, "register operations per cycle", AT(core.vector.issue)));
  all.push_back(
      whole("core.vector.latency", U::count, 0, 100000, "cycles from operands to result", AT(core.vector.latency)));
  all.push_back(
      ratio("core.vector.simple", 0.001, 10000, "cycles per register: add, compare, select", AT(core.vector.simple)));
  all.push_back(ratio("core.vector.multiply", 0.001, 10000, "cycles per register: multiply", AT(core.vector.multiply)));
  all.push_back(
      ratio("core.vector.divide", 0.001, 10000, "cycles per register: division, square root", AT(core.vector.divide)));
  all.push_back(ratio("core.vector.transcendental", 0.001, 10000, "cycles per register: exp, tanh, erf, ...",
                      AT(core.vector.transcendental)));
  all.push_back(flag("core.vector.packs_narrow", "16- and 8-bit elements run 2 and 4 to a 32-bit element",
                     AT(core.vector.packs_narrow)));
  all.push_back(whole("core.vector.reduce_latency", U::count, 0, 100000, "further cycles of a reduction across lanes",
                      AT(core.vector.reduce_latency)));
  all.push_back(vector_dtypes());
  all.push_back(whole("core.cross_lane.bytes_per_cycle", U::count, 1, 1 << 20,
                      "bytes the cross-lane unit moves per cycle", AT(core.cross_lane.bytes_per_cycle)));
  all.push_back(whole("core.cross_lane.latency", U::count, 0, 100000, "cycles through the cross-lane unit",
                      AT(core.cross_lane.latency)));
}

void memory_settings(std::vector<Setting>& all) {
  all.push_back(whole("core.scratchpad.bytes", U::bytes, 1, big, "scratchpad per core", AT(core.scratchpad.bytes)));
  all.push_back(whole("core.scratchpad.accumulator_bytes", U::bytes, 0, big,
                      "separate memory for partial sums; 0 B: they live in the scratchpad",
                      AT(core.scratchpad.accumulator_bytes)));
  all.push_back(whole("core.dma.load_queues", U::count, 1, 8, "queues of loads", AT(core.dma.load_queues)));
  all.push_back(whole("core.dma.store_queues", U::count, 1, 8, "queues of stores", AT(core.dma.store_queues)));
  all.push_back(whole("core.dma.bytes_per_cycle", U::count, 1, 1 << 20, "bytes per core cycle through the core's port",
                      AT(core.dma.bytes_per_cycle)));
  all.push_back(
      whole("core.dma.issue_cycles", U::count, 0, 1000000, "cycles to issue a transfer", AT(core.dma.issue_cycles)));
  all.push_back(whole("core.dma.latency_cycles", U::count, 0, 1000000,
                      "latency of a transfer beyond network and memory", AT(core.dma.latency_cycles)));
  all.push_back(whole("core.dma.outstanding_bytes", U::bytes, 64, big, "bytes in flight per queue; more waits",
                      AT(core.dma.outstanding_bytes)));
  all.push_back(whole("core.dma.queue_entries", U::count, 1, 1 << 16, "tile operations that a queue holds",
                      AT(core.dma.queue_entries)));
  static const std::vector<std::string> priorities{"none", "loads", "stores"};
  all.push_back(choice(
      "core.dma.priority", priorities, "priority at a core's ports of a network of routers; none: round robin",
      [](const Machine& m) { return m.core.dma.priority; },
      [](Machine& m, std::size_t i) { m.core.dma.priority = priorities[i]; }));
}

void network_settings(std::vector<Setting>& all) {
  all.push_back(network_kind());
  all.push_back(whole("network.clock", U::frequency, 1, big, "clock of the network", AT(network.clock.hertz)));
  all.push_back(
      whole("network.latency_cycles", U::count, 0, 1000000, "one way, network cycles", AT(network.latency_cycles)));
  all.push_back(whole("network.port_bytes_per_cycle", U::count, 1, 1 << 20, "bytes per network cycle and core port",
                      AT(network.port_bytes_per_cycle)));
  all.push_back(whole("network.buffer_bytes", U::bytes, 64, big, "per port; a full buffer applies back-pressure",
                      AT(network.buffer_bytes)));
  all.push_back(whole("network.ports_per_core", U::count, 1, 1024,
                      "nodes of a core in a network of routers; channel c answers at port c modulo this",
                      AT(network.ports_per_core)));
  all.push_back(
      whole("network.flit_bytes", U::count, 1, 1 << 16, "bytes of a link per cycle (routers)", AT(network.flit_bytes)));
  all.push_back(whole("network.packet_bytes", U::bytes, 0, 1 << 20, "most data in a packet; 0 B: one burst (routers)",
                      AT(network.packet_bytes)));
  all.push_back(whole("network.control_bytes", U::bytes, 0, 1 << 16,
                      "packet of a read request or of a write's acknowledgement (routers)", AT(network.control_bytes)));
  all.push_back(whole("network.header_bytes", U::bytes, 0, 1 << 16, "header of a packet with data (routers)",
                      AT(network.header_bytes)));
  all.push_back(whole("network.virtual_channels", U::count, 2, 32,
                      "per router port; one half for requests, the other for answers and sends",
                      AT(network.virtual_channels)));
  all.push_back(whole("network.virtual_channel_flits", U::count, 1, 4096, "buffer of a virtual channel",
                      AT(network.virtual_channel_flits)));
  all.push_back(whole("network.switch_cycles", U::count, 0, 4096, "from winning a router's switch to the link",
                      AT(network.switch_cycles)));
  all.push_back(whole("network.credit_cycles", U::count, 0, 4096, "a router's processing of a credit",
                      AT(network.credit_cycles)));
}

void off_chip_settings(std::vector<Setting>& all) {
  static const std::vector<std::string> kinds{"ideal", "simple", "bank"};
  all.push_back(choice(
      "memory.kind", kinds, "fidelity", [](const Machine& m) { return m.memory.kind; },
      [](Machine& m, std::size_t i) { m.memory.kind = kinds[i]; }));
  all.push_back(
      free_text("memory.part", "DRAM part of each channel, for fidelity bank; empty: unknown", AT(memory.part)));
  all.push_back(whole("memory.channels", U::count, 1, 1024, "channels", AT(memory.channels)));
  all.push_back(
      whole("memory.bandwidth", U::bandwidth, 1, big, "all channels together, peak", AT(memory.bytes_per_second)));
  all.push_back(ratio("memory.efficiency", 0.001, 1, "achieved share of the peak: refresh, turnaround, row misses",
                      AT(memory.efficiency)));
  all.push_back(whole("memory.latency", U::duration, 0, 1e12, "unloaded, beyond the network", AT(memory.latency_ps)));
  all.push_back(whole("memory.burst_bytes", U::bytes, 1, 1 << 20, "smallest transfer", AT(memory.burst_bytes)));
  all.push_back(whole("memory.interleave_bytes", U::bytes, 1, 1 << 30, "consecutive bytes on one channel",
                      AT(memory.interleave_bytes)));
  all.push_back(
      whole("memory.capacity", U::bytes, 0, big, "all channels together; 0 B: not stated", AT(memory.capacity_bytes)));
  all.push_back(whole("memory.buffer_bytes", U::bytes, 64, big,
                      "requests waiting per channel; a full queue applies back-pressure", AT(memory.buffer_bytes)));
  all.push_back(layout_tile());
}

/// PCI Express 3.0 base specification, 16 lanes: 8 GT/s x 128/130 = 15.75 GB/s; packets of 256 bytes with 24 of header.
void host_settings(std::vector<Setting>& all) {
  all.push_back({"host.device",
                 U::text,
                 0,
                 0,
                 "device whose closed form times what runs on the host",
                 {},
                 [](const Machine& m) { return Json(m.host.device); },
                 [](Machine& m, const Json& json) { m.host.device = json.as_string(); }});
  all.push_back(
      whole("host.bandwidth", U::bandwidth, 1, big, "of the link to the host, each way", AT(host.bytes_per_second)));
  all.push_back(whole("host.latency", U::duration, 0, 1e12, "per transfer over the link: start and completion",
                      AT(host.latency_ps)));
}

std::vector<Setting> make_settings() {
  std::vector<Setting> all;
  all.push_back(whole("core.count", U::count, 1, 1024, "cores", AT(core.count)));
  all.push_back(whole("core.clock", U::frequency, 1000, 1e12, "clock of the cores", AT(core.clock.hertz)));
  all.push_back(whole("core.contexts", U::count, 1, 16, "instruction streams per core", AT(core.contexts)));
  all.push_back(whole("core.kernel_launch_cycles", U::count, 0, 1e9, "fixed cost of starting a kernel",
                      AT(core.kernel_launch_cycles)));
  all.push_back(flag("core.kernel_barrier",
                     "a kernel starts only when the previous one is complete (native lowering only)",
                     AT(core.kernel_barrier)));
  array_settings(all);
  vector_settings(all);
  memory_settings(all);
  network_settings(all);
  off_chip_settings(all);
  for (Setting& setting : region_settings()) all.push_back(std::move(setting));
  for (Setting& setting : isa_settings()) all.push_back(std::move(setting));
  for (Setting& setting : cache_settings()) all.push_back(std::move(setting));
  for (Setting& setting : address_settings()) all.push_back(std::move(setting));
  all.push_back(whole("energy.mac", U::energy, 0, 1e12, "per multiply-add; 0 pJ: unknown", AT(energy.mac)));
  all.push_back(
      whole("energy.vector_op", U::energy, 0, 1e12, "per element operation; 0 pJ: unknown", AT(energy.vector_op)));
  all.push_back(
      whole("energy.scratchpad_byte", U::energy, 0, 1e12, "per byte; 0 pJ: unknown", AT(energy.scratchpad_byte)));
  all.push_back(whole("energy.memory_byte", U::energy, 0, 1e12, "per byte; 0 pJ: unknown", AT(energy.memory_byte)));
  all.push_back(whole("energy.network_byte", U::energy, 0, 1e12, "per byte; 0 pJ: unknown", AT(energy.network_byte)));
  all.push_back(
      whole("energy.static_microwatts", U::count, 0, 1e15, "static power; 0: unknown", AT(energy.static_microwatts)));
  host_settings(all);
  for (Setting& setting : lowering_settings()) all.push_back(std::move(setting));
  return all;
}

#undef AT

}  // namespace

const std::vector<Setting>& machine_settings() {
  static const std::vector<Setting> settings = make_settings();
  return settings;
}

}  // namespace tilesim
