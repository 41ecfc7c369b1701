#include "tilesim/graph/passes/sparse_plan.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace tilesim {

namespace {

std::vector<std::string> parts_of(int form, const std::string& of) {
  if (form == 0) return {};
  std::vector<std::string> parts{of + "values", of + "starts", of + "marks", of + "marks_at"};
  if (form == 2) parts.push_back(of + "indices");
  return parts;
}

/// Names of a plan's weights for operands with these storage formats.
std::vector<std::string> names_of(const std::string& name, const int (&forms)[2]) {
  std::vector<std::string> names{name + ".cycles", name + ".products"};
  for (const std::string& part : parts_of(forms[0], "a.")) names.push_back(name + "." + part);
  for (const std::string& part : parts_of(forms[1], "b.")) names.push_back(name + "." + part);
  return names;
}

}  // namespace

std::optional<SparsePlan> sparse_plan_of(const Graph& graph, const Op& op) {
  constexpr std::size_t numbers = 11;
  SparsePlan plan;
  plan.name = op.attributes.text("sparse", "");
  const std::vector<std::int64_t> own = op.attributes.integers("sparse_plan", {});
  if (op.kind != Kind::contract || plan.name.empty() || own.size() != numbers) return std::nullopt;
  plan.cut = own[0];
  plan.from = own[1];
  std::copy_n(own.begin() + 2, 3, plan.tiles);
  for (int operand : {0, 1}) plan.forms[operand] = static_cast<int>(own[5 + static_cast<std::size_t>(operand)]);
  std::copy_n(own.begin() + 7, 2, plan.bytes);
  plan.hold = static_cast<int>(own[9]);
  plan.products = own[10];
  plan.data = op.attributes.text("sparse_data", "");
  const bool whole = *std::min_element(plan.tiles, plan.tiles + 3) >= 1 && plan.from >= 0;
  const std::vector<std::string> names = names_of(plan.name, plan.forms);
  const bool there = std::ranges::all_of(names, [&](const std::string& key) { return graph.weights.contains(key); });
  if (!whole || plan.cut < 0 || plan.cut > 1 || !there) return std::nullopt;
  return plan;
}

Array stored_values(const SparsePlan& plan, const Op& op, int operand, const Array& given, const Array& matrix) {
  const bool of_a = operand == 0;
  const auto contracted = op.attributes.integers(of_a ? "a_contract" : "b_contract", {of_a ? 1 : 0})[0];
  const bool turned = contracted != (of_a ? 1 : 0);
  const Array known = given.to(DType::f64), values = matrix.to(DType::f64);
  const std::int64_t wide = given.shape()[1];
  const std::int64_t rows = given.shape()[turned ? 1 : 0], columns = given.shape()[turned ? 0 : 1];
  const std::int64_t high = plan.tiles[of_a ? 0 : 2], across = plan.tiles[of_a ? 2 : 1];
  const std::int64_t first_row = of_a && plan.cut == 0 ? plan.from : 0;
  const std::int64_t first_column = !of_a && plan.cut == 1 ? plan.from : 0;
  std::vector<double> kept;
  for (std::int64_t i = first_row; i < rows; i += high)
    for (std::int64_t j = first_column; j < columns; j += across)
      for (std::int64_t r = i; r < std::min(rows, i + high); ++r)
        for (std::int64_t c = j; c < std::min(columns, j + across); ++c) {
          const std::int64_t place = turned ? c * wide + r : r * wide + c;
          if (known.as<double>()[place] != 0) kept.push_back(values.as<double>()[place]);
        }
  Array stored(DType::f64, {std::max<std::int64_t>(1, std::ssize(kept))});
  stored.as<double>()[0] = 0;
  std::ranges::copy(kept, stored.as<double>());
  return stored.to(given.dtype());
}

std::vector<std::string> sparse_weights(const Op& op) {
  const std::string name = op.attributes.text("sparse", "");
  return name.empty() ? std::vector<std::string>{} : names_of(name, {2, 2});
}

}  // namespace tilesim
