// Compares a pattern with its replacement on random data.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/edit.hpp"
#include "tilesim/graph/patterns/recognition.hpp"

namespace tilesim::recognition {

namespace {

constexpr std::int64_t largest_check = std::int64_t{1} << 24;  ///< elements and multiply-adds of one evaluation

enum class Data : std::uint8_t { ordinary, large, huge, infinite, not_a_number, positive };
constexpr Data all_data[] = {Data::ordinary, Data::large,        Data::huge,
                             Data::infinite, Data::not_a_number, Data::positive};

class Source {
 public:
  explicit Source(unsigned seed) : random_(seed) {}

  Array numbers(const TensorType& type, Data data) {
    Array values(DType::f64, type.shape);
    for (std::int64_t i = 0; i < values.size(); ++i) values.as<double>()[i] = number(type.dtype, data);
    return values.to(type.dtype);
  }
  /// An array with the numbers of a list, repeated; starts at one of them.
  Array listed(const TensorType& type, const std::vector<double>& numbers, std::size_t first) {
    Array values(DType::f64, type.shape);
    for (std::int64_t i = 0; i < values.size(); ++i)
      values.as<double>()[i] = numbers[(first + static_cast<std::size_t>(i)) % numbers.size()];
    return values.to(type.dtype);
  }
  /// A mask of false or -inf; with `rows` it hides the first and each seventh row completely.
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
    if (data == Data::not_a_number && below(12) == 0) return std::numeric_limits<double>::quiet_NaN();
    const double value = uniform(-3, 3);
    if (data == Data::positive) return std::abs(value) + 0.1;
    return data == Data::large ? value * 12 : data == Data::huge ? value * 1e4 : value;
  }

  std::mt19937 random_;
};

/// Number of additions and multiplications of one evaluation.
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

double largest(DType dtype) {
  constexpr double half = 65504;
  return dtype == DType::f64   ? std::numeric_limits<double>::max()
         : dtype == DType::f16 ? half
                               : static_cast<double>(std::numeric_limits<float>::max());
}

double least_normal(DType dtype) {
  constexpr double half = 0x1p-14;
  return dtype == DType::f64   ? std::numeric_limits<double>::min()
         : dtype == DType::f16 ? half
                               : static_cast<double>(std::numeric_limits<float>::min());
}

/// Whether two elements are equal up to rounding against `scale`. Near the largest number of the dtype, one form may
/// overflow in an intermediate result.
bool same(double wanted, double got, double tolerance, double scale, DType dtype) {
  if (wanted == got || (std::isnan(wanted) && std::isnan(got))) return true;
  if (std::isinf(wanted) && std::isfinite(got))
    return std::abs(got) >= largest(dtype) / 8 && std::signbit(wanted) == std::signbit(got);
  return std::abs(wanted - got) <= tolerance * scale;
}

/// The first element that differs, or empty. `xs`: operands of a function of single elements, for which the tolerance
/// follows each element's size; else it follows the largest element's.
std::string difference(const Array& wanted, const Array& got, double tolerance, const std::vector<Array>& xs) {
  if (wanted.dtype() != got.dtype() || wanted.shape() != got.shape()) return "types differ";
  double scale = 0;
  for (std::int64_t i = 0; i < wanted.size(); ++i)
    if (std::isfinite(wanted.at(i))) scale = std::max(scale, std::abs(wanted.at(i)));
  for (std::int64_t i = 0; i < wanted.size(); ++i) {
    const double a = wanted.at(i), b = got.at(i);
    if (!xs.empty()) {
      constexpr double far = 16;
      scale = std::max(std::isfinite(a) ? std::abs(a) : 0, least_normal(wanted.dtype()));
      for (const Array& x : xs) {
        const double own = x.size() == wanted.size() ? std::abs(x.at(i)) : far;
        scale = std::max(scale, std::min(own, far));
      }
    }
    if (!same(a, b, tolerance, scale, wanted.dtype()))
      return "element " + std::to_string(i) + " is " + std::to_string(a) + " and " + std::to_string(b);
  }
  return {};
}

bool exact_function(Function function) {
  using enum Function;
  constexpr Function exact[] = {identity, negate, abs, maximum, minimum, relu, select, clamp};
  return std::ranges::find(exact, function) != std::end(exact);
}

/// Whether an operation only moves or selects elements, or changes their sign.
bool exact(const Op& op) {
  if (op.kind == Kind::elementwise) return exact_function(parse_function(op.attributes.text("function")));
  if (op.kind == Kind::reduce) {
    const std::string& combiner = op.attributes.text("combiner");
    return combiner == "maximum" || combiner == "minimum";
  }
  return op.kind == Kind::constant || info(op.kind).movement;
}

bool coarser(DType dtype, DType than) {
  if (!is_float(dtype) || !is_float(than)) return false;
  return unit_roundoff(dtype) > unit_roundoff(than) || (dtype == DType::f16 && than == DType::bf16);
}

/// Whether an intermediate number is rounded to a coarser dtype than the root's, or to one of a smaller range.
bool rounds(const GraphFunction& function, const std::vector<const Op*>& ops, DType root) {
  return std::ranges::any_of(ops, [&](const Op* op) {
    return !exact(*op) &&
           std::ranges::any_of(op->results, [&](ValueId id) { return coarser(function.value(id).type.dtype, root); });
  });
}

bool narrowed(const Graph& replacement) {
  const GraphFunction& function = replacement.functions[0];
  std::vector<const Op*> ops;
  for (const Op& op : function.ops) ops.push_back(&op);
  return rounds(function, ops, function.value(function.outputs[0]).type.dtype);
}

/// Whether each element depends only on the operands' elements at the same position.
bool pointwise(const Reader& reader, const std::vector<const Op*>& ops) {
  return std::ranges::all_of(ops, [&](const Op* op) {
    return op->kind == Kind::elementwise || op->kind == Kind::convert || reader.number(op->results[0]).has_value();
  });
}

/// Whether large numbers reach an exponential, which magnifies their rounding.
bool exponential(const std::vector<const Op*>& ops) {
  return std::ranges::any_of(ops, [](const Op* op) {
    const bool function = op->kind == Kind::elementwise && op->attributes.text("function") == "exp";
    return function || op->kind == Kind::softmax || op->kind == Kind::log_softmax;
  });
}

/// Numbers that distinguish forms of a function: the ends of the dtype's range, and each constant of the part with its
/// neighbours, with both signs.
std::vector<double> special_numbers(const Reader& reader, const std::vector<const Op*>& ops, DType dtype, bool limits) {
  constexpr double inf = std::numeric_limits<double>::infinity(), tens = 1e4;
  std::vector<double> found{0, 1, tens, inf};
  if (limits)
    for (const double end : {largest(dtype), largest(dtype) / 2, least_normal(dtype), least_normal(dtype) / 2})
      found.push_back(end);
  for (const Op* op : ops) {
    const auto number = reader.number(op->results[0]);
    if (!number || !std::isfinite(*number) || std::abs(*number) > largest(dtype) / 2) continue;
    const double spacing = 4 * std::max(unit_roundoff(dtype), 1e-12), size = std::abs(*number);
    for (const double near : {size, size * (1 + spacing), size * (1 - spacing), size * 2, size / 2, size + 1})
      found.push_back(near);
  }
  std::ranges::sort(found);
  found.erase(std::unique(found.begin(), found.end()), found.end());
  const std::size_t count = found.size();
  for (std::size_t i = 0; i < count; ++i) found.push_back(-found[i]);
  found.push_back(std::numeric_limits<double>::quiet_NaN());
  return found;
}

std::vector<TensorType> input_types(const Graph& graph) {
  std::vector<TensorType> types;
  for (const ValueId id : graph.functions[0].inputs) types.push_back(graph.functions[0].value(id).type);
  return types;
}

double tolerance_of(const Reader& reader, const Graph& part, const std::vector<const Op*>& ops, bool wide) {
  double roundoff = coarsest(part);
  if (wide)  // the numbers of the pattern were rounded to its own dtypes
    for (const Op* op : ops)
      for (const ValueId id : op->results)
        if (is_float(reader.type(id).dtype)) roundoff = std::max(roundoff, unit_roundoff(reader.type(id).dtype));
  return wide ? 4 * roundoff : std::max(8 * roundoff, std::min(128 * roundoff, 4e-5));
}

}  // namespace

/// A part and its replacement, both as graphs.
struct Checker::Trial {
  const Reader& reader;
  const Candidate& candidate;
  const std::vector<const Op*>& ops;
  const Evaluator& evaluate;
  Graph part, other;
  double tolerance;
  bool wide;
  std::vector<TensorType> types;
  Source source{1};

  /// Compares both graphs on all data; returns the first difference, or an empty text.
  std::string run() {
    const bool points = pointwise(reader, ops);
    for (const Data data : all_data) {
      if ((data == Data::large || data == Data::huge) && !wide && (types.size() > 1 || exponential(ops))) continue;
      if (const std::string found = compared(drawn(data), points); !found.empty()) return found;
    }
    return points && !types.empty() && is_float(types[0].dtype) ? special() : "";
  }

 private:
  std::vector<Array> drawn(Data data) {
    std::vector<Array> inputs;
    // With a mask, only the mask has infinities: an infinite score plus the mask's -inf would be NaN.
    const bool masked = candidate.mask != no_value && (data == Data::infinite || data == Data::not_a_number);
    for (std::size_t i = 0; i < types.size(); ++i) {
      const bool scale = std::ranges::count(candidate.positive, candidate.leaves[i]) > 0;
      const Data own = scale ? Data::positive : masked ? Data::ordinary : data;
      const bool mask = candidate.leaves[i] == candidate.mask;
      inputs.push_back(mask ? source.mask(types[i], data != Data::ordinary) : source.numbers(types[i], own));
    }
    return inputs;
  }
  std::string special() {
    const DType own = reader.type(candidate.leaves[0]).dtype;
    const std::vector<double> specials = special_numbers(reader, ops, own, types.size() == 1);
    for (std::size_t first = 0; first < specials.size();) {
      std::vector<Array> inputs;
      for (std::size_t i = 0; i < types.size(); ++i)
        inputs.push_back(source.listed(types[i], specials, i == 0 ? first : first * 7 + i));
      first += std::max<std::size_t>(1, static_cast<std::size_t>(inputs[0].size()));
      if (const std::string found = compared(inputs, true); !found.empty()) return found;
    }
    return {};
  }
  std::string compared(const std::vector<Array>& inputs, bool elements) const {
    const Array wanted = evaluate_entry(part, inputs, evaluate)[0], got = evaluate_entry(other, inputs, evaluate)[0];
    const std::string found = difference(wanted, got, tolerance, elements ? inputs : std::vector<Array>{});
    return found.empty() ? found : "values differ: " + found;
  }
};

std::string Checker::compare(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops,
                             bool wide) {
  std::optional<Graph> part = extracted(reader, candidate, ops, wide);
  if (!part) return "the part cannot be extracted";
  Graph other;
  try {
    other = replacement(candidate, input_types(*part));
  } catch (const UserError& error) {
    return error.what();
  }
  if (work(*part) > largest_check) return "the part is too large to be checked";
  if (!wide && narrowed(other)) return "the replacement rounds to a coarser dtype than the result's";
  const std::vector<TensorType> types = input_types(*part);
  const double tolerance = tolerance_of(reader, *part, ops, wide);
  return Trial{reader, candidate, ops, evaluate_, std::move(*part), std::move(other), tolerance, wide, types}.run();
}

std::string Checker::verdict(const Reader& reader, const Candidate& candidate, const std::vector<const Op*>& ops) {
  if (rounds(reader.function(), ops, reader.type(candidate.root).dtype))
    return "numbers within are rounded to a coarser dtype than the result's";
  try {
    // Of integers alone, a replacement cannot tell that its result is to be wide.
    const bool real =
        std::ranges::any_of(candidate.leaves, [&](ValueId leaf) { return is_float(reader.type(leaf).dtype); });
    const std::string found = real ? compare(reader, candidate, ops, true) : std::string();
    return found.empty() ? compare(reader, candidate, ops, false) : found;
  } catch (const Unsupported& error) {
    return error.what();
  }
}

std::string Checker::refusal(const Reader& reader, std::string_view pass, const Candidate& candidate,
                             const std::vector<const Op*>& ops) {
  if (candidate.whole) return verdict(reader, candidate, ops);
  std::string key = std::string(pass) + " " + candidate.after;
  std::map<ValueId, int> numbered;
  const auto name = [&](ValueId id) {
    const auto [entry, fresh] = numbered.emplace(id, static_cast<int>(numbered.size()));
    key += " " + std::to_string(entry->second);
    if (fresh) key += ":" + to_string(reader.type(id));
  };
  for (const ValueId leaf : candidate.leaves) name(leaf);
  key += candidate.mask == no_value ? "" : " masked";
  for (const Op* op : ops) {
    const auto number = op->kind == Kind::constant ? reader.number(op->results[0]) : std::nullopt;
    key += ";" + (number ? std::to_string(std::bit_cast<std::int64_t>(*number)) : edit::meaning(*op));
    for (const ValueId id : op->operands)
      if (id != no_value) name(id);
    for (const ValueId id : op->results) name(id);
  }
  if (const auto found = verdicts_.find(key); found != verdicts_.end()) return found->second;
  return verdicts_[key] = verdict(reader, candidate, ops);
}

}  // namespace tilesim::recognition
