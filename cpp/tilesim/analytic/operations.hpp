// Closed-form cost of each operation of a graph: selects model, shape and terms. Searches call it millions of times.
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

/// Why a device cannot run an operation. The caller throws it as an error or tries another device.
struct Lacking { std::string text; };

/// The model of products of one dtype.
struct ProductForm {
  GemmModel model;
  std::string scheme, note;  ///< note: source of the constants
  double flops_per_second = 1;
};

/// The model of attention of one dtype.
struct AttentionForm {
  AttentionCall model;
  std::string scheme;
};

/// The model of square convolutions of one dtype in a convolution library.
struct ConvolutionForm {
  ConvolutionModel model;
  std::string scheme;
};

/// Operations with separate constants: products with weights (which a scheme may quantize), products of activations,
/// attention, convolutions of a library.
enum class Form : std::uint8_t { weights, activations, attention, convolution };
std::string_view name(Form form);
using FormKey = std::pair<Form, DType>;

struct Cost {
  std::string name, kind;
  double seconds = 0;
  std::vector<std::pair<std::string_view, double>> terms = {};  ///< in seconds
  double bytes = 0, flops = 0;                                  ///< from the graph's shapes
  std::string scheme = {}, model = {};
  std::optional<double> hits = {}, occupancy = {};  ///< shares; empty: not modelled
  std::optional<Lacking> lacking = {};

  /// The name of the longest term; the first of equal ones; "none" if all are 0.
  std::string_view bound() const;
};

struct Costs {
  std::vector<Cost> rows;
  std::set<std::string> notes;  ///< approximations of the model
  std::set<FormKey> missing;    ///< forms without constants; if not empty, the rows are invalid
  std::map<std::tuple<Form, DType, double, double, double, double>, GemmTerms> products;  ///< cache of equal products
  const Cost* refused() const;  ///< first operation that the device cannot run; null: none
};

/// The closed-form model of one device with a quantization scheme and a library.
struct OperationModel {
  double units = 1, memory_bytes_per_second = 1e11;
  bool convolves = false;         ///< whether the library has separate convolutions
  std::map<DType, double> lanes;  ///< operations per second of ordinary lanes
  StreamConstants copy, softmax, norm;
  std::map<FormKey, std::variant<ProductForm, Lacking>> products;
  std::map<FormKey, std::variant<AttentionForm, Lacking>> attentions;
  std::map<FormKey, std::variant<ConvolutionForm, Lacking>> convolutions;

  /// Costs of the entry function's operations in sequence; calls are inlined.
  Costs price(const Graph& graph) const;
  /// Costs of a function's operations, each as a separate kernel, whatever produces its operands. Operations that run
  /// functions cost nothing.
  Costs price_alone(const Graph& graph, const GraphFunction& function) const;
};

}  // namespace tilesim::analytic
