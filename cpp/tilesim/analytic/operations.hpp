// Closed-form cost of each operation of a graph: selects the model, the shape and the terms. Searches call it millions
// of times.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "tilesim/analytic/attention.hpp"
#include "tilesim/analytic/convolution.hpp"
#include "tilesim/analytic/gemm.hpp"
#include "tilesim/analytic/stream.hpp"
#include "tilesim/graph/graph.hpp"

namespace tilesim::analytic {

/// The reason why a device cannot run an operation. A caller may raise it or try another device.
struct Lacking { std::string text; };

/// Products of one dtype.
struct ProductForm {
  GemmModel model;
  std::string scheme, note;  ///< source of the constants
  double flops_per_second = 1;
};

/// Attention of one dtype.
struct AttentionForm {
  AttentionCall model;
  std::string scheme;
};

/// Square convolutions of one dtype through a library of convolutions.
struct ConvolutionForm {
  ConvolutionModel model;
  std::string scheme;
};

/// Forms with separate constants: products with weights (which a scheme quantizes), products of activations, attention,
/// convolutions of a library.
enum class Form : std::uint8_t { weights, activations, attention, convolution };
std::string_view name(Form form);
using FormKey = std::pair<Form, DType>;

struct Cost {
  std::string name, kind;
  double seconds = 0;
  std::vector<std::pair<std::string_view, double>> terms = {};  ///< seconds
  double bytes = 0, flops = 0;                                  ///< by the graph's counts
  std::string scheme = {}, model = {};
  std::optional<double> hits = {}, occupancy = {};  ///< shares, if modelled
  std::optional<Lacking> lacking = {};

  /// The longest term, the first of equal ones; "none" if nothing takes time.
  std::string_view bound() const;
};

struct Costs {
  std::vector<Cost> rows;
  std::set<std::string> notes;  ///< approximations that were made
  std::set<FormKey> missing;    ///< required forms without constants; if any, the rows are invalid
  std::map<std::tuple<Form, DType, double, double, double, double>, GemmTerms> products;  ///< equal layers reuse them
  const Cost* refused() const;  ///< the first operation that the device cannot run, or null
};

/// The closed-form model of one device under a quantization scheme and a library.
struct OperationModel {
  double units = 1, memory_bytes_per_second = 1e11;
  bool convolves = false;         ///< the library has separate convolutions
  std::map<DType, double> lanes;  ///< operations per second of ordinary lanes
  StreamConstants copy, softmax, norm;
  std::map<FormKey, std::variant<ProductForm, Lacking>> products;
  std::map<FormKey, std::variant<AttentionForm, Lacking>> attentions;
  std::map<FormKey, std::variant<ConvolutionForm, Lacking>> convolutions;

  /// Cost of the operations of the entry function in sequence, with calls inlined.
  Costs price(const Graph& graph) const;
  /// Cost of a function's operations, each as a separate kernel, independent of the producers of its operands.
  /// Operations that run functions cost nothing.
  Costs price_alone(const Graph& graph, const GraphFunction& function) const;
};

}  // namespace tilesim::analytic
