#include "tilesim/compile/groups/order.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "tilesim/compile/plan/in_place.hpp"

namespace tilesim::lower {

namespace {

using OrderedKernels = std::vector<std::size_t>;  ///< kernel numbers

/// Dependences between kernels with the bytes of their values.
class KernelOrder {
 public:
  KernelOrder(const std::vector<Kernel>& kernels, const Context& context, const Uses& uses, const Views& views)
      : kernels_(kernels), before_(kernels.size()), behind_(kernels.size()), made_(kernels.size()) {
    const GroupPrice price(context, uses);
    std::map<ValueId, std::size_t> maker;
    for (std::size_t k = 0; k < kernels.size(); ++k)
      for (ValueId value : kernels[k].outputs) {
        const ValueId source = views.source(context.function, uses, value);
        maker[source] = values_.size();
        made_[k].push_back(values_.size());
        values_.push_back({k, price.bytes(source), uses.is_output[static_cast<std::size_t>(source)], {}});
      }
    for (std::size_t k = 0; k < kernels.size(); ++k)
      for (ValueId value : kernels[k].inputs) {
        const auto found = maker.find(views.source(context.function, uses, value));
        if (found == maker.end() || values_[found->second].maker == k) continue;
        Value& read = values_[found->second];
        read.readers.insert(k);
        before_[k].insert(found->second);
        behind_[read.maker].insert(k);
      }
  }

  /// Peak bytes of live values over the kernels; outputs live to the end.
  double peak(const OrderedKernels& order) const {
    std::vector<std::size_t> left = readers();
    double live = 0, most = 0;
    for (std::size_t k : order) {
      for (std::size_t value : made_[k]) live += values_[value].bytes;
      most = std::max(most, live);
      live -= freed(k, left);
    }
    return most;
  }

  /// Order that always picks, among the first 16 ready kernels, the one that leaves the fewest live bytes.
  OrderedKernels greedy() const {
    constexpr std::size_t most_asked = 16;
    std::vector<std::size_t> left = readers(), waits(kernels_.size(), 0);
    for (std::size_t k = 0; k < kernels_.size(); ++k)
      for (std::size_t reader : behind_[k]) ++waits[reader];
    std::set<std::size_t> ready;
    for (std::size_t k = 0; k < kernels_.size(); ++k)
      if (waits[k] == 0) ready.insert(k);
    OrderedKernels order;
    while (!ready.empty()) {
      std::size_t best = *ready.begin(), asked = 0;
      double least = grown(best, left);
      for (auto k = ready.begin(); k != ready.end() && asked < most_asked; ++k, ++asked)
        if (const double more = grown(*k, left); more < least) best = *k, least = more;
      ready.erase(best);
      order.push_back(best);
      freed(best, left);
      for (std::size_t reader : behind_[best])
        if (--waits[reader] == 0) ready.insert(reader);
    }
    return order;
  }

  /// Depth-first order: each kernel directly after its producers, sorted by needed minus remaining bytes, descending.
  OrderedKernels depth_first() const {
    std::vector<double> needs(kernels_.size(), 0);
    std::vector<OrderedKernels> first(kernels_.size());
    for (std::size_t k = 0; k < kernels_.size(); ++k) {
      std::set<std::size_t> makers;
      for (std::size_t value : before_[k]) makers.insert(values_[value].maker);
      first[k].assign(makers.begin(), makers.end());
      std::ranges::stable_sort(first[k], std::greater(),
                               [&](std::size_t maker) { return needs[maker] - left_by(maker); });
      double held = 0;
      for (std::size_t maker : first[k]) {
        needs[k] = std::max(needs[k], held + needs[maker]);
        held += left_by(maker);
      }
      needs[k] = std::max(needs[k], held + left_by(k));
    }
    OrderedKernels order;
    std::vector<bool> seen(kernels_.size(), false);
    std::vector<std::pair<std::size_t, std::size_t>> pending;  // a kernel, and the number of its producers visited
    for (std::size_t last = 0; last < kernels_.size(); ++last) {
      if (!behind_[last].empty() || seen[last]) continue;
      seen[last] = true;
      pending.emplace_back(last, 0);
      while (!pending.empty()) {
        auto& [k, next] = pending.back();
        if (next == first[k].size()) {
          order.push_back(k);
          pending.pop_back();
        } else if (const std::size_t maker = first[k][next++]; !seen[maker]) {
          seen[maker] = true;
          pending.emplace_back(maker, 0);
        }
      }
    }
    return order;
  }

 private:
  struct Value {
    std::size_t maker;
    double bytes;
    bool returned;
    std::set<std::size_t> readers;
  };

  std::vector<std::size_t> readers() const {
    std::vector<std::size_t> left;
    for (const Value& value : values_) left.push_back(value.readers.size());
    return left;
  }

  double left_by(std::size_t kernel) const {
    double bytes = 0;
    for (std::size_t value : made_[kernel]) bytes += values_[value].bytes;
    return bytes;
  }

  /// Bytes of values that die after the kernel: those it reads last, and its results without readers. Updates `left`.
  double freed(std::size_t kernel, std::vector<std::size_t>& left) const {
    double bytes = 0;
    for (std::size_t value : before_[kernel])
      if (--left[value] == 0 && !values_[value].returned) bytes += values_[value].bytes;
    for (std::size_t value : made_[kernel])
      if (left[value] == 0 && !values_[value].returned) bytes += values_[value].bytes;
    return bytes;
  }

  double grown(std::size_t kernel, const std::vector<std::size_t>& left) const {
    double bytes = left_by(kernel);
    for (std::size_t value : before_[kernel])
      if (left[value] == 1 && !values_[value].returned) bytes -= values_[value].bytes;
    return bytes;
  }

  const std::vector<Kernel>& kernels_;
  std::vector<Value> values_;
  std::vector<std::set<std::size_t>> before_;  ///< by kernel: values that it reads
  std::vector<std::set<std::size_t>> behind_;  ///< by kernel: kernels that read its results
  std::vector<std::vector<std::size_t>> made_;
};

bool overwrites(const GraphFunction& function) {
  if (!function.aliases.empty()) return true;
  return std::ranges::any_of(function.ops, [](const Op& op) {
    return std::ranges::any_of(op.results, [&](ValueId result) { return old_value(op, result) != no_value; });
  });
}

}  // namespace

std::vector<Kernel> ordered_for_peak(std::vector<Kernel> kernels, const Context& context, const Uses& uses,
                                     const Views& views) {
  constexpr double worth = 0.99;  // a smaller gain does not change the order of the graph
  if (kernels.size() < 3 || overwrites(context.function)) return kernels;
  const KernelOrder sizes(kernels, context, uses, views);
  OrderedKernels best(kernels.size());
  std::iota(best.begin(), best.end(), 0);
  double least = worth * sizes.peak(best);
  bool changed = false;
  for (OrderedKernels& order : std::vector<OrderedKernels>{sizes.greedy(), sizes.depth_first()})
    if (const double peak = sizes.peak(order); order.size() == kernels.size() && peak < least)
      least = peak, best = std::move(order), changed = true;
  if (!changed) return kernels;
  std::vector<Kernel> result;
  for (std::size_t k : best) result.push_back(std::move(kernels[k]));
  return result;
}

}  // namespace tilesim::lower
