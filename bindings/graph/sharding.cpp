// Room graph: meshes and shardings, as texts.
#include "tilesim/graph/sharding.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <ranges>

#include "graph/sharding.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/graph/kind.hpp"

namespace py = pybind11;
using namespace tilesim;
using bindings::GraphValue;
using bindings::SharedGraph;

namespace {

/// "function:" before names of values that are not the entry's.
std::string prefix_of(const Graph& graph, const GraphFunction& function) {
  return &function == &graph.entry() ? "" : function.name + ":";
}

py::dict shardings_of(const GraphValue& graph) {
  py::dict found;
  for (const GraphFunction& function : graph->functions)
    for (const Value& value : function.values)
      if (value.sharding) found[py::str(prefix_of(*graph, function) + value.name)] = value.sharding->text();
  return found;
}

Value& value_named(Graph& graph, const std::string& name) {
  std::vector<std::string> known;
  for (GraphFunction& function : graph.functions)
    for (Value& value : function.values) {
      known.push_back(prefix_of(graph, function) + value.name);
      if (known.back() == name) return value;
    }
  throw UserError({"the value does not exist", "graph \"" + graph.name + "\"", "'" + name + "'",
                   known.size() > 12 ? "" : join(known), nearest(name, known)});
}

int annotate_values(SharedGraph& shared, const std::optional<std::string>& mesh,
                    const std::map<std::string, std::string>& shardings, std::int64_t devices) {
  return shared.change([&](Graph& graph) {
    if (mesh) graph.mesh = mesh->empty() ? nullptr : std::make_shared<const Mesh>(Mesh::parse(*mesh));
    if (devices > 0) graph.devices = devices;
    for (const auto& [name, text] : shardings) {
      Value& value = value_named(graph, name);
      value.sharding = text.empty() ? nullptr : std::make_shared<const Sharding>(Sharding::parse(text));
    }
    if (mesh && !graph.mesh)
      for (GraphFunction& function : graph.functions)
        for (Value& value : function.values) value.sharding = nullptr;
    check(graph);
    return static_cast<int>(shardings.size());
  });
}

py::object or_none(const Sharding& sharding) {
  return sharding.given ? py::object(py::str(sharding.text())) : py::object(py::none());
}

/// One per rank; a single one stands for all.
py::list from_gspmd_text(const std::string& text, const std::string& mesh_text, const std::vector<std::size_t>& ranks) {
  const std::vector<GspmdSharding> parts = GspmdSharding::parse(text);
  const Mesh mesh = Mesh::parse(mesh_text);
  if (parts.size() != ranks.size() && parts.size() != 1)
    throw UserError(
        {"A tuple of shardings does not fit the number of tensors.", {}, text, std::to_string(ranks.size()), {}});
  py::list found;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const FromGspmd one = from_gspmd(parts[parts.size() == 1 ? 0 : i], mesh, ranks[i]);
    Sharding manual;
    manual.replicated = one.manual;
    found.append(py::make_tuple(or_none(one.sharding), one.manual.empty() ? "" : manual.text()));
  }
  return found;
}

std::string mesh_of_texts(const std::vector<std::string>& texts, std::int64_t devices) {
  std::vector<GspmdSharding> all;
  for (const std::string& text : texts) {
    const std::vector<GspmdSharding> parts = GspmdSharding::parse(text);
    all.insert(all.end(), parts.begin(), parts.end());
  }
  return mesh_of(all, devices).text();
}

py::tuple division_of(const std::string& sharding, const std::string& mesh) {
  Division division = divide(Sharding::parse(sharding), Mesh::parse(mesh));
  return py::make_tuple(std::move(division.counts), std::move(division.indices));
}

}  // namespace

void bindings::bind_shardings(py::module_& module, py::class_<SharedGraph>& type) {
  type.def_property_readonly(
          "mesh",
          [](const GraphValue& graph) {
            return graph->mesh ? py::object(py::str(graph->mesh->text())) : py::object(py::none());
          },
          "The mesh of devices that shardings are about, as text, or None.")
      .def_property_readonly(
          "devices", [](const GraphValue& graph) { return graph->devices; },
          "Devices that run this together, each with separate values.")
      .def_property_readonly("shardings", &shardings_of,
                             "Shardings by the name of their value (\"function:value\" outside of the entry), as text.")
      .def("annotate", &annotate_values, py::arg("mesh") = py::none(),
           py::arg("shardings") = std::map<std::string, std::string>{}, py::arg("devices") = 0,
           "Sets the mesh (\"\": none, and no shardings; None: as it is), shardings by name of value (\"\": none), the "
           "number of devices (0: as it is). Raises UserError for an unknown name, another rank, an axis used twice.");
  module.def(
      "mesh_text", [](const std::string& text) { return Mesh::parse(text).text(); }, py::arg("text"),
      "A mesh as Tilesim writes it: x=2, y=4.");
  module.def(
      "mesh_axes",
      [](const std::string& text) {
        const Mesh mesh = Mesh::parse(text);
        std::vector<std::pair<std::string, std::int64_t>> axes;
        for (const MeshAxis& axis : mesh.axes) axes.emplace_back(axis.name, axis.size);
        return py::make_tuple(axes, mesh.order);
      },
      py::arg("text"), "Axes of a mesh as (name, size), and the device at each place (empty: counting).");
  module.def(
      "sharding_text", [](const std::string& text) { return Sharding::parse(text).text(); }, py::arg("text"),
      "A sharding as Shardy writes it.");
  module.def("sharding_division", &division_of, py::arg("sharding"), py::arg("mesh"),
             "Parts of each axis, and per device the index of its part of each axis.");
  module.def("gspmd_mesh", &mesh_of_texts, py::arg("texts"), py::arg("devices"),
             "A mesh whose axes express all of these GSPMD shardings. Raises Unsupported if no mesh can.");
  module.def(
      "gspmd_shardings", &from_gspmd_text, py::arg("text"), py::arg("mesh"), py::arg("ranks"),
      "Per tensor its sharding (None: nothing is said) and, as the replicated axes of a text, those over which it "
      "is a device's own already.");
}
