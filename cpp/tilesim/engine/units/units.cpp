#include "tilesim/engine/units/units.hpp"

#include <algorithm>

#include "tilesim/base/index.hpp"

namespace tilesim::engine {

namespace {

bool begins(const std::string& text, const std::string& stem) { return text.compare(0, stem.size(), stem) == 0; }

std::int64_t number_in(const std::string& digits) {
  const bool number =
      !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos && digits.size() < 6;
  return number ? std::stoll(digits) : -1;
}

UnitSort sort_of(const std::string& queue) {
  UnitSort sort{queue, queue, UnitKind::other, KernelTime::none, 0, 0};
  if (begins(queue, "load")) {
    sort.kind = UnitKind::load;
    sort.number = number_in(queue.substr(4));
  } else if (begins(queue, "store")) {
    sort.kind = UnitKind::store;
    sort.number = number_in(queue.substr(5));
  } else if (begins(queue, "mma")) {
    sort.kind = UnitKind::array;
    sort.name = "array" + queue.substr(3);
    sort.number = number_in(queue.substr(3));
  } else if (queue == "vector") {
    sort.kind = UnitKind::vector;
    sort.counts_as = KernelTime::vector;
  } else if (queue == "cross_lane") {
    sort.kind = UnitKind::cross_lane;
  } else if (queue == "send") {
    sort.kind = UnitKind::send;
  }
  if (sort.name == "array0") sort.counts_as = KernelTime::array;
  return sort;
}

}  // namespace

const char* name(UnitKind kind) {
  constexpr const char* names[] = {"load", "store", "array", "vector", "cross_lane", "send", "other"};
  return names[static_cast<std::size_t>(kind)];
}

std::int32_t Units::sort(const std::string& queue) {
  const auto [found, fresh] = sort_of_.try_emplace(queue, static_cast<std::int32_t>(sorts_.size()));
  if (fresh) {
    sorts_.push_back(sort_of(queue));
    sorts_.back().first = first_of_.try_emplace(sorts_.back().name, found->second).first->second;
  }
  return found->second;
}

std::int32_t Units::find(std::int64_t core, std::int32_t sort) {
  if (of_cores_.size() <= at(core)) of_cores_.resize(at(core) + 1);
  std::vector<std::int32_t>& own = of_cores_[at(core)];
  const std::int32_t first = named(sort).first;
  if (own.size() <= at(first)) own.resize(sorts_.size(), -1);
  std::int32_t& unit = own[at(first)];
  if (unit < 0) {
    unit = static_cast<std::int32_t>(units_.size());
    Unit& fresh = units_.emplace_back();
    fresh.sort = sort;
    fresh.kind = named(sort).kind;
    fresh.counts_as = named(sort).counts_as;
    fresh.core = core;
  }
  return unit;
}

std::int64_t Units::pass(std::int64_t core, std::int64_t begin, std::int64_t end) {
  if (passing_.size() <= at(core)) passing_.resize(at(core) + 1);
  Passing& passing = passing_[at(core)];
  const std::int64_t fresh = std::max<std::int64_t>(0, end - std::max(begin, passing.until));
  passing.until = std::max(passing.until, end);
  passing.busy += fresh;
  return fresh;
}

std::int64_t Units::longest_passing() const {
  std::int64_t longest = 0;
  for (const Passing& passing : passing_) longest = std::max(longest, passing.busy);
  return longest;
}

std::string Units::name(const Unit& unit) const {
  return "core" + std::to_string(unit.core) + "." + named(unit.sort).name;
}

}  // namespace tilesim::engine
