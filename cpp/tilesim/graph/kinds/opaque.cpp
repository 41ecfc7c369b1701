// opaque: a user-defined operation, found by name when it is executed.
#include <charconv>

#include "tilesim/graph/kinds/rules.hpp"

namespace tilesim::rules {
namespace {

[[noreturn]] void no_type(const std::string& text) { refuse("not the type of a result", text, "such as f32[2, 3]"); }

/// Parses "f32[2, 3]" or "i8[]".
TensorType type_of(const std::string& text) {
  const std::size_t open = text.find('[');
  if (open == std::string::npos || text.back() != ']') no_type(text);
  TensorType type{parse_dtype(text.substr(0, open)), {}};
  const char *next = text.data() + open + 1, *const end = text.data() + text.size() - 1;
  while (next != end) {
    std::int64_t extent = 0;
    const auto [after, error] = std::from_chars(next, end, extent);
    if (error != std::errc{} || extent < 0 || extent > largest_extent) no_type(text);
    type.shape.push_back(extent);
    next = after;
    if (next == end) break;
    if (*next != ',') no_type(text);
    for (++next; next != end && *next == ' ';) ++next;
    if (next == end) no_type(text);
  }
  return type;
}

std::vector<TensorType> infer_opaque(const Op& op, Types, const Graph&) {
  std::vector<TensorType> types;
  for (const std::string& text : std::get<std::vector<std::string>>(*op.attributes.find("results")))
    types.push_back(type_of(text));
  if (types.empty()) refuse("an operation without results", op.attributes.text("target"), "one or more");
  if (const double roundings = op.attributes.number("roundings", 0); !(roundings >= 0 && roundings <= 1e9))
    refuse("out of range", "roundings " + std::to_string(roundings), "0 to 1e9");
  return types;
}

}  // namespace

void add_opaque(std::vector<KindInfo>& table) {
  using A = AttributeType;
  table.push_back(
      {.kind = Kind::opaque,
       .name = "opaque",
       .min_operands = 1,
       .max_operands = -1,
       .min_results = 1,
       .max_results = -1,
       .operand_names = {"x..."},
       .attributes = {required("target", A::text), required("results", A::texts), optional("roundings", A::number)},
       .infer = infer_opaque,
       .flops = no_flops,
       .domain = opaque_domain});
}

}  // namespace tilesim::rules
