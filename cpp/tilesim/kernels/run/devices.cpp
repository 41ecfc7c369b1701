// Runs all devices of a graph in parallel steps, with their communication.
#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/no_memory.hpp"
#include "tilesim/kernels/run/devices.hpp"
#include "tilesim/kernels/run/running.hpp"

namespace tilesim {
namespace kernels {
namespace {

using Integers = std::vector<std::int64_t>;
using Each = std::vector<Results>;  ///< per device

/// The part `index` of `count` along one axis.
Array part(const Array& x, std::int64_t dim, std::int64_t index, std::int64_t count) {
  Shape shape = x.shape();
  shape[at(dim)] /= count;
  Array result(x.dtype(), shape);
  const AxisView view = axis_view(shape, dim);
  const auto row = static_cast<std::size_t>(view.extent * view.inner * host_bytes(x.dtype()));
  for (std::int64_t outer = 0; row > 0 && outer < view.outer; ++outer)
    std::memcpy(result.bytes() + at(outer) * row, x.bytes() + at(outer * count + index) * row, row);
  return result;
}

/// Concatenates arrays of one shape along an axis.
Array behind(const std::vector<Array>& parts, std::int64_t dim) {
  Shape shape = parts[0].shape();
  const AxisView view = axis_view(shape, dim);
  const auto row = static_cast<std::size_t>(view.extent * view.inner * host_bytes(parts[0].dtype()));
  shape[at(dim)] *= std::ssize(parts);
  Array result(parts[0].dtype(), shape);
  for (std::size_t i = 0; row > 0 && i < parts.size(); ++i)
    for (std::int64_t outer = 0; outer < view.outer; ++outer)
      std::memcpy(result.bytes() + (at(outer) * parts.size() + i) * row, parts[i].bytes() + at(outer) * row, row);
  return result;
}

class Devices {
 public:
  Devices(const Graph& graph, const EvaluateOptions& options) : graph_(graph), options_(options) {}

  Each run(const GraphFunction& function, const Each& inputs) {
    const std::size_t devices = inputs.size();
    std::vector<Results> values(devices, Results(function.values.size()));
    for (std::size_t d = 0; d < devices; ++d)
      for (std::size_t i = 0; i < function.inputs.size(); ++i) values[d][at(function.inputs[i])] = inputs[d][i];
    const std::vector<std::vector<ValueId>> dying = last_uses(function);
    for (std::size_t i = 0; i < function.ops.size(); ++i) {
      const Op& op = function.ops[i];
      if (options_.cancel != nullptr) options_.cancel->poll();
      Each operands(devices);
      for (std::size_t d = 0; d < devices; ++d)
        for (const ValueId id : op.operands) operands[d].push_back(id == no_value ? Array() : values[d][at(id)]);
      Each results = naming("operation \"" + op.name + "\"", [&] { return step(function, op, operands); });
      for (std::size_t d = 0; d < devices; ++d) {
        for (std::size_t r = 0; r < op.results.size(); ++r) values[d][at(op.results[r])] = results[d][r];
        for (const ValueId id : dying[i]) values[d][at(id)] = Array();
      }
    }
    Each outputs(devices);
    for (std::size_t d = 0; d < devices; ++d)
      for (const ValueId id : function.outputs) outputs[d].push_back(values[d][at(id)]);
    return outputs;
  }

 private:
  Each step(const GraphFunction& function, const Op& op, const Each& operands) {
    if (info(op.kind).effect == Effect::collective) return together(function, op, operands);
    const bool meets = std::ranges::any_of(op.functions, [&](std::int32_t f) { return communicates(f); });
    if (!meets) return apart(function, op, operands);
    if (op.kind == Kind::while_loop) return loop(function, op, operands);
    if (op.kind == Kind::branch) return choose(function, op, operands);
    return run(graph_.functions[at(op.functions[0])], operands);
  }

  /// Whether a function, or one that it runs, has operations between devices.
  bool communicates(std::int32_t number) {
    const auto known = communicates_.find(number);
    if (known != communicates_.end()) return known->second;
    const GraphFunction& function = graph_.functions[at(number)];
    const bool found = std::ranges::any_of(function.ops, [&](const Op& op) {
      return info(op.kind).effect == Effect::collective ||
             std::ranges::any_of(op.functions, [&](std::int32_t f) { return communicates(f); });
    });
    return communicates_[number] = found;
  }

  /// Evaluates each device separately; devices whose operands are the same memory share the result.
  Each apart(const GraphFunction& function, const Op& op, const Each& operands) {
    std::map<std::vector<const std::byte*>, std::size_t> first;
    Each results(operands.size());
    for (std::size_t d = 0; d < operands.size(); ++d) {
      std::vector<const std::byte*> key;
      for (const Array& operand : operands[d]) key.push_back(operand.bytes());
      const auto [same, fresh] = first.emplace(std::move(key), d);
      results[d] = fresh ? run_op(graph_, function, op, operands[d], options_) : results[same->second];
    }
    return results;
  }

  [[noreturn]] void parted(const GraphFunction& function, const Op& op, const char* what, std::size_t device) {
    throw UserError({std::string("Devices take different ") + what + ", but operations between devices are in it.",
                     place_of(function, op),
                     "device " + std::to_string(device) + " differs from device 0",
                     "the same choice on all devices",
                     {}});
  }

  Each loop(const GraphFunction& function, const Op& op, Each state) {
    for (;;) {
      const Each tests = run(graph_.functions[at(op.functions[0])], state);
      const bool goes_on = tests[0][0].int_at(0) != 0;
      for (std::size_t d = 1; d < tests.size(); ++d)
        if ((tests[d][0].int_at(0) != 0) != goes_on) parted(function, op, "trips through a loop", d);
      if (!goes_on) return state;
      state = run(graph_.functions[at(op.functions[1])], state);
    }
  }

  Each choose(const GraphFunction& function, const Op& op, const Each& operands) {
    const auto chosen = [&](std::size_t d) {
      const std::int64_t which = operands[d][0].int_at(0), last = std::ssize(op.functions) - 1;
      if (operands[d][0].dtype() == DType::boolean) return which != 0 ? std::int64_t{0} : std::int64_t{1};
      return which < 0 || which > last ? last : which;
    };
    Each inputs;
    for (std::size_t d = 0; d < operands.size(); ++d) {
      if (chosen(d) != chosen(0)) parted(function, op, "branch", d);
      inputs.emplace_back(operands[d].begin() + 1, operands[d].end());
    }
    return run(graph_.functions[at(op.functions[at(chosen(0))])], inputs);
  }

  // --- between devices ---

  std::vector<std::vector<std::size_t>> groups_of(const GraphFunction& function, const Op& op, std::size_t devices) {
    const Integers given = op.attributes.integers("groups", {});
    const std::size_t size = at(op.attributes.integer("group_size", 1));
    std::vector<std::vector<std::size_t>> groups;
    if (given.empty()) {
      groups.emplace_back();
      for (std::size_t d = 0; d < devices; ++d) groups.back().push_back(d);
    }
    for (std::size_t i = 0; i < given.size(); ++i) {
      if (i % size == 0) groups.emplace_back();
      if (given[i] < 0) continue;
      if (at(given[i]) >= devices) refuse(function, op, given[i], devices);
      groups.back().push_back(at(given[i]));
    }
    const bool shaped = op.kind != Kind::all_reduce && op.kind != Kind::broadcast_devices;
    std::vector<bool> member(devices, false);
    for (const auto& group : groups) {
      if (shaped && group.size() != size)
        throw UserError({"A group has another size than the shapes say.",
                         place_of(function, op),
                         std::to_string(group.size()) + " devices",
                         std::to_string(size),
                         {}});
      for (const std::size_t d : group) member[d] = true;
    }
    for (std::size_t d = 0; d < devices; ++d)
      if (!member[d] && op.kind != Kind::broadcast_devices)
        throw UserError({"A device is in no group.", place_of(function, op), std::to_string(d), "all devices", {}});
    return groups;
  }

  [[noreturn]] static void refuse(const GraphFunction& function, const Op& op, std::int64_t device,
                                  std::size_t devices) {
    throw UserError({"A group or pair names a device that does not exist.",
                     place_of(function, op),
                     std::to_string(device),
                     "0 .. " + std::to_string(devices - 1),
                     {}});
  }

  /// The parts of a group combined in its order; every step is rounded to the dtype, as the operation's body would.
  Array combined(const GraphFunction& function, const Op& op, const std::vector<std::size_t>& group,
                 const Each& operands) {
    Array sum = operands[group[0]][0];
    Op step;
    step.name = op.name;
    step.kind = Kind::elementwise;
    step.operands = {op.operands[0], op.operands[0]};
    step.results = {op.operands[0]};
    step.attributes.set("function", op.attributes.text("combiner"));
    for (std::size_t i = 1; i < group.size(); ++i)
      sum = run_op(graph_, function, step, {sum, operands[group[i]][0]}, options_)[0];
    return sum;
  }

  Each permuted(const GraphFunction& function, const Op& op, const Each& operands) {
    const Integers& pairs = op.attributes.integers("pairs");
    Each results(operands.size());
    for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
      for (const std::int64_t device : {pairs[i], pairs[i + 1]})
        if (device < 0 || at(device) >= operands.size()) refuse(function, op, device, operands.size());
      if (!results[at(pairs[i + 1])].empty())
        throw UserError({"Two pairs have the same target.",
                         place_of(function, op),
                         std::to_string(pairs[i + 1]),
                         "each target once",
                         {}});
      results[at(pairs[i + 1])] = {operands[at(pairs[i])][0]};
    }
    for (std::size_t d = 0; d < results.size(); ++d)
      if (results[d].empty()) results[d] = {Array(operands[d][0].dtype(), operands[d][0].shape())};
    return results;
  }

  Each together(const GraphFunction& function, const Op& op, const Each& operands) {
    if (op.kind == Kind::permute_devices) return permuted(function, op, operands);
    Each results(operands.size());
    if (op.kind == Kind::device_index) {
      for (std::size_t d = 0; d < results.size(); ++d) {
        Array index(DType::u32, {});
        *index.as<std::uint32_t>() = static_cast<std::uint32_t>(d);
        results[d] = {index};
      }
      return results;
    }
    for (const std::vector<std::size_t>& group : groups_of(function, op, operands.size()))
      for (std::size_t i = 0; i < group.size(); ++i)
        results[group[i]] = {i > 0 && op.kind != Kind::all_to_all && op.kind != Kind::reduce_scatter
                                 ? results[group[0]][0]
                                 : in_group(function, op, group, i, operands)};
    for (std::size_t d = 0; d < results.size(); ++d)  // devices of no group
      if (results[d].empty()) results[d] = {Array(operands[d][0].dtype(), operands[d][0].shape())};
    return results;
  }

  /// Result of member `i` of a group.
  Array in_group(const GraphFunction& function, const Op& op, const std::vector<std::size_t>& group, std::size_t i,
                 const Each& operands) {
    const auto size = static_cast<std::int64_t>(group.size());
    std::vector<Array> parts;
    switch (op.kind) {
      case Kind::all_reduce:
        return combined(function, op, group, operands);
      case Kind::reduce_scatter:
        if (i == 0) sum_ = combined(function, op, group, operands);
        return part(sum_, op.attributes.integer("dim"), std::int64_t(i), size);
      case Kind::all_gather:
        for (const std::size_t d : group) parts.push_back(operands[d][0]);
        return behind(parts, op.attributes.integer("dim"));
      case Kind::all_to_all:
        for (const std::size_t d : group)
          parts.push_back(part(operands[d][0], op.attributes.integer("split_dim"), std::int64_t(i), size));
        return behind(parts, op.attributes.integer("concat_dim"));
      case Kind::broadcast_devices:
        return operands[group[0]][0];
      default:
        throw InternalError("a kind between devices has no meaning for them");
    }
  }

  const Graph& graph_;
  const EvaluateOptions& options_;
  std::map<std::int32_t, bool> communicates_;
  Array sum_;  ///< reduction of the current group of a reduce_scatter
};

}  // namespace
}  // namespace kernels

std::vector<std::vector<Array>> evaluate_devices(const Graph& graph, const std::vector<std::vector<Array>>& inputs,
                                                 const EvaluateOptions& options) {
  for (const std::vector<Array>& own : inputs) kernels::check_inputs(graph.entry(), own);
  std::vector<std::vector<Array>> outputs = kernels::Devices(graph, options).run(graph.entry(), inputs);
  std::vector<Array> given;
  for (const std::vector<Array>& own : inputs) given.insert(given.end(), own.begin(), own.end());
  for (std::vector<Array>& own : outputs) kernels::own_outputs(graph, given, own);
  return outputs;
}

}  // namespace tilesim
