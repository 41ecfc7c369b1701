// DRAM parts, traces, and channels run by themselves.
#include "engine/dram.hpp"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include "base/cancel.hpp"
#include "tilesim/engine/dram/mapping.hpp"
#include "tilesim/engine/memory/dram_run.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::engine;

namespace {

template <class T>
std::vector<T> vector_of(const py::array_t<T, py::array::c_style>& array) {
  return {array.data(), array.data() + array.size()};
}

template <class T>
py::array_t<T> array_of(const std::vector<T>& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

py::dict counters_of(const dram::Counters& c) {
  py::dict result, commands;
  for (int i = 0; i < dram::command_count; ++i)
    commands[dram::name(static_cast<dram::Command>(i))] = c.commands[static_cast<std::size_t>(i)];
  std::vector<std::int64_t> lows, counts;
  for (std::size_t bin = 0; bin < c.latency.bins.size(); ++bin)
    if (c.latency.bins[bin] > 0) {
      lows.push_back(dram::Histogram::low(bin));
      counts.push_back(c.latency.bins[bin]);
    }
  result["reads"] = c.reads;
  result["writes"] = c.writes;
  result["forwarded"] = c.forwarded;
  result["merged"] = c.merged;
  result["hits"] = c.hits;
  result["misses"] = c.misses;
  result["conflicts"] = c.conflicts;
  result["commands"] = commands;
  result["latency_sum"] = c.latency_sum;
  result["latency_max"] = c.latency_max;
  result["latency_bins"] = lows;
  result["latency_counts"] = counts;
  return result;
}

py::dict cache_of(const dram::RunResult& run) {
  cache::Counters sum;
  for (const cache::Counters& slice : run.slices) sum.add(slice);
  py::dict result;
  result["reads"] = sum.reads;
  result["writes"] = sum.writes;
  result["hits"] = sum.hits;
  result["misses"] = sum.misses;
  result["merged"] = sum.merged;
  result["bypassed"] = sum.bypassed;
  result["fetched_bytes"] = sum.fetched_bytes;
  result["written_bytes"] = sum.written_bytes;
  result["stalled_cycles"] = sum.stalled_cycles;
  result["latency_sum"] = sum.latency_sum;
  result["latency_max"] = sum.latency_max;
  result["dirty_bytes"] = sum.dirty_bytes;
  py::list tensors;
  for (const dram::RegionResult& region : run.regions) {
    py::dict one;
    one["tensor"] = region.name;
    one["hits"] = region.hits;
    one["misses"] = region.misses;
    one["bypassed"] = region.bypassed;
    tensors.append(one);
  }
  result["tensors"] = tensors;
  return result;
}

py::dict result_of(const dram::RunResult& run) {
  py::dict result = counters_of(run.counters);
  result["cycles"] = run.cycles;
  py::list channels;
  for (const dram::ChannelResult& channel : run.channels) {
    py::dict one = counters_of(channel.counters);
    one["cycles"] = channel.cycles;
    std::vector<std::int64_t> activates, columns;
    for (const auto& bank : channel.banks) {
      activates.push_back(bank.activates);
      columns.push_back(bank.columns);
    }
    one["bank_activates"] = activates;
    one["bank_columns"] = columns;
    channels.append(one);
  }
  result["channels"] = channels;
  if (!run.slices.empty()) result["cache"] = cache_of(run);
  return result;
}

py::dict run(const dram::Part& part, const py::array_t<std::uint64_t, py::array::c_style>& addresses,
             const py::array_t<std::uint8_t, py::array::c_style>& writes,
             const py::array_t<std::int64_t, py::array::c_style>& cycles, std::int64_t inject_every,
             std::int64_t channels, std::int64_t interleave_bytes, const std::string& channel_hash,
             const std::string& mapping, const std::string& hashes, bool wrap, const std::string& cache,
             const std::string& tensors) {
  const dram::Trace trace{vector_of(addresses), vector_of(writes), vector_of(cycles)};
  dram::RunOptions options;
  options.inject_every = inject_every;
  options.channels = channels;
  options.interleave_bytes = interleave_bytes;
  options.channel_hash = dram::channel_hash_of(channel_hash);
  options.mapping = mapping;
  options.hashes = dram::read_hashes(Json::parse(hashes, "hashes"));
  options.wrap = wrap;
  if (!cache.empty()) options.cache = cache::read_spec(Json::parse(cache, "cache"), part.burst_bytes);
  options.regions = dram::read_regions(Json::parse(tensors, "tensors"));
  return result_of(bindings::cancellable([&](CancelToken& token) {
    options.cancel = &token;
    return dram::run_trace(part, trace, options);
  }));
}

void init_part(py::module_& module) {
  py::class_<dram::Part>(module, "DramPart", "A DRAM part's description, checked on load.")
      .def_static(
          "from_json",
          [](const std::string& text, const std::string& source) {
            return dram::Part::from_json(Json::parse(text, source));
          },
          py::arg("text"), py::arg("source") = "text", "Parses the JSON form; raises UserError with line and path.")
      .def_static("read_file", &dram::Part::read_file, py::arg("path"), "Reads a part's file.")
      .def(
          "to_json", [](const dram::Part& part) { return part.to_json().dump(1); }, "The resolved JSON form.")
      .def(
          "with_controller",
          [](const dram::Part& part, const std::string& settings) {
            return part.with_controller(Json::parse(settings, "controller"));
          },
          py::arg("settings"), "A copy with controller settings replaced: JSON text of an object.")
      .def(
          "check_mapping",
          [](const dram::Part& part, const std::string& mapping, const std::string& bank_hash) {
            dram::AddressMap(part, mapping, dram::bank_hashes(bank_hash));
          },
          py::arg("mapping"), py::arg("bank_hash") = "none",
          "UserError if a mapping's fields do not cover the part's addresses.")
      .def(
          "hash", [](const dram::Part& part) { return hash_text(part.to_json().dump()); }, "Hash of the resolved part.")
      .def_readonly("name", &dram::Part::name)
      .def_readonly("standard", &dram::Part::standard)
      .def_readonly("description", &dram::Part::description)
      .def_readonly("clock_ps", &dram::Part::clock_ps)
      .def_readonly("burst_bytes", &dram::Part::burst_bytes)
      .def_readonly("sources", &dram::Part::sources)
      .def_property_readonly("capacity_bytes", &dram::Part::capacity_bytes)
      .def_property_readonly("banks", &dram::Part::banks)
      .def_property_readonly("bytes_per_second", &dram::Part::bytes_per_second);
}

}  // namespace

void init_dram(py::module_& module) {
  init_part(module);
  module.def(
      "dram_trace",
      [](const std::string& name, std::int64_t requests, std::int64_t burst, std::int64_t span) {
        const dram::Trace trace = bindings::cancellable([&] { return dram::make_trace(name, requests, burst, span); });
        return py::make_tuple(array_of(trace.addresses), array_of(trace.writes));
      },
      py::arg("name"), py::arg("requests"), py::arg("burst"), py::arg("span"), "Addresses and write flags by name.");
  module.def(
      "dram_parse_trace",
      [](const std::string& text, const std::string& source) {
        const dram::Trace trace = bindings::cancellable([&] { return dram::parse_trace(text, source); });
        return py::make_tuple(array_of(trace.addresses), array_of(trace.writes), array_of(trace.cycles));
      },
      py::arg("text"), py::arg("source"), "Addresses, write flags and cycles (empty: none given) of a trace file.");
  module.def("dram_run", &run, py::arg("part"), py::arg("addresses"), py::arg("writes"), py::arg("cycles"),
             py::arg("inject_every"), py::arg("channels"), py::arg("interleave_bytes"), py::arg("channel_hash"),
             py::arg("mapping"), py::arg("hashes"), py::arg("wrap"), py::arg("cache") = "", py::arg("tensors") = "[]",
             "Runs a trace on channels of a part.");
}
