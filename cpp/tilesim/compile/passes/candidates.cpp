#include "tilesim/compile/passes/candidates.hpp"

#include <algorithm>
#include <cmath>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/passes/residency.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

Candidates::Candidates(Lowering& lowering)
    : lowering_(lowering), several_(lowering.program.cores * lowering.program.contexts > 1) {
  find_owners();
  find_bodies();
  find_calls();
  for (std::size_t body = 0; body < bodies_.size(); ++body) read(body, *bodies_[body].block);
  follow_wish();
  make();
}

void Candidates::follow_wish() {
  std::vector<std::string> known;
  for (const auto& [name, seen] : seen_)
    if (!refused_.count(name)) known.push_back(name);
  std::map<std::string, std::string> named;  // names in the wish, by owner
  for (const auto& [name, level] : lowering_.wish.levels) {
    if (!tensors_.count(name))
      throw UserError({"residency names an unknown tensor",
                       {},
                       "'" + name + "'",
                       known.empty() ? "no tensor of this program can stay" : join(known),
                       nearest(name, known)});
    const std::string& bytes = owner(name);
    const auto [entry, fresh] = levels_.emplace(bytes, level);
    if (!fresh && entry->second != level)
      throw UserError({"residency splits an alias: both tensors share the same bytes",
                       "'" + named[bytes] + "' and '" + name + "'",
                       entry->second + " and " + level,
                       "one level",
                       {}});
    named[bytes] = name;
    const auto refusal = refused_.find(bytes);
    if (level == "memory" || refusal == refused_.end()) continue;
    const bool alias = tensors_.at(bytes)->role == program::Role::temporary || bytes != name;
    throw UserError({alias && refusal->second.starts_with("'")
                         ? "residency splits an alias: a tensor cannot stay in the scratchpad"
                         : "a tensor cannot stay in the scratchpad",
                     "residency of '" + name + "'",
                     refusal->second,
                     join(known),
                     {}});
  }
}

std::int64_t Candidates::whole_bytes(const program::Tensor& tensor) const {
  std::int64_t elements = 1;
  for (const Expr& extent : tensor.shape) elements *= extent.is_constant() ? extent.value() : 0;
  return packed_bytes(tensor.dtype, elements);
}

void Candidates::make() {
  const States states = [&](std::size_t body, std::size_t kernel) -> const KernelState& {
    return bodies_[body].kernels[kernel];
  };
  for (const auto& [name, seen] : seen_) {
    const auto level = levels_.find(name);
    const bool wanted = level != levels_.end() && level->second == "scratchpad";
    if (level != levels_.end() && !wanted) continue;
    Candidate one{name, seen.body, seen.first, seen.last, 0, {}, 0, {}, wanted};
    one.saved = seen.saved * bodies_[seen.body].times;
    for (const auto& [formal, bound] : bindings_)
      for (const Binding& binding : bound)
        if (owner(binding.actual) == name) one.saved += moved(formal) * binding.trips * bodies_[binding.body].times;
    add_places(one);
    std::string why;
    if (const auto refusal = refused_.find(name); refusal != refused_.end()) why = refusal->second;
    if (!seen.stored_first) why = "it is read before anything is stored to it";
    for (std::int64_t k = seen.first; k <= seen.last && why.empty(); ++k)
      if (several_ && bodies_[seen.body].kernels[at(k)].opaque) why = "a function is called before its last reader";
    if (why.empty()) {
      std::optional<Split> found = split(one, states);
      if (!found) why = "several cores store the same or non-contiguous elements";
      if (found) one.core_bytes = found->core_bytes, one.parts = std::move(found->parts);
    }
    if (why.empty() && one.core_bytes > 0)
      candidates_.push_back(one);
    else if (wanted)
      throw UserError({"a tensor cannot stay in the scratchpad", "residency of '" + name + "'", why, {}, {}});
  }
}

void Candidates::add_places(Candidate& one) const {
  for (std::int64_t k = one.first; k <= one.last; ++k) {
    one.places.emplace_back(one.body, at(k));
    for (const std::size_t body : bodies_[one.body].kernels[at(k)].runs)
      for (std::size_t inner = 0; inner < bodies_[body].kernels.size(); ++inner) one.places.emplace_back(body, inner);
  }
  std::sort(one.places.begin(), one.places.end());
  one.places.erase(std::unique(one.places.begin(), one.places.end()), one.places.end());
}

std::optional<Candidates::Split> Candidates::split(const Candidate& one, const States& states) const {
  const program::Tensor& tensor = *tensors_.at(one.tensor);
  if (!several_) return Split{whole_bytes(tensor)};
  const std::set<std::string>& names = seen_.at(one.tensor).names;
  const std::size_t streams = at(lowering_.program.cores * lowering_.program.contexts);
  std::vector<const TensorUse*> uses;
  for (std::int64_t k = one.first; k <= one.last; ++k) {
    const KernelUse& use = states(one.body, at(k)).use;  // empty if the kernel's regions are unknown
    if (!use) continue;
    for (const std::string& name : names)
      if (const auto found = use->find(name); found != use->end()) uses.push_back(&found->second);
  }
  std::vector<std::optional<Region>> own;
  double most = 0;
  for (std::size_t s = 0; s < streams; ++s) {
    std::vector<Region> stored;
    for (const TensorUse* use : uses) {
      if (!use->regions) return std::nullopt;
      stored.insert(stored.end(), use->cores[s].stored.begin(), use->cores[s].stored.end());
    }
    own.push_back(joined(stored));
    if (!own[s] && !stored.empty()) return std::nullopt;
    if (own[s]) most = std::max(most, volume(*own[s]));
    for (std::size_t other = 0; other < s; ++other)
      if (own[s] && own[other] && meet(*own[s], *own[other])) return std::nullopt;
  }
  Split split{packed_bytes(tensor.dtype, static_cast<std::int64_t>(most))};
  const auto reads_own = [&](const TensorUse* use, std::size_t s) {
    const std::optional<Region>& loaded = use->cores[s].loaded;
    return !loaded || (own[s] && contains(*own[s], *loaded));
  };
  bool apart = true;
  for (const TensorUse* use : uses)
    for (std::size_t s = 0; s < streams; ++s) apart &= reads_own(use, s);
  if (apart) return split;
  if (lowering_.program.contexts > 1) return std::nullopt;
  for (std::size_t s = 0; s < streams; ++s)
    if (own[s]) split.parts.push_back({static_cast<std::int64_t>(s), own[s]->low, own[s]->high});
  return split;
}

std::vector<const Candidate*> Candidates::in_order() const {
  std::vector<const Candidate*> list;
  for (const Candidate& one : candidates_) list.push_back(&one);
  const auto worth = [](const Candidate& one) {
    return one.saved / (static_cast<double>(one.core_bytes) * static_cast<double>(one.places.size()));
  };
  std::stable_sort(list.begin(), list.end(), [&](const Candidate* a, const Candidate* b) {
    return a->wanted != b->wanted ? a->wanted : worth(*a) > worth(*b);
  });
  return list;
}

std::optional<KernelState> Candidates::again(std::size_t body, std::size_t kernel, std::int64_t bytes) {
  const KernelState& now = bodies_[body].kernels[kernel];
  if (now.opaque || !now.use || bytes < now.least) return std::nullopt;
  std::optional<Smaller> smaller = lowering_.again(lowering_, bodies_[body].function, now.number, bytes);
  see_tensors();
  if (!smaller) return std::nullopt;
  distribute(lowering_, smaller->scope, smaller->facts, index_);
  KernelState state = now;
  state.facts = smaller->facts;
  state.held = held(smaller->scope).scratchpad;
  state.use = traffic().use_of(smaller->scope, several_);
  if (!state.use) return std::nullopt;
  state.scope = std::move(smaller->scope);
  return state;
}

void Candidates::see_tensors() {
  std::vector<program::Tensor>& all = lowering_.program.tensors;
  if (all.size() == tensors_seen_) return;
  for (program::Tensor& tensor : all) tensors_[tensor.name] = &tensor;
  tensors_seen_ = all.size();
  traffic_.reset();
}

const Traffic& Candidates::traffic() {
  see_tensors();
  if (!traffic_) traffic_.emplace(lowering_.program);
  return *traffic_;
}

void Candidates::replace(std::pair<std::size_t, std::size_t> place, const KernelState& kernel) {
  const Body& body = bodies_[place.first];
  (*body.block)[kernel.statement].action = *kernel.scope;
  lowering_.kernels[body.function][kernel.number] = kernel.facts;
}

void Candidates::stays(const Candidate& one, std::int64_t address, const Split& split) {
  program::Tensor& tensor = *tensors_.at(one.tensor);
  tensor.level = program::Level::scratchpad;
  tensor.address = address;
  tensor.core_bytes = split.core_bytes;
  tensor.parts = split.parts;
  ++staying_;
  saved_ += one.saved;
}

void Candidates::note() {
  if (staying_ == 0) return;
  lowering_.program.notes.push_back(std::to_string(staying_) + (staying_ == 1 ? " value stays" : " values stay") +
                                    " in the scratchpad between kernels: " + std::to_string(std::llround(saved_)) +
                                    " bytes fewer from and to memory");
}

}  // namespace tilesim::lower
