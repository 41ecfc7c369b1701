#include "tilesim/compile/passes/traffic.hpp"

#include <algorithm>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/program/expressions.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

constexpr std::int64_t most_transfers = 1 << 16;  ///< limit on transfers per kernel
constexpr std::size_t most_cells = 1 << 16;       ///< limit on cells of the grid in `joined`

/// Thrown if traffic is unknown: expressions of a kernel read tensors, or names that it does not declare.
struct TrafficUnknown {};

/// A transfer, a loop or a branch with its expressions compiled.
struct TrafficStep {
  enum class Kind : std::uint8_t { transfer, send, loop, branch } kind = Kind::transfer;
  CompiledExpr expr;  ///< extent of a loop, condition of a branch
  int index = -1;     ///< symbol of a loop's index
  bool used = false;  ///< whether inner expressions use the loop's index
  std::vector<TrafficStep> inside, else_inside;
  const program::Tensor* tensor = nullptr;
  const program::Transfer* transfer = nullptr;
  Shape shape, owner;   ///< shapes of an alias and its owner, if their axes differ
  bool recast = false;  ///< the alias has another type than its owner
  bool store = false, indirect = false;
  TensorUse* use = nullptr;
  struct Dim {
    CompiledExpr extent, step;
    int axis;
  };
  std::vector<CompiledExpr> at;
  std::vector<Dim> dims;
  std::vector<CompiledExpr> cores;  ///< destinations of a send
  double element = 0;               ///< bytes per element of a send
};

}  // namespace

struct Traffic::Walk {
  Walk(const Traffic& given, bool with_regions) : traffic(given), regions(with_regions) {
    for (const char* name : {"core", "context", ""}) names.push_back(name);
    environment.resize(names.size());
    for (const auto& [name, value] : traffic.program_.parameters) {
      names.push_back(name);
      environment.resize(names.size());
      environment.back() = value;
    }
    environment.resize(names.size());
  }

  int symbol(const std::string& name) {
    for (std::size_t i = names.size(); i-- > 0;)
      if (names[i] == name) {
        used.insert(static_cast<int>(i));
        return static_cast<int>(i);
      }
    if (regions) throw TrafficUnknown{};
    return nameless;  // a function's parameter, on which no size depends
  }

  CompiledExpr compile(const Expr& expr) {
    if (expr.reads_tensors()) throw TrafficUnknown{};
    return CompiledExpr(expr, [this](const std::string& name) { return symbol(name); });
  }

  std::vector<TrafficStep> steps(const program::Block& block) {
    std::vector<TrafficStep> list;
    for (const program::Statement& statement : block) {
      TrafficStep step;
      if (const auto* loop = std::get_if<program::For>(&statement.action)) {
        step.kind = TrafficStep::Kind::loop;
        step.expr = compile(loop->extent);
        step.index = static_cast<int>(names.size());
        names.push_back(loop->index);
        environment.resize(std::max(environment.size(), names.size()));
        step.inside = steps(loop->body);
        step.used = used.count(step.index) > 0;
        names.pop_back();
        used.erase(step.index);
      } else if (const auto* branch = std::get_if<program::If>(&statement.action)) {
        step.kind = TrafficStep::Kind::branch;
        step.expr = compile(branch->condition);
        const auto& [condition, yes, no] = *branch;
        step.inside = steps(yes);
        step.else_inside = steps(no);
      } else if (const auto* scope = std::get_if<program::Scope>(&statement.action)) {
        for (const program::Slot& slot : scope->slots) slot_bytes[slot.name] = bits(slot.dtype) / 8.0;
        std::vector<TrafficStep> own = steps(scope->body);
        std::move(own.begin(), own.end(), std::back_inserter(list));
        continue;
      } else if (const auto* send = std::get_if<program::Send>(&statement.action); send && regions) {
        step.kind = TrafficStep::Kind::send;
        step.element = slot_bytes.at(send->from.slot);
        for (const program::Dim& dim : send->from.dims) step.dims.push_back({compile(dim.extent), {}, -1});
        for (const Expr& core : send->cores) step.cores.push_back(compile(core));
        list.push_back(std::move(step));
        continue;
      } else if (!transfer(statement, step)) {
        continue;
      }
      if (step.kind == TrafficStep::Kind::transfer || !step.inside.empty() || !step.else_inside.empty())
        list.push_back(std::move(step));
    }
    return list;
  }

  bool transfer(const program::Statement& statement, TrafficStep& step) {
    const auto* load = std::get_if<program::Load>(&statement.action);
    const auto* store = std::get_if<program::Store>(&statement.action);
    if (!load && !store) {
      if (std::holds_alternative<program::Call>(statement.action)) throw TrafficUnknown{};
      return false;
    }
    step.transfer = load ? &load->transfer : &store->transfer;
    step.store = store != nullptr;
    const auto tensor = traffic.tensors_.find(step.transfer->tensor);
    if (tensor == traffic.tensors_.end()) return false;  // a formal name bound to no value of this body
    step.tensor = tensor->second;
    if (regions) find_owner(step);
    step.use = &uses[step.transfer->tensor];
    for (const program::TransferDim& dim : step.transfer->dims) step.indirect |= !dim.through.empty();
    for (const Expr& at : step.transfer->at)
      step.at.push_back(at.reads_tensors() && !regions ? CompiledExpr() : compile(at));
    for (const program::TransferDim& dim : step.transfer->dims)
      step.dims.push_back({compile(dim.extent), compile(dim.step), dim.axis});
    return true;
  }

  void find_owner(TrafficStep& step) const {
    const program::Tensor* owner = step.tensor;
    for (auto found = traffic.tensors_.end(); !owner->alias_of.empty(); owner = found->second)
      if (found = traffic.tensors_.find(owner->alias_of); found == traffic.tensors_.end()) return;
    step.recast = owner->dtype != step.tensor->dtype;
    if (owner == step.tensor || owner->shape == step.tensor->shape) return;
    const auto constant = [](const std::vector<Expr>& extents) {
      Shape shape;
      for (const Expr& extent : extents) shape.push_back(extent.is_constant() ? extent.value() : 0);
      return shape;
    };
    step.shape = constant(step.tensor->shape);
    step.owner = constant(owner->shape);
    step.recast |= element_count(step.shape) == 0;
  }

  void run(const std::vector<TrafficStep>& list, double weight) {
    for (const TrafficStep& step : list) {
      if (step.kind == TrafficStep::Kind::transfer) {
        move(step, weight);
      } else if (step.kind == TrafficStep::Kind::send) {
        send(step, weight);
      } else if (step.kind == TrafficStep::Kind::branch) {
        run(step.expr(environment.data()) != 0 ? step.inside : step.else_inside, weight);
      } else {
        const std::int64_t trips = step.expr(environment.data());
        if (!step.used && trips > 0) {
          run(step.inside, weight * static_cast<double>(trips));
          continue;
        }
        for (std::int64_t i = 0; i < trips; ++i) {
          environment[at(step.index)] = i;
          run(step.inside, weight);
        }
      }
    }
  }

  void move(const TrafficStep& step, double weight) {
    if (++moved > most_transfers) throw TrafficUnknown{};
    worked(64);
    Region& region = here;  // reuses its storage
    bool apart = step.indirect;
    region.low.clear();
    for (const CompiledExpr& start : step.at) region.low.push_back(start(environment.data()));
    region.high = region.low;
    for (const TrafficStep::Dim& dim : step.dims) {
      const std::int64_t extent = dim.extent(environment.data()), by = dim.step(environment.data());
      if (extent <= 0) return;
      if (dim.axis < 0) continue;
      apart |= extent > 1 && std::abs(by) > 1;
      auto& ends = by >= 0 ? region.high : region.low;
      ends[at(dim.axis)] += by * (extent - 1);
    }
    double padded = 1, elements = 1;
    for (std::size_t axis = 0; axis < step.at.size(); ++axis) {
      const std::int64_t size = step.tensor->shape[axis].is_constant() ? step.tensor->shape[axis].value() : 1;
      region.low[axis] = std::max<std::int64_t>(region.low[axis], 0);
      region.high[axis] = std::min(region.high[axis], size - 1);
      if (region.high[axis] < region.low[axis]) return;
      const std::int64_t count = region.high[axis] - region.low[axis] + 1;
      elements *= static_cast<double>(count);
      padded *= static_cast<double>(with_padding(*step.tensor, axis, region, count, size));
    }
    TensorUse& use = *step.use;
    (step.store ? use.stored : use.loaded) += weight * padded * static_cast<double>(bits(step.tensor->dtype)) / 8;
    use.elements += weight * elements;
    if (!regions || step.tensor->role != program::Role::temporary) return;
    use.regions &= !step.recast;
    if (step.owner.empty() || step.recast) return note(use, step.store, apart, region, weight);
    const program::Reshaped owned = program::reshaped(region, step.shape, step.owner);
    note(use, step.store, apart || !owned.exact, owned.box, weight);
  }

  /// Counts the bytes once at the sending core's port and once at each other receiving core's port.
  void send(const TrafficStep& step, double weight) {
    double bytes = weight * step.element;
    for (const TrafficStep::Dim& dim : step.dims) bytes *= static_cast<double>(dim.extent(environment.data()));
    uses.sent.resize(streams);
    uses.sent[stream] += bytes;
    const std::size_t contexts = at(traffic.program_.contexts), own = stream / contexts;
    for (const CompiledExpr& core : step.cores)
      if (const std::size_t other = at(core(environment.data())); other != own && other * contexts < streams)
        uses.sent[other * contexts] += bytes;
  }

  static std::int64_t with_padding(const program::Tensor& tensor, std::size_t axis, const Region& region,
                                   std::int64_t count, std::int64_t size) {
    const std::size_t rank = tensor.shape.size();
    if (tensor.tile.size() != 2 || rank < 2) return count;
    const auto minor = [&](std::size_t i) {
      return tensor.minor_to_major.empty() ? rank - 1 - i : at(tensor.minor_to_major[i]);
    };
    if (axis == minor(0)) return round_up(count, tensor.tile[1]);
    if (axis == minor(1) && region.low[axis] % tensor.tile[0] == 0 && region.high[axis] == size - 1)
      return round_up(count, tensor.tile[0]);
    return count;
  }

  void note(TensorUse& use, bool store, bool apart, const Region& region, double weight) const {
    use.cores.resize(streams);
    CoreUse& own = use.cores[stream];
    if (store) {
      use.regions &= !apart;
      own.stored.push_back(region);
      return;
    }
    if (own.steps.size() < most_steps_seen) own.steps.push_back({region, weight});
    if (!own.loaded) {
      own.loaded = region;
      return;
    }
    for (std::size_t axis = 0; axis < region.low.size(); ++axis) {
      own.loaded->low[axis] = std::min(own.loaded->low[axis], region.low[axis]);
      own.loaded->high[axis] = std::max(own.loaded->high[axis], region.high[axis]);
    }
  }

  static constexpr int nameless = 2;  ///< symbol that stands for unknown names
  const Traffic& traffic;
  bool regions;
  std::vector<std::string> names;
  std::vector<std::int64_t> environment;
  std::set<int> used;
  KernelTraffic uses;
  std::map<std::string, double> slot_bytes;  ///< bytes per element, by slot
  Region here;
  std::int64_t moved = 0;
  std::size_t stream = 0, streams = 1;
};

Traffic::Traffic(const program::Program& program) : program_(program) {
  for (const program::Tensor& tensor : program.tensors) tensors_[tensor.name] = &tensor;
  // All tensors that calls bind to a formal name have the same layout.
  const auto bind = [&](const program::Statement& statement) {
    if (const auto* call = std::get_if<program::Call>(&statement.action))
      for (const auto& [formal, actual] : call->tensors)
        if (const auto found = tensors_.find(actual); found != tensors_.end()) tensors_.emplace(formal, found->second);
  };
  program::for_each(program.body, bind);
  for (auto function = program.functions.rbegin(); function != program.functions.rend(); ++function)
    program::for_each(function->body, bind);
}

KernelUse Traffic::use_of(const program::Scope& kernel, bool regions) const {
  Walk walk(*this, regions);
  for (const program::Slot& slot : kernel.slots) walk.slot_bytes[slot.name] = bits(slot.dtype) / 8.0;
  try {
    const std::vector<TrafficStep> steps = walk.steps(kernel.body);
    walk.streams = at(program_.cores * program_.contexts);
    for (std::int64_t core = 0; core < program_.cores; ++core)
      for (std::int64_t context = 0; context < program_.contexts; ++context) {
        walk.environment[0] = core;
        walk.environment[1] = context;
        walk.stream = at(core * program_.contexts + context);
        walk.run(steps, 1);
      }
  } catch (const TrafficUnknown&) {
    return std::nullopt;
  }
  if (regions)
    for (auto& [tensor, use] : walk.uses) use.cores.resize(walk.streams);
  return std::move(walk.uses);
}

double volume(const Region& region) {
  double elements = 1;
  for (std::size_t axis = 0; axis < region.low.size(); ++axis)
    elements *= static_cast<double>(region.high[axis] - region.low[axis] + 1);
  return elements;
}

bool contains(const Region& outer, const Region& inner) {
  for (std::size_t axis = 0; axis < outer.low.size(); ++axis)
    if (inner.low[axis] < outer.low[axis] || inner.high[axis] > outer.high[axis]) return false;
  return true;
}

bool meet(const Region& a, const Region& b) {
  for (std::size_t axis = 0; axis < a.low.size(); ++axis)
    if (a.low[axis] > b.high[axis] || b.low[axis] > a.high[axis]) return false;
  return true;
}

/// Cuts the bounding box into a grid at all region ends; the regions join if each cell is inside one.
std::optional<Region> joined(const std::vector<Region>& regions) {
  if (regions.empty()) return std::nullopt;
  Region whole = regions[0];
  const std::size_t rank = whole.low.size();
  std::vector<std::vector<std::int64_t>> cuts(rank);
  for (const Region& region : regions)
    for (std::size_t axis = 0; axis < rank; ++axis) {
      whole.low[axis] = std::min(whole.low[axis], region.low[axis]);
      whole.high[axis] = std::max(whole.high[axis], region.high[axis]);
      cuts[axis].push_back(region.low[axis]);
      cuts[axis].push_back(region.high[axis] + 1);
    }
  std::vector<std::size_t> strides(rank, 1);
  std::size_t cells = 1;
  for (std::size_t axis = rank; axis-- > 0;) {
    std::sort(cuts[axis].begin(), cuts[axis].end());
    cuts[axis].erase(std::unique(cuts[axis].begin(), cuts[axis].end()), cuts[axis].end());
    strides[axis] = cells;
    cells *= cuts[axis].size() - 1;
    if (cells > most_cells) return std::nullopt;
  }
  std::vector<bool> covered(cells, false);
  for (const Region& region : regions) {
    std::vector<std::size_t> first(rank), last(rank);
    for (std::size_t axis = 0; axis < rank; ++axis) {
      const auto place = [&](std::int64_t cut) {
        return static_cast<std::size_t>(std::lower_bound(cuts[axis].begin(), cuts[axis].end(), cut) -
                                        cuts[axis].begin());
      };
      first[axis] = place(region.low[axis]);
      last[axis] = place(region.high[axis] + 1);
    }
    std::vector<std::size_t> here = first;
    while (true) {
      std::size_t cell = 0;
      for (std::size_t axis = 0; axis < rank; ++axis) cell += here[axis] * strides[axis];
      covered[cell] = true;
      std::size_t axis = rank;
      while (axis-- > 0) {
        if (++here[axis] < last[axis]) break;
        here[axis] = first[axis];
      }
      if (axis == static_cast<std::size_t>(-1)) break;
    }
  }
  const bool full = std::find(covered.begin(), covered.end(), false) == covered.end();
  return full ? std::optional(whole) : std::nullopt;
}

}  // namespace tilesim::lower
