// Room graph: the builder, and the table of kinds.
#include "tilesim/graph/builder.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "base/arrays.hpp"
#include "base/messages.hpp"
#include "graph/graph.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/graph/sharding.hpp"

namespace py = pybind11;
using namespace tilesim;
using bindings::function_of;
using bindings::to_tuple;

namespace {

// --- attributes ---

const char* type_name(AttributeType type) {
  constexpr const char* names[] = {"flag", "integer", "number", "text", "integers", "texts", "dtype"};
  return names[static_cast<std::size_t>(type)];
}

Attribute attribute_from(const AttributeInfo& wanted, const py::handle& value, const std::string& kind) {
  bool refused = false;
  try {
    switch (wanted.type) {
      case AttributeType::flag:
        return value.cast<bool>();
      case AttributeType::integer:
        return value.cast<std::int64_t>();
      case AttributeType::number:
        return value.cast<double>();
      case AttributeType::text:
        return value.cast<std::string>();
      case AttributeType::integers:
        return value.cast<std::vector<std::int64_t>>();
      case AttributeType::texts:
        return value.cast<std::vector<std::string>>();
      case AttributeType::dtype:
        return parse_dtype(value.cast<std::string>());
    }
  } catch (const py::cast_error&) {
    refused = true;
  } catch (const py::error_already_set&) {  // raised by the object itself
    refused = true;
  }
  if (refused) {
    throw UserError({"attribute '" + wanted.name + "' has the wrong type",
                     "kind '" + kind + "'",
                     bindings::shown(value),
                     type_name(wanted.type),
                     {}});
  }
  throw InternalError("an attribute has no type");
}

}  // namespace

Attributes bindings::attributes_from(Kind kind, const py::dict& values) {
  const KindInfo& entry = info(kind);
  Attributes attributes;
  std::vector<std::string> known;
  for (const AttributeInfo& attribute : entry.attributes) known.push_back(attribute.name);
  for (const auto& [key, value] : values) {
    const auto name = key.cast<std::string>();
    const auto found = std::ranges::find(entry.attributes, name, &AttributeInfo::name);
    if (found == entry.attributes.end())
      throw UserError({"unknown attribute", "kind '" + std::string(entry.name) + "'", "'" + name + "'",
                       known.empty() ? "none" : join(known), nearest(name, known)});
    attributes.set(name, attribute_from(*found, value, std::string(entry.name)));
  }
  return attributes;
}

namespace {

// --- Builder ---

Weight weight_from(const py::object& data, const std::string& dtype, const Shape& shape, std::int64_t seed,
                   double scale, double offset, const std::string& path, std::int64_t byte_offset, bool trainable,
                   bool share) {
  Weight weight;
  weight.trainable = trainable;
  if (!data.is_none()) {
    weight.source = Weight::Source::data;
    weight.data = bindings::array_from_python(data);
    if (!share) weight.data = weight.data.clone();
    weight.type = {weight.data.dtype(), weight.data.shape()};
    return weight;
  }
  weight.type = {parse_dtype(dtype), shape};
  weight.source = path.empty() ? Weight::Source::random : Weight::Source::file;
  weight.seed = seed;
  weight.scale = scale;
  weight.offset = offset;
  weight.path = path;
  weight.byte_offset = byte_offset;
  return weight;
}

/// A Builder and the graph that it builds into.
class PyBuilder {
 public:
  PyBuilder(bindings::SharedGraph& target, const std::string& name)
      : target_(&target), builder_(target.in_place(), name), passes_(target.passes()) {}

  /// To be asked anew for every call: where a reader holds the graph, building goes on in a copy.
  Builder& builder() {
    if (target_->passes() != passes_)
      throw UserError({"the graph was changed by passes since", "builder", {}, {}, "Build it to its end first"});
    builder_.go_on_in(target_->in_place());
    return builder_;
  }
  const Graph& graph() { return target_->in_place(); }
  void set_devices(const std::string& mesh, std::int64_t devices) {
    builder();  // checks
    Graph& graph = target_->in_place();
    graph.mesh = mesh.empty() ? nullptr : std::make_shared<const Mesh>(Mesh::parse(mesh));
    graph.devices = devices;
  }
  bool annotate(ValueId value, std::shared_ptr<const Sharding> sharding) {
    GraphFunction& function = target_->in_place().functions[static_cast<std::size_t>(builder_.function_index())];
    std::shared_ptr<const Sharding>& held = function.values.at(static_cast<std::size_t>(value)).sharding;
    if (!held)
      held = std::move(sharding);
    else
      return *held == *sharding;
    return true;
  }

 private:
  bindings::SharedGraph* target_;
  Builder builder_;
  std::int64_t passes_;
};

std::vector<ValueId> add_op(PyBuilder& own, const std::string& kind_name, std::vector<ValueId> operands,
                            const py::dict& attributes, const std::string& name, int results,
                            const std::vector<std::string>& functions) {
  const Kind kind = parse_kind(kind_name);
  Builder& builder = own.builder();
  const Graph& graph = own.graph();
  std::vector<std::int32_t> callees;
  for (const std::string& callee : functions)
    callees.push_back(static_cast<std::int32_t>(&function_of(graph, callee) - graph.functions.data()));
  return builder.op(kind, std::move(operands), bindings::attributes_from(kind, attributes), name, results,
                    std::move(callees));
}

bool annotate(PyBuilder& own, ValueId value, const std::string& text) {
  own.builder();  // checks
  return own.annotate(value, std::make_shared<const Sharding>(Sharding::parse(text)));
}

py::list kind_table() {
  py::list result;
  for (int i = 0; i < kind_count; ++i) {
    const KindInfo& entry = info(static_cast<Kind>(i));
    py::dict kind;
    kind["name"] = std::string(entry.name);
    kind["operands"] = entry.operand_names;
    kind["min_operands"] = entry.min_operands;
    kind["max_operands"] = entry.max_operands;
    kind["min_results"] = entry.min_results;
    kind["max_results"] = entry.max_results;
    kind["composite"] = entry.composite;
    kind["movement"] = entry.movement;
    py::list attributes;
    for (const AttributeInfo& attribute : entry.attributes) {
      py::dict one;
      one["name"] = attribute.name;
      one["type"] = type_name(attribute.type);
      one["required"] = attribute.required;
      one["allowed"] = attribute.allowed;
      attributes.append(one);
    }
    kind["attributes"] = attributes;
    result.append(kind);
  }
  return result;
}

using BuilderClass = py::class_<PyBuilder>;

void bind_values(BuilderClass& type) {
  type.def(py::init<bindings::SharedGraph&, const std::string&>(), py::arg("graph"), py::arg("name") = "main",
           py::keep_alive<1, 2>())
      .def(
          "input",
          [](PyBuilder& self, const std::string& name, const std::string& dtype, const Shape& shape) {
            return self.builder().input(name, {parse_dtype(dtype), shape});
          },
          py::arg("name"), py::arg("dtype"), py::arg("shape"), "A new input of the function.")
      .def(
          "weight",
          [](PyBuilder& self, const std::string& name, const py::object& data, const std::string& dtype,
             const Shape& shape, std::int64_t seed, double scale, double offset, const std::string& path,
             std::int64_t byte_offset, bool trainable, bool share) {
            return self.builder().weight(
                name, weight_from(data, dtype, shape, seed, scale, offset, path, byte_offset, trainable, share));
          },
          py::arg("name"), py::arg("data") = py::none(), py::arg("dtype") = "f32", py::arg("shape") = Shape{},
          py::arg("seed") = 0, py::arg("scale") = 0.05, py::arg("offset") = 0.0, py::arg("path") = "",
          py::arg("byte_offset") = 0, py::arg("trainable") = true, py::arg("share") = false,
          "A weight: from an array, from a file (path), or random: uniform in offset ± scale. Equal names share it. "
          "share: refer to the array's memory (row-major arrays) instead of copying it.")
      .def(
          "adopt",
          [](PyBuilder& self, const bindings::GraphValue& graph, const std::string& name) {
            return self.builder().weight(name, graph->weights.at(name));
          },
          py::arg("graph"), py::arg("name"), "A weight of another graph, under its name; its elements are not copied.")
      .def(
          "scalar",
          [](PyBuilder& self, double value, const std::string& dtype) {
            return self.builder().scalar(value, parse_dtype(dtype));
          },
          py::arg("value"), py::arg("dtype") = "f32", "A constant without axes.")
      .def(
          "op",
          [](PyBuilder& self, const std::string& kind, std::vector<ValueId> operands, const py::dict& attributes,
             const std::string& name, int results, const std::vector<std::string>& functions) {
            return add_op(self, kind, std::move(operands), attributes, name, results, functions);
          },
          py::arg("kind"), py::arg("operands") = std::vector<ValueId>{}, py::arg("attributes") = py::dict(),
          py::arg("name") = "", py::arg("results") = 1, py::arg("functions") = std::vector<std::string>{},
          "Any kind of operation; gives its results. Raises UserError naming operation, got and expected.");
}

void bind_operations(BuilderClass& type) {
  type.def(
          "elementwise",
          [](PyBuilder& self, const std::string& function, std::vector<ValueId> operands, const std::string& name) {
            return self.builder().elementwise(parse_function(function), std::move(operands), name);
          },
          py::arg("function"), py::arg("operands"), py::arg("name") = "",
          "An elementwise function; operands broadcast as numpy's.")
      .def(
          "matmul",
          [](PyBuilder& self, ValueId a, ValueId b, ValueId bias, const std::string& name) {
            return self.builder().matmul(a, b, bias, name);
          },
          py::arg("a"), py::arg("b"), py::arg("bias") = no_value, py::arg("name") = "", "numpy's matmul, plus bias.")
      .def(
          "convert",
          [](PyBuilder& self, ValueId x, const std::string& dtype) {
            return self.builder().convert(x, parse_dtype(dtype));
          },
          py::arg("x"), py::arg("dtype"), "x in another dtype.")
      .def(
          "reshape",
          [](PyBuilder& self, ValueId x, Shape shape) { return self.builder().reshape(x, std::move(shape)); },
          py::arg("x"), py::arg("shape"), "x in another shape of as many elements.")
      .def(
          "transpose",
          [](PyBuilder& self, ValueId x, Shape permutation) {
            return self.builder().transpose(x, std::move(permutation));
          },
          py::arg("x"), py::arg("permutation"), "Axis i of the result is axis permutation[i] of x.")
      .def(
          "set_source", [](PyBuilder& self, const std::string& source) { self.builder().set_source(source); },
          py::arg("source"), "Place in the user's model of the operations that follow.")
      .def("set_devices", &PyBuilder::set_devices, py::arg("mesh"), py::arg("devices"),
           "The mesh that shardings are about (\"\": none), and how many devices run the graph together.")
      .def("annotate", &annotate, py::arg("value"), py::arg("sharding"),
           "Says how a value is divided, as text; the first that is said stays. Whether it is this one.")
      .def(
          "output", [](PyBuilder& self, ValueId value, const std::string& name) { self.builder().output(value, name); },
          py::arg("value"), py::arg("name") = "", "Makes a value an output of the function.")
      .def(
          "alias", [](PyBuilder& self, int output, int input) { self.builder().alias(output, input); },
          py::arg("output"), py::arg("input"), "Output number `output` overwrites input number `input`.")
      .def(
          "type",
          [](PyBuilder& self, ValueId value) {
            const TensorType& found = self.builder().type(value);
            return py::make_tuple(std::string(name(found.dtype)), to_tuple(found.shape));
          },
          py::arg("value"), "(dtype, shape) of a value.")
      .def(
          "finish", [](PyBuilder& self) { self.builder().finish(); },
          "Makes this function the graph's entry and checks the graph.");
}

}  // namespace

void bindings::bind_builder(py::module_& module) {
  BuilderClass type(
      module, "Builder",
      "Builds one function of a graph, operation by operation. Values are integers; -1 is an absent operand.");
  bind_values(type);
  bind_operations(type);
  module.def(
      "function_arity", [](const std::string& name) { return info(parse_function(name)).arity; }, py::arg("name"),
      "Number of operands of an elementwise function. Raises UserError for an unknown one.");
  module.def("kinds", &kind_table,
             "The kinds of operations: operands, attributes with type and allowed values, results.");
}
