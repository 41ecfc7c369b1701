// Closed forms of attention, convolutions and streams on numpy arrays, and of whole graphs.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

#include "base/arrays.hpp"
#include "base/cancel.hpp"
#include "graph/graph.hpp"
#include "tilesim/analytic/host.hpp"
#include "tilesim/analytic/operations.hpp"
#include "tilesim/analytic/result.hpp"
#include "tilesim/base/error.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::analytic;

namespace {

using Column = py::array_t<double, py::array::c_style | py::array::forcecast>;
using Values = std::map<std::string, double>;

template <class Info>
py::list rows_of(std::span<const Info> table) {
  py::list rows;
  for (const auto& info : table) {
    py::dict row;
    row["name"] = std::string(info.name);
    row["default"] = info.standard;
    row["low"] = info.low;
    row["high"] = info.high;
    row["unit"] = std::string(info.unit);
    rows.append(row);
  }
  return rows;
}

std::vector<std::string> texts(std::span<const std::string_view> names) { return {names.begin(), names.end()}; }

/// Those of the table; others are of other models.
template <class Constants>
Constants constants_from(std::span<const ConstantInfo<Constants>> table, const Values& values) {
  Constants constants;
  for (const auto& info : table)
    if (const auto found = values.find(std::string(info.name)); found != values.end())
      constants.*info.field = found->second;
  return constants;
}

double take(const Values& values, const char* key) {
  const auto found = values.find(key);
  if (found == values.end()) throw UserError({"a value of the device is missing", {}, key, {}, {}});
  return found->second;
}

/// Rows of `Terms` from columns of equal length.
template <std::size_t columns, class Terms, class Row>
py::array table_of(const std::array<const Column*, columns>& given, const Row& row) {
  const py::ssize_t count = given[0]->size();
  std::array<const double*, columns> from;
  for (std::size_t i = 0; i < columns; ++i) {
    if (given[i]->size() != count) throw UserError("columns need equally many elements");
    from[i] = given[i]->data();
  }
  py::array_t<double> out({count, static_cast<py::ssize_t>(std::tuple_size_v<Terms>)});
  double* to = out.mutable_data();
  bindings::cancellable([&] {
    for (py::ssize_t i = 0; i < count; ++i) {
      worked(64);
      std::array<double, columns> values;
      for (std::size_t c = 0; c < columns; ++c) values[c] = from[c][i];
      const Terms terms = row(values);
      std::copy(terms.begin(), terms.end(), to + i * static_cast<py::ssize_t>(terms.size()));
    }
  });
  return out;
}

void bind_attention(py::module_& module) {
  module.def(
      "attention_constants", [] { return rows_of(attention_constants()); },
      "Constants of the attention model: name, default, low, high, unit.");
  module.def("attention_term_names", [] { return texts(attention_term_names()); }, "Columns of AttentionModel.terms.");
  py::class_<AttentionModel>(module, "AttentionModel", "Closed-form time of attention calls by one kernel.")
      .def(py::init([](const Values& device, const Values& constants) {
             return AttentionModel{take(device, "units"),
                                   take(device, "clock"),
                                   take(device, "memory_bytes_per_second"),
                                   take(device, "flops_per_second"),
                                   take(device, "cache_bytes"),
                                   constants_from(attention_constants(), constants),
                                   take(device, "padded") != 0};
           }),
           py::arg("device"), py::arg("constants"),
           "device: padded (1: blocks as large as those of a library's kernels; 0: as the operands), units, clock "
           "(Hz), memory_bytes_per_second, flops_per_second of the arithmetic, cache_bytes of an "
           "element of keys and values.")
      .def(
          "terms",
          [](const AttentionModel& model, const Column& batch, const Column& queries, const Column& keys,
             const Column& heads, const Column& key_heads, const Column& depth, const Column& window, bool causal,
             const std::optional<AttentionModel>& decode) {
            return table_of<7, AttentionTerms>(
                {&batch, &queries, &keys, &heads, &key_heads, &depth, &window}, [&](const std::array<double, 7>& v) {
                  const AttentionCase call{v[0], v[1], v[2], v[3], v[4], v[5], v[6], causal};
                  return decode ? AttentionCall{model, *decode}.predict(call) : model.predict(call);
                });
          },
          py::arg("batch"), py::arg("queries"), py::arg("keys"), py::arg("heads"), py::arg("key_heads"),
          py::arg("depth"), py::arg("window"), py::arg("causal") = true, py::arg("decode") = py::none(),
          "Seconds of every term per row, shape [count, terms]; decode: the kernel for one query, where it is faster.");
}

void bind_convolution(py::module_& module) {
  module.def(
      "convolution_constants", [] { return rows_of(convolution_constants()); },
      "Constants of the model of convolutions beside those of products.");
  module.def(
      "convolution_term_names", [] { return texts(convolution_term_names()); }, "Columns of ConvolutionModel.terms.");
  py::class_<ConvolutionModel>(module, "ConvolutionModel", "Closed-form time of square convolutions.")
      .def(py::init(
               [](const GemmModel& direct, const GemmModel& plain, double bytes_per_second, const Values& constants) {
                 return ConvolutionModel{direct, plain, bytes_per_second,
                                         constants_from(convolution_constants(), constants)};
               }),
           py::arg("direct"), py::arg("plain"), py::arg("bytes_per_second"), py::arg("constants"),
           "direct, plain: products with taps and without; bytes_per_second: that transforms and layouts see.")
      .def(
          "terms",
          [](const ConvolutionModel& model, const Column& batch, const Column& channels, const Column& filters,
             const Column& size, const Column& kernel, const Column& stride, const Column& padding) {
            return table_of<7, ConvolutionTerms>(
                {&batch, &channels, &filters, &size, &kernel, &stride, &padding}, [&](const std::array<double, 7>& v) {
                  const ConvolutionCase shape{v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
                  if (!(shape.outputs() > 0)) throw UserError("the kernel is larger than the padded input");
                  return model.predict(shape);
                });
          },
          py::arg("batch"), py::arg("channels"), py::arg("filters"), py::arg("size"), py::arg("kernel"),
          py::arg("stride"), py::arg("padding"), "Seconds of every term per row, shape [count, terms].");
}

void bind_stream(py::module_& module) {
  module.def(
      "stream_constants", [] { return rows_of(stream_constants()); },
      "Constants of the model of streams: name, default, low, high, unit.");
  module.def("stream_term_names", [] { return texts(stream_term_names()); }, "Columns of StreamModel.terms.");
  py::class_<StreamModel>(module, "StreamModel", "Closed-form time of what streams over memory.")
      .def(py::init([](const Values& device, const Values& constants) {
             return StreamModel{take(device, "units"),
                                take(device, "memory_bytes_per_second"),
                                take(device, "shared_bytes"),
                                take(device, "shared_bytes_per_second"),
                                take(device, "lanes_per_second"),
                                constants_from(stream_constants(), constants)};
           }),
           py::arg("device"), py::arg("constants"),
           "device: units, memory_bytes_per_second, shared_bytes, shared_bytes_per_second, lanes_per_second.")
      .def(
          "terms",
          [](const StreamModel& model, const Column& rows, const Column& width, double tensors, double bytes,
             double operations, bool by_row) {
            return table_of<2, StreamTerms>({&rows, &width}, [&](const std::array<double, 2>& v) {
              return model.repeated({v[0], v[1], tensors, bytes, operations, by_row});
            });
          },
          py::arg("rows"), py::arg("width"), py::arg("tensors"), py::arg("bytes"), py::arg("operations"),
          py::arg("by_row"), "Seconds of every term of repeated calls per row, shape [count, terms].")
      .def(
          "once",
          [](const StreamModel& model, double bytes, double flops, double rows) {
            return model.once({bytes, flops, rows, true});
          },
          py::arg("bytes"), py::arg("operations"), py::arg("rows"), "Seconds of every term of one call from memory.");
}

/// The term as it is called in the core: costs hold names that live as long as the program.
std::string_view term_named(const std::string& text) {
  static constexpr std::array<std::string_view, 10> names{"compute", "load", "memory",  "launch", "split",
                                                          "cast",    "rows", "latency", "layout", "host"};
  const auto found = std::ranges::find(names, text);
  return found == names.end() ? throw UserError({"unknown term", {}, "'" + text + "'", {}, {}}) : *found;
}

Cost cost_of(const py::tuple& row) {
  using Share = std::optional<double>;
  Cost cost{
      row[0].cast<std::string>(), row[1].cast<std::string>(), row[2].cast<double>(),      {},
      row[4].cast<double>(),      row[5].cast<double>(),      row[6].cast<std::string>(), row[7].cast<std::string>(),
      row[8].cast<Share>(),       row[9].cast<Share>()};
  for (const auto& [name, value] : row[3].cast<py::dict>())
    cost.terms.emplace_back(term_named(name.cast<std::string>()), value.cast<double>());
  return cost;
}

py::tuple row_of(const Cost& cost) {
  py::dict terms;
  for (const auto& [key, value] : cost.terms) terms[py::str(key.data(), key.size())] = value;
  return py::make_tuple(cost.name, cost.kind, cost.seconds, terms, cost.bytes, cost.flops, cost.scheme, cost.model,
                        cost.hits, cost.occupancy);
}

py::object refusal_of(const Costs& costs) {
  const Cost* refused = costs.refused();
  if (refused == nullptr) return py::none();
  return py::make_tuple(refused->name, refused->kind, refused->lacking->text);
}

Form parse_form(const std::string& text) {
  for (const Form form : {Form::weights, Form::activations, Form::attention, Form::convolution})
    if (name(form) == text) return form;
  throw UserError({"unknown form", {}, "'" + text + "'", {}, {}});
}

std::vector<std::pair<std::string, std::string>> missing_of(const std::set<FormKey>& keys) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const auto& [form, dtype] : keys) found.emplace_back(name(form), name(dtype));
  return found;
}

void bind_costs(py::module_& module) {
  py::class_<Costs>(module, "Costs", "Seconds of operations in closed form.")
      .def(py::init([](const std::vector<py::tuple>& rows) {
             Costs costs;
             for (const py::tuple& row : rows) costs.rows.push_back(cost_of(row));
             return costs;
           }),
           py::arg("rows"), "Of rows as `rows` gives them, one after another.")
      .def_property_readonly(
          "missing", [](const Costs& costs) { return missing_of(costs.missing); },
          "Form and dtype of what the model has to be given first; the rest is of no use until it is empty.")
      .def_property_readonly("refused", &refusal_of, "Name, kind and reason of the first operation that cannot run.")
      .def_property_readonly(
          "notes", [](const Costs& costs) { return std::vector<std::string>(costs.notes.begin(), costs.notes.end()); },
          "What was approximated, sorted.")
      .def_property_readonly(
          "seconds",
          [](const Costs& costs) {
            py::array_t<double> out(static_cast<py::ssize_t>(costs.rows.size()));
            std::ranges::transform(costs.rows, out.mutable_data(), &Cost::seconds);
            return out;
          },
          "Per operation.")
      .def(
          "rows",
          [](const Costs& costs) {
            py::list rows;
            for (const Cost& cost : costs.rows) rows.append(row_of(cost));
            return rows;
          },
          "Per operation: name, kind, seconds, terms, bytes, flops, scheme, model, hits, occupancy.")
      .def(
          "result",
          [](const Costs& costs, const std::string& program, const std::string& device, std::int64_t hertz) {
            return bindings::cancellable([&] { return result_of(costs, program, device, hertz); });
          },
          py::arg("program"), py::arg("device"), py::arg("hertz"), "Operations one after another, as a Result.");
}

void bind_operations(py::module_& module) {
  using Model = OperationModel;
  py::class_<Model>(module, "OperationModel", "Closed forms of a graph's operations on one device.")
      .def(py::init([](double units, double memory_bytes_per_second, bool convolves, const Values& lanes,
                       const Values& copy, const Values& softmax, const Values& norm) {
             Model model;
             model.units = units;
             model.memory_bytes_per_second = memory_bytes_per_second;
             model.convolves = convolves;
             for (const auto& [dtype, rate] : lanes) model.lanes[parse_dtype(dtype)] = rate;
             model.copy = constants_from(stream_constants(), copy);
             model.softmax = constants_from(stream_constants(), softmax);
             model.norm = constants_from(stream_constants(), norm);
             return model;
           }),
           py::arg("units"), py::arg("memory_bytes_per_second"), py::arg("convolves"), py::arg("lanes"),
           py::arg("copy"), py::arg("softmax"), py::arg("norm"),
           "convolves: whether its library has convolutions; lanes: operations per second by dtype; constants of "
           "streams.")
      .def(
          "give_product",
          [](Model& model, const std::string& form, const std::string& dtype, const GemmModel& gemm,
             const std::string& scheme, const std::string& note, double flops_per_second) {
            model.products[{parse_form(form), parse_dtype(dtype)}] = ProductForm{gemm, scheme, note, flops_per_second};
          },
          py::arg("form"), py::arg("dtype"), py::arg("model"), py::arg("scheme"), py::arg("note"),
          py::arg("flops_per_second"), "Products with weights, or of activations.")
      .def(
          "give_attention",
          [](Model& model, const std::string& dtype, const AttentionModel& prefill, const AttentionModel& decode,
             const std::string& scheme) {
            model.attentions[{Form::attention, parse_dtype(dtype)}] = AttentionForm{{prefill, decode}, scheme};
          },
          py::arg("dtype"), py::arg("prefill"), py::arg("decode"), py::arg("scheme"), "Attention on a dtype.")
      .def(
          "give_convolution",
          [](Model& model, const std::string& dtype, const ConvolutionModel& convolution, const std::string& scheme) {
            model.convolutions[{Form::convolution, parse_dtype(dtype)}] = ConvolutionForm{convolution, scheme};
          },
          py::arg("dtype"), py::arg("model"), py::arg("scheme"), "Square convolutions of the library on a dtype.")
      .def(
          "give_lacking",
          [](Model& model, const std::string& form, const std::string& dtype, const std::string& reason) {
            const FormKey key{parse_form(form), parse_dtype(dtype)};
            if (key.first == Form::attention)
              model.attentions[key] = Lacking{reason};
            else if (key.first == Form::convolution)
              model.convolutions[key] = Lacking{reason};
            else
              model.products[key] = Lacking{reason};
          },
          py::arg("form"), py::arg("dtype"), py::arg("reason"), "What the device cannot run, and why.")
      .def(
          "price",
          [](const Model& model, const bindings::GraphValue& graph) {
            return bindings::cancellable([&] { return model.price(*graph); });
          },
          py::arg("graph"), "Costs of a graph's operations one after another.");
  py::class_<HostCosts>(module, "HostCosts", "Seconds of operations on a host.")
      .def_property_readonly(
          "missing", [](const HostCosts& costs) { return missing_of(costs.missing); }, "As of Costs.")
      .def_property_readonly(
          "notes",
          [](const HostCosts& costs) { return std::vector<std::string>(costs.notes.begin(), costs.notes.end()); },
          "What was approximated: behind an operation's name, or a kind's.")
      .def_readonly("seconds", &HostCosts::seconds, "Name and seconds of the entry's operations.");
  module.def(
      "price_on_host",
      [](const Model& forms, double matrix_flops_per_second, const Values& vector, const std::string& unit,
         const bindings::GraphValue& graph) {
        HostModel model{forms, matrix_flops_per_second, {}, unit};
        for (const auto& [dtype, rate] : vector) model.vector[parse_dtype(dtype)] = rate;
        return bindings::cancellable([&] { return model.price(*graph); });
      },
      py::arg("forms"), py::arg("matrix_flops_per_second"), py::arg("vector"), py::arg("unit"), py::arg("graph"),
      "Costs of the entry's operations on a host, each in a separate kernel; vector: rates of every dtype.");
}

}  // namespace

void bind_lower_bound(py::module_& module);  // lower_bound.cpp

void init_closed_forms(py::module_& module) {
  module.def(
      "gemm_constants", [] { return rows_of(gemm_constants()); },
      "Constants of the product model: name, default, low, high, unit.");
  module.def("gemm_term_names", [] { return texts(gemm_term_names()); }, "Columns of GemmModel.terms.");
  bind_attention(module);
  bind_convolution(module);
  bind_stream(module);
  bind_costs(module);
  bind_operations(module);
  bind_lower_bound(module);
}
