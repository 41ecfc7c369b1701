// Networks of devices, and collectives on them.
#include "tilesim/cluster/network/network.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "base/cancel.hpp"
#include "tilesim/cluster/collective/collective.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::cluster;

namespace {

Schedule custom_schedule(const py::dict& dict) {
  Schedule schedule;
  schedule.algorithm = dict["name"].cast<std::string>();
  schedule.operation = operation_of(dict["operation"].cast<std::string>());
  schedule.devices = dict["devices"].cast<int>();
  schedule.slots = dict["slots"].cast<int>();
  schedule.pieces = dict["pieces"].cast<std::int64_t>();
  for (const py::handle row : dict["transfers"]) {
    const auto t = row.cast<std::tuple<int, int, int, int, int, bool>>();
    schedule.transfers.push_back(
        {std::get<0>(t), std::get<1>(t), std::get<2>(t), std::get<3>(t), std::get<4>(t), std::get<5>(t)});
  }
  if (dict.contains("initial")) {
    schedule.initial = dict["initial"].cast<std::vector<int>>();
    schedule.wanted = dict["wanted"].cast<std::vector<int>>();
  } else {
    state_meaning(schedule, dict["blocks"].cast<bool>(), dict["root"].cast<int>());
  }
  return schedule;
}

Request request_of(const py::dict& dict) {
  Request request;
  request.operation = operation_of(dict["operation"].cast<std::string>());
  request.bytes = dict["bytes"].cast<std::int64_t>();
  request.places = dict["devices"].cast<std::vector<int>>();
  request.choice.algorithm = dict["algorithm"].cast<std::string>();
  request.choice.rings = dict["rings"].cast<int>();
  request.choice.pieces = dict["pieces"].cast<int>();
  request.choice.root = dict["root"].cast<int>();
  request.pairs = dict["pairs"].cast<std::vector<std::pair<int, int>>>();
  request.start = dict["start"].cast<std::int64_t>();
  if (!dict["own"].is_none()) request.custom = custom_schedule(dict["own"].cast<py::dict>());
  return request;
}

std::vector<Request> requests_of(const py::list& requests) {
  std::vector<Request> all;
  for (const py::handle one : requests) all.push_back(request_of(one.cast<py::dict>()));
  return all;
}

py::object priced(const Network& network, const py::list& requests, const std::string& model, bool symmetry,
                  std::int64_t most) {
  std::vector<Request> all = requests_of(requests);
  const Model chosen = model_of(model);
  const auto answers = bindings::cancellable([&] { return price(network, std::move(all), chosen, symmetry, most); });
  if (!answers) return py::none();
  py::list result;
  for (const Answer& answer : answers->each) {
    py::dict row;
    row["picoseconds"] = answer.picoseconds;
    row["algorithm"] = answer.algorithm;
    row["model"] = answer.model;
    row["exact"] = answer.exact;
    row["classes"] = answer.classes;
    row["pieces"] = answer.pieces;
    row["messages"] = answers->messages;
    result.append(row);
  }
  return result;
}

py::list tried(const Network& network, const py::dict& asked) {
  const Request request = request_of(asked);
  const auto found = bindings::cancellable([&] { return tried_of(network, request); });
  py::list result;
  for (const Answer& one : found) result.append(py::make_tuple(one.algorithm, one.pieces, one.picoseconds));
  return result;
}

py::object most_loaded(const Network& network, const py::list& requests) {
  std::vector<Request> all = requests_of(requests);
  const auto found = bindings::cancellable([&] { return busiest_of(network, std::move(all)); });
  return found ? py::object(py::make_tuple(found->alone, found->together)) : py::object(py::none());
}

py::list loaded(const Network& network, const py::list& requests) {
  std::vector<Request> all = requests_of(requests);
  const auto found = bindings::cancellable([&] { return loads_of(network, std::move(all)); });
  py::list result;
  for (const LinkLoads& one : found)
    result.append(
        py::make_tuple(py::array_t<int>(static_cast<py::ssize_t>(one.links.size()), one.links.data()),
                       py::array_t<double>(static_cast<py::ssize_t>(one.seconds.size()), one.seconds.data())));
  return result;
}

py::dict listed(const Network& network, const py::dict& asked) {
  const Request request = request_of(asked);
  const Schedule schedule = schedule_of(network, request);
  py::list transfers;
  for (const Transfer& t : schedule.transfers)
    transfers.append(py::make_tuple(t.step, t.source, t.target, t.from, t.into, t.combine));
  py::dict result;
  result["name"] = schedule.algorithm;
  result["operation"] = name_of(schedule.operation);
  result["devices"] = schedule.devices;
  result["slots"] = schedule.slots;
  result["pieces"] = schedule.pieces;
  result["transfers"] = transfers;
  result["initial"] = schedule.initial;
  result["wanted"] = schedule.wanted;
  return result;
}

}  // namespace

void init_cluster_network(py::module_& module) {
  py::class_<Network>(module, "ClusterNetwork", "The links between the devices of a cluster, from a JSON text.")
      .def(py::init([](const std::string& text, const std::string& source) {
             return Network::read(Json::parse(text, source));
           }),
           py::arg("text"), py::arg("source") = "network")
      .def_property_readonly("devices", &Network::devices, "Number of devices.")
      .def_property_readonly(
          "links", [](const Network& network) { return network.links().size(); }, "Number of links, one per direction.")
      .def(
          "route",
          [](const Network& network, int source, int target) {
            if (std::min(source, target) < 0 || std::max(source, target) >= network.devices())
              throw UserError({"the cluster does not have this device", "route", {}, "0 ... devices - 1", {}});
            std::vector<int> way;
            network.route(source, target, way);
            py::list result;
            for (const int link : way) {
              const Link& one = network.links()[static_cast<std::size_t>(link)];
              result.append(py::make_tuple(one.source, one.target, one.bytes_per_second, one.latency, one.lanes));
            }
            return result;
          },
          py::arg("source"), py::arg("target"),
          "Links of a route: (node, node, bytes per second, latency in picoseconds, lanes) each.")
      .def("price", &priced, py::arg("requests"), py::arg("model"), py::arg("symmetry"), py::arg("most") = 0,
           "Times of collectives that start together: a dict each; none where more than so many messages would be "
           "simulated (0: any number).")
      .def("busiest", &most_loaded, py::arg("requests"),
           "Seconds per byte of the busiest link of a collective alone, and of all together; none where they share no "
           "link.")
      .def("tried", &tried, py::arg("request"),
           "What \"auto\" looks at for a collective alone: (algorithm, pieces, picoseconds) each.")
      .def("loads", &loaded, py::arg("requests"),
           "Of each collective the links that it takes, and the seconds of each that a byte takes: two arrays.")
      .def(
          "dimension_of_link",
          [](const Network& network, int link) {
            if (network.dimensions().empty()) return -1;
            return network.dimension_of_link(link);
          },
          py::arg("link"), "The dimension of a link, -1 in a graph.")
      .def("schedule", &listed, py::arg("request"), "Every transfer of a collective's algorithm.");
  module.def(
      "cluster_check_schedule", [](const py::dict& schedule) { check_on_sets(custom_schedule(schedule)); },
      py::arg("schedule"), "Runs an algorithm on sets of contributions; an error where it is wrong.");
}
