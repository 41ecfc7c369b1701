#include "tilesim/compile/plan/cannot_run.hpp"

#include <array>

#include "tilesim/graph/kind.hpp"
#include "tilesim/graph/passes/devices.hpp"

namespace tilesim {

namespace {

constexpr std::string_view mark{"\0origin\0", 8};  // text from files cannot contain it

/// "<mark><length of function> <function><length of operation> <operation><source>": names may have any character.
void put(std::string& to, const std::string& text) { to += std::to_string(text.size()) + " " + text; }

std::string take(const std::string& from, std::size_t& at) {
  const std::size_t space = from.find(' ', at);
  const std::size_t length = std::stoull(from.substr(at, space - at));
  at = space + 1 + length;
  return from.substr(space + 1, length);
}

}  // namespace

std::string_view name(Lack lack) {
  static constexpr std::array<std::string_view, 11> names{"dtype",      "array",   "conversion", "comparator",
                                                          "scratchpad", "queues",  "elements",   "trips",
                                                          "effect",     "devices", "lowering"};
  return names[static_cast<std::size_t>(lack)];
}

CannotRun::CannotRun(const Op& op, Lack lack, Parts parts) : Unsupported(std::move(parts)) {
  if (op.source.starts_with(mark)) {
    std::size_t at = mark.size();
    reason_.function = take(op.source, at);
    reason_.operation = take(op.source, at);
  }
  reason_.lack = between_devices(op.kind) ? Lack::devices : lack;
}

void keep_origins(Graph& graph) {
  for (GraphFunction& function : graph.functions)
    for (Op& op : function.ops) {
      std::string kept(mark);
      put(kept, function.name);
      put(kept, op.name);
      op.source = kept + op.source;
    }
}

void drop_origin(Op& op) {
  if (!op.source.starts_with(mark)) return;
  std::size_t at = mark.size();
  take(op.source, at);
  take(op.source, at);
  op.source.erase(0, at);
}

void drop_origins(Graph& graph) {
  for (GraphFunction& function : graph.functions)
    for (Op& op : function.ops) drop_origin(op);
}

}  // namespace tilesim
