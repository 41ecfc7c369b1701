// Expresses known indices as functions of their positions.
#include <algorithm>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/graph/patterns/indices.hpp"

namespace tilesim::recognition {

namespace {

/// Runs of equal steps along one axis, then runs of those runs' first elements.
std::optional<std::vector<std::pair<std::int64_t, std::int64_t>>> runs_of(const std::vector<std::int64_t>& line) {
  const auto count = line.size();
  if (count < 2) return std::vector<std::pair<std::int64_t, std::int64_t>>{};
  const std::int64_t step = line[1] - line[0];
  std::size_t run = 2;
  while (run < count && line[run] - line[run - 1] == step) ++run;
  if (count % run != 0) return std::nullopt;
  std::vector<std::int64_t> firsts;
  for (std::size_t i = 0; i < count; ++i) {
    if (i % run == 0) firsts.push_back(line[i]);
    if (line[i] != firsts.back() + static_cast<std::int64_t>(i % run) * step) return std::nullopt;
  }
  auto outer = runs_of(firsts);
  if (outer) outer->emplace_back(static_cast<std::int64_t>(run), step);
  return outer;
}

constexpr std::size_t most_digits = 4;  ///< of an axis: more is chance

}  // namespace

std::optional<Affine> affine_of(const Array& values) {
  const Shape& shape = values.shape();
  if (values.size() == 0) return std::nullopt;
  const Shape strides = row_major_strides(shape);
  Affine found;
  found.constant = values.int_at(0);
  std::vector<std::vector<std::int64_t>> lines;
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    std::vector<std::int64_t> line;
    for (std::int64_t i = 0; i < shape[axis]; ++i) line.push_back(values.int_at(i * strides[axis]));
    const auto runs = runs_of(line);
    if (!runs || runs->size() > most_digits) return std::nullopt;
    std::int64_t step = shape[axis];
    for (const auto& [extent, coefficient] : *runs) {
      step /= extent;
      found.terms.push_back({{axis, extent, step}, coefficient});
    }
    for (std::int64_t& value : line) value -= found.constant;
    lines.push_back(std::move(line));
  }
  Shape index(shape.size(), 0);
  for (std::int64_t element = 0; element < values.size(); ++element) {
    std::int64_t expected = found.constant;
    for (std::size_t axis = 0; axis < index.size(); ++axis) expected += lines[axis][at(index[axis])];
    if (values.int_at(element) != expected) return std::nullopt;
    for (std::size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < shape[axis]) break;
      index[axis] = 0;
    }
  }
  return found;
}

std::optional<std::vector<Digit>> common_digits(const Shape& extents, const std::vector<const Affine*>& functions) {
  std::vector<Digit> digits;
  for (std::size_t axis = 0; axis < extents.size(); ++axis) {
    std::set<std::int64_t> steps{1};
    for (const Affine* function : functions)
      for (const Affine::Term& term : function->terms)
        if (term.digit.axis == axis) steps.insert(term.digit.step);
    std::int64_t above = extents[axis];
    for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
      if (above % *step != 0) return std::nullopt;
      digits.push_back({axis, above / *step, *step});
      above = *step;
    }
  }
  return digits;
}

std::vector<std::int64_t> coefficients(const Affine& function, const std::vector<Digit>& digits) {
  std::vector<std::int64_t> result;
  for (const Digit& digit : digits) {
    std::int64_t coefficient = 0;
    for (const Affine::Term& term : function.terms)
      if (term.digit.axis == digit.axis && term.digit.step <= digit.step &&
          digit.step < term.digit.step * term.digit.extent)
        coefficient = term.coefficient * (digit.step / term.digit.step);
    result.push_back(digit.extent > 1 ? coefficient : 0);
  }
  return result;
}

}  // namespace tilesim::recognition
