// Resolves the names of a program in the current scope.
#include <algorithm>
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/program/flat/flatten.hpp"
#include "tilesim/program/limits.hpp"

namespace tilesim::program {

namespace {

[[noreturn]] void unknown(const char* what, const std::string& name, const std::vector<std::string>& known,
                          const std::string& place) {
  throw UserError({std::string("Unknown ") + what + ".", place, "'" + name + "'", join(known), nearest(name, known)});
}

template <class Map>
std::vector<std::string> keys(const Map& map) {
  std::vector<std::string> names;
  for (const auto& [key, value] : map) names.push_back(key);
  return names;
}

std::vector<std::string> declared(const std::map<std::string, std::vector<int>>& stacks) {
  std::vector<std::string> names;
  for (const auto& [key, stack] : stacks) {
    if (!stack.empty()) names.push_back(key);
  }
  return names;
}

}  // namespace

int Flattener::declare(const std::string& name) {
  symbols_[name].push_back(next_symbol_);
  return next_symbol_++;
}

int Flattener::symbol(const std::string& name) const {
  const auto found = symbols_.find(name);
  if (found == symbols_.end() || found->second.empty()) unknown("symbol", name, declared(symbols_), place_);
  return found->second.back();
}

int Flattener::tensor(const std::string& name) const {
  if (const auto formal = formal_ids_.find(name); formal != formal_ids_.end()) return formal->second;
  const auto found = tensor_ids_.find(name);
  if (found == tensor_ids_.end()) unknown("tensor", name, keys(tensor_ids_), place_);
  return found->second;
}

int Flattener::queue(const std::string& name) {
  std::vector<std::string>& queues = compiled_.queues;
  const auto found = std::find(queues.begin(), queues.end(), name);
  if (found != queues.end()) return static_cast<int>(found - queues.begin());
  if (queues.size() >= most_queues)
    throw UserError({"Too many queues.", place_, "'" + name + "'", "at most " + std::to_string(most_queues), {}});
  queues.push_back(name);
  return static_cast<int>(queues.size()) - 1;
}

int Flattener::slot(const std::string& name) const {
  const auto found = slots_.find(name);
  if (found == slots_.end() || found->second.empty()) unknown("slot", name, declared(slots_), place_);
  return found->second.back();
}

int Flattener::any_counter(const std::string& name) const {
  const auto found = counter_ids_.find(name);
  if (found != counter_ids_.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [counter, size] : compiled_.counters) known.push_back(counter);
  unknown("counter", name, known, place_);
}

int Flattener::counter(const std::string& name, bool semaphore) const {
  const int id = any_counter(name);
  if (program_.counters[static_cast<std::size_t>(id)].semaphore != semaphore) {
    throw UserError({semaphore ? "A 'signal' needs a semaphore." : "A store signals a counter, not a semaphore.",
                     place_,
                     "'" + name + "'",
                     {},
                     {}});
  }
  return id;
}

void Flattener::declare_tensors() {
  for (const Tensor& tensor : program_.tensors) declare_tensor(tensor);
}

void Flattener::declare_tensor(const Tensor& t) {
  const auto lookup = [this, &t](const std::string& name) -> std::int64_t {
    const auto found = program_.parameters.find(name);
    if (found == program_.parameters.end()) {
      unknown("parameter", name, keys(program_.parameters), "shape of tensor " + t.name);
    }
    return found->second;
  };
  CompiledTensor compiled{t.name, t.dtype, {}, {}, static_cast<int>(compiled_.tensors.size()), &t};
  for (const Expr& extent : t.shape) {
    compiled.shape.push_back(extent.evaluate(lookup));
    if (compiled.shape.back() < 0) {
      throw UserError({"A tensor has a negative extent.", t.name, to_string(compiled.shape), {}, {}});
    }
  }
  element_count(compiled.shape);
  compiled.strides = row_major_strides(compiled.shape);
  if (!tensor_ids_.emplace(t.name, compiled.storage).second) {
    throw UserError({"Two tensors have the same name.", {}, "'" + t.name + "'", {}, {}});
  }
  if (!t.alias_of.empty()) {
    const auto base = tensor_ids_.find(t.alias_of);
    if (base == tensor_ids_.end() || t.alias_of == t.name) {
      throw UserError(
          {"An alias names no earlier tensor.", t.name, "'" + t.alias_of + "'", join(keys(tensor_ids_)), {}});
    }
    const CompiledTensor& owner = compiled_.tensors[static_cast<std::size_t>(base->second)];
    if (packed_bytes(owner.dtype, element_count(owner.shape)) != packed_bytes(t.dtype, element_count(compiled.shape))) {
      throw UserError({"An alias has another size than its tensor.",
                       t.name,
                       std::string(name(t.dtype)) + to_string(compiled.shape),
                       std::string(name(owner.dtype)) + to_string(owner.shape),
                       {}});
    }
    compiled.storage = owner.storage;
  }
  compiled_.tensors.push_back(std::move(compiled));
}

void Flattener::add_slot(const Slot& s, int scope) {
  if (s.elements < 1 || s.depth < 1 || s.address < 0) {
    throw UserError({"A slot needs elements >= 1, depth >= 1 and an address >= 0.", s.name, {}, {}, {}});
  }
  CompiledSlot compiled{s.name,  s.dtype,   s.elements,    round_up(packed_bytes(s.dtype, s.elements), 64),
                        s.depth, s.address, s.accumulator, 0,
                        0,       scope};
  place_ = "slot " + s.name;
  for (const std::string& consumer : s.consumers) compiled.consumers |= 1U << queue(consumer);
  compiled.consumer_count = std::popcount(compiled.consumers);
  if (compiled.consumer_count == 0) {
    throw UserError({"A slot has no consumer queue, so its buffers would never be freed.", s.name, {}, {}, {}});
  }
  slots_[s.name].push_back(static_cast<int>(compiled_.slots.size()));
  compiled_.slots.push_back(std::move(compiled));
}

CompiledExpr Flattener::compile(const Expr& e) const {
  return CompiledExpr(
      e, [this](const std::string& name) { return symbol(name); },
      [this](const std::string& name) {
        compiled_.reads_tensors = true;
        return tensor(name);
      });
}

std::vector<CompiledExpr> Flattener::compile(const std::vector<Expr>& list) const {
  std::vector<CompiledExpr> result;
  for (const Expr& e : list) result.push_back(compile(e));
  return result;
}

CompiledView Flattener::view(const View& v) const {
  CompiledView result{slot(v.slot), static_cast<std::int32_t>(v.back), compile(v.offset), {}};
  if (v.back < 0 || v.back >= compiled_.slots[static_cast<std::size_t>(result.slot)].depth) {
    throw UserError({"A view reaches further back than its slot's ring.",
                     place_ + ", slot " + v.slot,
                     "back " + std::to_string(v.back),
                     "0 to " + std::to_string(compiled_.slots[static_cast<std::size_t>(result.slot)].depth - 1),
                     {}});
  }
  for (const Dim& d : v.dims) result.dims.emplace_back(compile(d.extent), compile(d.stride));
  return result;
}

CompiledTransfer Flattener::transfer(const Transfer& t) const {
  CompiledTransfer result;
  result.tensor = tensor(t.tensor);
  result.at = compile(t.at);
  if (result.tensor < static_cast<int>(compiled_.tensors.size())) {
    const std::size_t rank = compiled_.tensors[static_cast<std::size_t>(result.tensor)].shape.size();
    if (rank != t.at.size()) {
      throw UserError({"A transfer names the wrong number of axes.",
                       place_ + ", tensor " + t.tensor,
                       std::to_string(t.at.size()),
                       std::to_string(rank),
                       {}});
    }
  }
  for (const TransferDim& d : t.dims) {
    if (d.axis >= static_cast<int>(t.at.size())) {
      throw UserError({"A transfer's dim names an unknown axis of its tensor.",
                       place_ + ", tensor " + t.tensor,
                       std::to_string(d.axis),
                       "below " + std::to_string(t.at.size()),
                       {}});
    }
    CompiledTransferDim dim{compile(d.extent), compile(d.step), compile(d.stride), d.axis, -1, {}};
    if (!d.through.empty()) {
      if (d.axis < 0) throw UserError({"An indirect dim needs an axis.", place_ + ", tensor " + t.tensor, {}, {}, {}});
      dim.through = tensor(d.through);
      dim.through_at = compile(d.through_at);
    }
    result.dims.push_back(std::move(dim));
  }
  const View target{t.slot, t.back, t.offset, {}};
  const CompiledView resolved = view(target);
  result.slot = resolved.slot;
  result.back = resolved.back;
  result.offset = resolved.offset;
  result.has_fill = t.fill.has_value();
  result.fill = t.fill.value_or(0);
  return result;
}

}  // namespace tilesim::program
