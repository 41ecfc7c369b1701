#include <algorithm>
#include <array>

#include "tilesim/analytic/operations.hpp"

namespace tilesim::analytic {

std::string_view name(Form form) {
  static constexpr std::array<std::string_view, 4> names{"weights", "activations", "attention", "convolution"};
  return names[static_cast<std::size_t>(form)];
}

std::string_view Cost::bound() const {
  if (terms.empty() || !(seconds > 0)) return "none";
  return std::max_element(terms.begin(), terms.end(), [](const auto& a, const auto& b) { return a.second < b.second; })
      ->first;
}

const Cost* Costs::refused() const {
  const auto found = std::ranges::find_if(rows, [](const Cost& cost) { return cost.lacking.has_value(); });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace tilesim::analytic
