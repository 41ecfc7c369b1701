#include "tilesim/program/memory_plan.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "tilesim/base/index.hpp"
#include "tilesim/base/interrupt.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/program/count.hpp"
#include "tilesim/program/memory_lifetimes.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::program {

namespace {

/// A tensor with separate bytes, and the spans of kernels in which it occupies them.
struct Item {
  const Tensor* tensor = nullptr;
  std::int64_t bytes = 0, address = -1;
  std::vector<Lifetime> spans;  ///< in order, disjoint
};

bool meet(const std::vector<Lifetime>& a, const std::vector<Lifetime>& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (a[i].first <= b[j].last && b[j].first <= a[i].last) return true;
    (a[i].last < b[j].last ? i : j) += 1;
  }
  return false;
}

/// Extends spans to the last kernel before another tensor may use the bytes; merges spans that overlap.
std::vector<Lifetime> taken(const std::vector<Lifetime>& used, const std::vector<std::int64_t>& complete) {
  std::vector<Lifetime> spans;
  for (Lifetime span : used) {
    const auto free = std::upper_bound(complete.begin() + span.last, complete.end(), span.last);
    span.last = std::max(span.last, (free - complete.begin()) - 1);
    if (!spans.empty() && span.first <= spans.back().last)
      spans.back().last = std::max(spans.back().last, span.last);
    else
      spans.push_back(span);
  }
  return spans;
}

/// Start of the smallest sufficient gap between items with overlapping lifetimes.
std::int64_t best_fit(const Item& item, const std::vector<const Item*>& placed) {
  std::vector<std::pair<std::int64_t, std::int64_t>> used;
  for (const Item* other : placed)
    if (meet(item.spans, other->spans)) used.emplace_back(other->address, other->address + other->bytes);
  std::sort(used.begin(), used.end());
  std::int64_t end = 0, best = -1, smallest = std::numeric_limits<std::int64_t>::max();
  for (const auto& [low, high] : used) {
    if (low - end >= item.bytes && low - end < smallest) best = end, smallest = low - end;
    end = std::max(end, high);
  }
  return best >= 0 ? best : end;
}

/// Bytes that the items occupy if they are placed in this order.
std::int64_t place(std::vector<Item>& items, const std::vector<std::size_t>& order) {
  std::vector<const Item*> placed;
  std::int64_t end = 0;
  for (const std::size_t i : order) {
    worked(1024);
    Item& item = items[i];
    item.address = best_fit(item, placed);
    end = std::max(end, item.address + item.bytes);
    placed.push_back(&item);
  }
  return end;
}

/// Places items by size, by size times lifetime, or in the given order, whichever occupies the fewest bytes.
std::int64_t place_best(std::vector<Item>& items) {
  const auto length = [](const Item& item) {
    std::int64_t kernels = 0;
    for (const Lifetime& span : item.spans) kernels += span.last - span.first + 1;
    return static_cast<double>(kernels);
  };
  const auto size = [](const Item& item) { return static_cast<double>(item.bytes); };
  const auto sorted = [&](const auto& key) {
    std::vector<std::size_t> order(items.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return key(items[a]) > key(items[b]); });
    return order;
  };
  std::vector<std::size_t> best;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  for (const auto& order :
       {sorted(size), sorted([&](const Item& item) { return size(item) * length(item); }),
        sorted([](const Item& item) { return -static_cast<double>(item.spans[0].first); }), sorted(length)})
    if (const std::int64_t end = place(items, order); end < least) least = end, best = order;
  return place(items, best);
}

std::int64_t largest_live(const std::vector<Item>& items, std::int64_t kernels) {
  std::vector<std::int64_t> change(at(kernels + 1), 0);
  for (const Item& item : items)
    for (const Lifetime& span : item.spans)
      change[at(span.first)] += item.bytes, change[at(span.last + 1)] -= item.bytes;
  std::int64_t live = 0, most = 0;
  for (const std::int64_t step : change) most = std::max(most, live += step);
  return most;
}

class MemoryPlanner {
 public:
  MemoryPlanner(const Program& program, std::int64_t granule)
      : program_(program), granule_(std::max<std::int64_t>(1, granule)), lifetimes_(lifetimes(program)) {
    plan_.shared = lifetimes_.known;
    plan_.kernels = std::max<std::int64_t>(1, plan_.shared ? std::ssize(lifetimes_.complete) : 1);
  }

  MemoryPlan run() {
    std::int64_t fixed = 0;
    for (const Tensor& tensor : program_.tensors) {
      if (!tensor.alias_of.empty()) continue;
      if (tensor.level == Level::scratchpad) {
        stays(tensor);
        continue;
      }
      Item item{&tensor, round_up(stored_bytes(tensor), granule_), 0, spans_of(tensor)};
      if (item.spans.empty() || item.bytes == 0) continue;
      const bool moves = tensor.role == Role::temporary || tensor.role == Role::output;
      if (!moves) item.address = fixed, fixed += item.bytes;
      (moves ? items_ : given_).push_back(std::move(item));
    }
    const std::int64_t end = items_.empty() ? 0 : place_best(items_);
    plan_.peak_bytes = fixed + end;
    plan_.live_bytes = fixed + largest_live(items_, plan_.kernels);
    for (Item& item : items_) item.address += fixed;
    for (const auto* list : {&given_, &items_})
      for (const Item& item : *list) add(item);
    add_aliases();
    find_scratchpad_peak();
    plan_.numbers = std::move(lifetimes_.numbers);
    return std::move(plan_);
  }

 private:
  std::vector<Lifetime> spans_of(const Tensor& tensor) const {
    const Lifetime throughout{0, plan_.kernels - 1};
    if (!plan_.shared || tensor.role == Role::input || tensor.role == Role::weight || tensor.role == Role::state)
      return {throughout};
    const auto found = lifetimes_.spans.find(tensor.name);
    const bool output = tensor.role == Role::output || outputs().count(tensor.name) > 0;
    if (found == lifetimes_.spans.end()) return output ? std::vector{throughout} : std::vector<Lifetime>{};
    if (output) return {{found->second.front().first, throughout.last}};
    return taken(found->second, lifetimes_.complete);
  }

  /// The tensors whose bytes outputs use.
  const std::map<std::string, bool>& outputs() const {
    if (!outputs_) {
      outputs_.emplace();
      for (const Tensor& tensor : program_.tensors)
        if (tensor.role == Role::output) (*outputs_)[lifetimes_.owners.at(tensor.name)] = true;
    }
    return *outputs_;
  }

  void stays(const Tensor& tensor) {
    const auto found = lifetimes_.spans.find(tensor.name);
    if (found == lifetimes_.spans.end()) return;
    for (const Lifetime& span : found->second)
      plan_.allocations.push_back(
          {&tensor, tensor.address, tensor.core_bytes, span.first, span.last, {}, tensor.level});
    staying_[tensor.name] = &tensor;
    bounds_[tensor.name] = {tensor.address, {found->second.front().first, found->second.back().last}};
  }

  /// Scratchpad bytes of slots; `held` adds the slots of the nested scopes that need the most.
  static std::int64_t slot_bytes(const std::vector<Slot>& slots) {
    std::int64_t bytes = 0;
    for (const Slot& slot : slots)
      if (!slot.accumulator) bytes += round_up(packed_bytes(slot.dtype, slot.elements), 64) * slot.depth;
    return bytes;
  }
  static std::int64_t held(const Scope& scope) {
    std::int64_t most = slot_bytes(scope.slots);
    for_each_knowing(scope.body, most, [&](const Statement& statement, std::int64_t around) {
      if (const auto* inner = std::get_if<Scope>(&statement.action)) around += slot_bytes(inner->slots);
      most = std::max(most, around);
      return inside(statement, around);
    });
    return most;
  }

  void find_scratchpad_peak() {
    std::vector<std::int64_t> change(at(plan_.kernels + 1), 0);
    for (const MemoryPlan::Allocation& place : plan_.allocations) {
      if (place.level != Level::scratchpad || !place.alias_of.empty()) continue;
      change[at(place.first)] += place.bytes;
      change[at(place.last + 1)] -= place.bytes;
    }
    const std::int64_t throughout = slot_bytes(program_.slots);
    std::map<const Scope*, std::int64_t> known;
    std::int64_t live = 0;
    for (std::int64_t kernel = 0; kernel < plan_.kernels; ++kernel) {
      plan_.scratchpad_live = std::max(plan_.scratchpad_live, live += change[at(kernel)]);
      const Scope* scope = kernel < std::ssize(lifetimes_.kernels) ? lifetimes_.kernels[at(kernel)] : nullptr;
      std::int64_t slots = 0;
      if (scope) {
        const auto [entry, fresh] = known.try_emplace(scope, 0);
        if (fresh) entry->second = held(*scope);
        slots = entry->second;
      }
      plan_.scratchpad_peak = std::max(plan_.scratchpad_peak, live + slots + throughout);
    }
  }

  void add(const Item& item) {
    bounds_[item.tensor->name] = {item.address, {item.spans.front().first, item.spans.back().last}};
    for (const Lifetime& span : item.spans)
      plan_.allocations.push_back(
          {item.tensor, item.address, stored_bytes(*item.tensor), span.first, span.last, {}, Level::memory});
  }

  void add_aliases() {
    for (const Tensor& tensor : program_.tensors) {
      if (tensor.alias_of.empty()) continue;
      const std::string& owner = lifetimes_.owners.at(tensor.name);
      const auto found = bounds_.find(owner);
      if (found == bounds_.end()) continue;
      const auto& [address, span] = found->second;
      const auto stays = staying_.find(owner);
      const bool on_chip = stays != staying_.end();
      plan_.allocations.push_back({&tensor, address, on_chip ? stays->second->core_bytes : stored_bytes(tensor),
                                   span.first, span.last, owner, on_chip ? Level::scratchpad : Level::memory});
    }
  }

  const Program& program_;
  std::int64_t granule_;
  Lifetimes lifetimes_;
  MemoryPlan plan_;
  std::vector<Item> given_, items_;
  std::map<std::string, std::pair<std::int64_t, Lifetime>> bounds_;
  std::map<std::string, const Tensor*> staying_;  ///< tensors in scratchpads
  mutable std::optional<std::map<std::string, bool>> outputs_;
};

}  // namespace

MemoryPlan plan_memory(const Program& program, std::int64_t granule) { return MemoryPlanner(program, granule).run(); }

}  // namespace tilesim::program
