// A pattern and its replacement on random data.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/graph_json.hpp"
#include "tilesim/graph/recognition.hpp"

namespace tilesim::recognition {

namespace {

constexpr std::int64_t largest_check = std::int64_t{1} << 24;  ///< elements and multiply-adds of one evaluation

enum class Data : std::uint8_t { ordinary, large, infinite, positive };
constexpr Data all_data[] = {Data::ordinary, Data::large, Data::infinite, Data::positive};

class Source {
 public:
  explicit Source(unsigned seed) : random_(seed) {}

  Array numbers(const TensorType& type, Data data) {
    Array values(DType::f64, type.shape);
    for (std::int64_t i = 0; i < values.size(); ++i) values.as<double>()[i] = number(type.dtype, data);
    return values.to(type.dtype);
  }
  /// Masks hide: false or -inf; the first row (and each seventh) wholly where `rows`.
  Array mask(const TensorType& type, bool rows) {
    Array values(DType::f64, type.shape);
    const std::int64_t width = type.shape.empty() ? 1 : type.shape.back();
    const bool boolean = type.dtype == DType::boolean;
    for (std::int64_t i = 0; i < values.size(); ++i) {
      const bool hidden = (rows && i / width % 7 == 0) || (width > 1 && below(3) == 0);
      const double shown = boolean ? 1 : uniform(-1, 1);
      values.as<double>()[i] = !hidden ? shown : boolean ? 0 : -std::numeric_limits<double>::infinity();
    }
    return values.to(type.dtype);
  }

 private:
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  double uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(random_()) / static_cast<double>(std::mt19937::max());
  }
  double number(DType dtype, Data data) {
    if (dtype == DType::boolean) return static_cast<double>(below(2));
    if (dtype == DType::i8) return static_cast<double>(below(256)) - 128;
    if (dtype == DType::u8) return static_cast<double>(below(256));
    if (!is_float(dtype)) return static_cast<double>(below(7));
    if (data == Data::infinite && below(12) == 0)
      return (below(2) == 0 ? 1 : -1) * std::numeric_limits<double>::infinity();
    const double value = uniform(-3, 3);
    if (data == Data::positive) return std::abs(value) + 0.1;
    return data == Data::large ? value * 12 : value;
  }

  std::mt19937 random_;
};

/// What sums and products of one evaluation come to.
std::int64_t work(const Graph& graph) {
  double total = flops(graph).total();
  for (const Value& value : graph.functions[0].values) {
    double count = 1;
    for (const std::int64_t extent : value.type.shape) count *= static_cast<double>(extent);
    total += count;
  }
  return static_cast<std::int64_t>(std::min(total, 1e18));
}

double coarsest(const Graph& graph) {
  double roundoff = 0;
  for (const Value& value : graph.functions[0].values)
    if (is_float(value.type.dtype)) roundoff = std::max(roundoff, unit_roundoff(value.type.dtype));
  return roundoff;
}

/// Empty, or the first element that differs.
std::string difference(const Array& wanted, const Array& got, double tolerance) {
  if (wanted.dtype() != got.dtype() || wanted.shape() != got.shape()) return "types differ";
  double scale = 0;
  for (std::int64_t i = 0; i < wanted.size(); ++i)
    if (std::isfinite(wanted.at(i))) scale = std::max(scale, std::abs(wanted.at(i)));
  for (std::int64_t i = 0; i < wanted.size(); ++i) {
    const double a = wanted.at(i), b = got.at(i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance * scale;
    if (!same) return "element " + std::to_string(i) + " is " + std::to_string(a) + " and " + std::to_string(b);
  }
  return {};
}

std::vector<TensorType> input_types(const Graph& graph) {
  std::vector<TensorType> types;
  for (const ValueId id : graph.functions[0].inputs) types.push_back(graph.functions[0].value(id).type);
  return types;
}

}  // namespace

std::string Checker::compare(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops,
                             bool wide) {
  const std::optional<Graph> part = extracted(reader, candidate, ops, wide);
  if (!part) return "the part cannot be taken out";
  Graph other;
  try {
    other = replacement(candidate, input_types(*part));
  } catch (const UserError& error) {
    return error.what();
  }
  if (work(*part) > largest_check) return "the part is too large to be checked";
  const std::string key = part->text() + other.text() + (candidate.mask == no_value ? "" : "mask");
  const auto [entry, inserted] = known_.emplace(key, "");
  if (!inserted) return entry->second;
  double roundoff = coarsest(*part);
  if (wide)  // the numbers of the pattern were rounded to its own dtypes
    for (const Op* op : ops)
      for (const ValueId id : op->results)
        if (is_float(reader.type(id).dtype)) roundoff = std::max(roundoff, unit_roundoff(reader.type(id).dtype));
  const double tolerance = wide ? 4 * roundoff : std::max(8 * roundoff, std::min(128 * roundoff, 4e-5));
  Source source(1);
  for (const Data data : all_data) {
    if (data == Data::large && !wide) continue;  // exponentials of large scores magnify their rounding
    std::vector<Array> inputs;
    const std::vector<TensorType> types = input_types(*part);
    // An infinite score meets -inf of a mask in sums that nobody means: infinities are the mask's then.
    const bool masked = candidate.mask != no_value && data == Data::infinite;
    for (std::size_t i = 0; i < types.size(); ++i) {
      const bool scale = std::ranges::count(candidate.positive, candidate.leaves[i]) > 0;
      inputs.push_back(candidate.leaves[i] == candidate.mask ? source.mask(types[i], data != Data::ordinary)
                                                             : source.numbers(types[i], scale    ? Data::positive
                                                                                        : masked ? Data::ordinary
                                                                                                 : data));
    }
    const std::string found =
        difference(evaluate_entry(*part, inputs, evaluate_)[0], evaluate_entry(other, inputs, evaluate_)[0], tolerance);
    if (!found.empty()) return entry->second = "values differ: " + found;
  }
  return {};
}

std::string Checker::refusal(const Reader& reader, const Candidate& candidate) {
  const auto ops = cone(reader, candidate);
  if (!ops) return "other operations read what is within, or something else is needed";
  try {
    const std::string found = compare(reader, candidate, *ops, true);
    return found.empty() ? compare(reader, candidate, *ops, false) : found;
  } catch (const Unsupported& error) {
    return error.what();
  }
}

}  // namespace tilesim::recognition
