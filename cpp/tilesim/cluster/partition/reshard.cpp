#include "tilesim/cluster/partition/layout.hpp"

#include <algorithm>
#include <map>

#include "tilesim/base/error.hpp"
#include "tilesim/base/index.hpp"

namespace tilesim::partitioning {

namespace {

class ReshardPlanner {
 public:
  ReshardPlanner(const Grid& grid, const TensorType& type, const Layout& from, const Layout& to)
      : grid_(grid), type_(type), now_(from), to_(to), rank_(type.shape.size()) {
    for (std::size_t i = 0; i < rank_; ++i) {
      now_extent_.push_back(padded(type.shape[i], grid.parts(from.axes[i])));
      to_extent_.push_back(padded(type.shape[i], grid.parts(to.axes[i])));
    }
  }

  /// `level`: axes first get their final number of parts, before parts are moved.
  std::vector<Move> plan(bool level) {
    slices();
    while (!now_.partial.empty()) combine();
    if (level && now_extent_ == to_extent_)
      while (cut_to_count() || exchange_to_count()) {
      }
    for (int guard = 0; now_.axes != to_.axes || now_extent_ != to_extent_; ++guard) {
      require(guard < 1000, "a resharding does not end");
      if (slices() || cuts() || exchange() || permute_all() || permute_one()) continue;
      gather();
    }
    return std::move(moves_);
  }

 private:
  double local_bytes() const {
    double elements = 1;
    for (std::size_t i = 0; i < rank_; ++i) elements *= static_cast<double>(now_extent_[i] / grid_.parts(now_.axes[i]));
    return elements * static_cast<double>(bits(type_.dtype)) / 8;
  }
  double share(const Atoms& atoms) const {
    const auto n = static_cast<double>(grid_.parts(atoms));
    return (n - 1) / n;
  }
  bool direct(std::size_t axis) const { return now_extent_[axis] == to_extent_[axis]; }
  /// Number of leading atoms of the axis that stay.
  std::size_t kept(std::size_t axis) const {
    if (!direct(axis)) return 0;
    const Atoms &a = now_.axes[axis], &b = to_.axes[axis];
    std::size_t length = 0;
    while (length < a.size() && length < b.size() && a[length] == b[length]) ++length;
    return length;
  }
  /// Whether the axis may append further atoms of its target.
  bool grows(std::size_t axis) const {
    const bool plain = now_.axes[axis].empty() && now_extent_[axis] == type_.shape[axis];
    return (direct(axis) || plain) && is_prefix(now_.axes[axis], to_.axes[axis]) &&
           now_.axes[axis].size() < to_.axes[axis].size();
  }
  void record(Move move, const Layout& before) {
    move.before = before;
    move.after = now_;
    move.settled = true;
    for (std::size_t i = 0; i < rank_; ++i)
      if (now_extent_[i] != padded(type_.shape[i], grid_.parts(now_.axes[i]))) move.settled = false;
    moves_.push_back(std::move(move));
  }
  void pad_for(std::size_t axis) {
    if (direct(axis)) return;
    now_extent_[axis] = to_extent_[axis];
    record({.sort = Move::Sort::pad, .axis = static_cast<int>(axis), .extent = to_extent_[axis]}, now_);
  }
  bool cuts() {
    bool any = false;
    for (std::size_t i = 0; i < rank_; ++i) {
      if (direct(i) || !now_.axes[i].empty() || now_extent_[i] == type_.shape[i]) continue;
      now_extent_[i] = type_.shape[i];
      record({.sort = Move::Sort::cut, .axis = static_cast<int>(i), .extent = type_.shape[i]}, now_);
      any = true;
    }
    return any;
  }
  bool free_atom(int atom) const { return !now_.uses(atom); }

  bool slices() {
    bool any = false;
    for (std::size_t i = 0; i < rank_; ++i) {
      Atoms added;
      if (grows(i))
        for (std::size_t k = now_.axes[i].size(); k < to_.axes[i].size() && free_atom(to_.axes[i][k]); ++k)
          added.push_back(to_.axes[i][k]);
      else if (direct(i) && !is_prefix(now_.axes[i], to_.axes[i]) && now_.axes[i].size() < to_.axes[i].size())
        added = missing(i);
      if (added.empty()) continue;
      pad_for(i);
      const Layout before = now_;
      now_.axes[i].insert(now_.axes[i].end(), added.begin(), added.end());
      record({.sort = Move::Sort::slice, .axis = static_cast<int>(i), .atoms = added}, before);
      any = true;
    }
    return any;
  }
  /// Target atoms that the axis lacks, if all its atoms are among the target's, in any order.
  Atoms missing(std::size_t axis) const {
    Atoms added;
    for (const int atom : now_.axes[axis])
      if (!contains(to_.axes[axis], atom)) return {};
    for (const int atom : to_.axes[axis]) {
      if (contains(now_.axes[axis], atom)) continue;
      if (!free_atom(atom)) return {};
      added.push_back(atom);
    }
    return added;
  }

  /// Scatters partial results along one axis over the atoms that shard it next; otherwise combines all remaining ones.
  void combine() {
    for (std::size_t i = 0; i < rank_; ++i) {
      if (!grows(i)) continue;
      Atoms group;
      for (std::size_t k = now_.axes[i].size(); k < to_.axes[i].size(); ++k) {
        if (!contains(now_.partial, to_.axes[i][k])) break;
        group.push_back(to_.axes[i][k]);
      }
      if (group.empty()) continue;
      pad_for(i);
      const Layout before = now_;
      const double bytes = local_bytes() * share(group);
      std::erase_if(now_.partial, [&](int atom) { return contains(group, atom); });
      if (now_.partial.empty()) now_.combiner.clear();
      now_.axes[i].insert(now_.axes[i].end(), group.begin(), group.end());
      record({.sort = Move::Sort::reduce_scatter, .axis = static_cast<int>(i), .atoms = group, .bytes = bytes}, before);
      slices();
      return;
    }
    const Layout before = now_;
    const Atoms group = now_.partial;
    now_.partial.clear();
    now_.combiner.clear();
    record({.sort = Move::Sort::all_reduce, .atoms = group, .bytes = 2 * local_bytes() * share(group)}, before);
    slices();
  }

  /// Factor by which the axis's number of parts must grow; 0: not an integer.
  std::int64_t times(std::size_t axis) const {
    const std::int64_t now = grid_.parts(now_.axes[axis]), to = grid_.parts(to_.axes[axis]);
    return to % now == 0 ? to / now : 0;
  }

  /// Slices an axis with too few parts along any free atom.
  bool cut_to_count() {
    for (std::size_t i = 0; i < rank_; ++i)
      for (const Atoms& atoms : to_.axes)
        for (const int atom : atoms) {
          if (!free_atom(atom) || times(i) < 2 || times(i) % grid_.size(atom) != 0) continue;
          const Layout before = now_;
          now_.axes[i].push_back(atom);
          record({.sort = Move::Sort::slice, .axis = static_cast<int>(i), .atoms = {atom}}, before);
          return true;
        }
    return false;
  }

  /// Moves the last atom of an axis with too many parts to one with too few.
  bool exchange_to_count() {
    for (std::size_t i = 0; i < rank_; ++i)
      for (std::size_t j = 0; j < rank_; ++j) {
        if (times(i) < 2 || grid_.parts(now_.axes[j]) <= grid_.parts(to_.axes[j])) continue;
        const int atom = now_.axes[j].back();
        if (times(i) % grid_.size(atom) != 0) continue;
        const Layout before = now_;
        const double bytes = local_bytes() * share({atom});
        now_.axes[j].pop_back();
        now_.axes[i].push_back(atom);
        record({.sort = Move::Sort::all_to_all,
                .axis = static_cast<int>(i),
                .from_axis = static_cast<int>(j),
                .atoms = {atom},
                .bytes = bytes},
               before);
        return true;
      }
    return false;
  }

  bool exchange() {
    for (std::size_t i = 0; i < rank_; ++i)
      for (std::size_t j = 0; j < rank_; ++j) {
        if (i == j || !grows(j)) continue;
        const Atoms &a = now_.axes[i], &wanted = to_.axes[j];
        const std::size_t most = std::min(a.size() - kept(i), wanted.size() - now_.axes[j].size());
        for (std::size_t length = most; length > 0; --length) {
          const Atoms segment(a.end() - static_cast<std::ptrdiff_t>(length), a.end());
          if (!std::equal(segment.begin(), segment.end(),
                          wanted.begin() + static_cast<std::ptrdiff_t>(now_.axes[j].size())))
            continue;
          pad_for(j);
          const Layout before = now_;
          const double bytes = local_bytes() * share(segment);
          now_.axes[i].resize(a.size() - length);
          now_.axes[j].insert(now_.axes[j].end(), segment.begin(), segment.end());
          record({.sort = Move::Sort::all_to_all,
                  .axis = static_cast<int>(j),
                  .from_axis = static_cast<int>(i),
                  .atoms = segment,
                  .bytes = bytes},
                 before);
          return true;
        }
      }
    return false;
  }

  void permute_to(std::vector<Atoms> axes) {
    const Layout before = now_;
    now_.axes = std::move(axes);
    record({.sort = Move::Sort::permute, .bytes = local_bytes()}, before);
  }
  bool permute_all() {
    if (now_.axes == to_.axes || now_extent_ != to_extent_) return false;
    for (std::size_t i = 0; i < rank_; ++i)
      if (grid_.parts(now_.axes[i]) != grid_.parts(to_.axes[i])) return false;
    permute_to(to_.axes);
    return true;
  }
  bool permute_one() {
    for (std::size_t i = 0; i < rank_; ++i) {
      const Atoms &a = now_.axes[i], &b = to_.axes[i];
      if (!direct(i) || kept(i) == a.size() || kept(i) == b.size()) continue;
      Atoms wanted;
      if (grid_.parts(a) == grid_.parts(b) &&
          std::ranges::all_of(b, [&](int atom) { return contains(a, atom) || free_atom(atom); })) {
        wanted = b;
      } else {
        for (const int atom : b) {
          if (!contains(a, atom)) break;
          wanted.push_back(atom);
        }
        for (const int atom : a)
          if (!contains(wanted, atom)) wanted.push_back(atom);
      }
      if (wanted == a || wanted[kept(i)] != b[kept(i)]) continue;
      std::vector<Atoms> axes = now_.axes;
      axes[i] = wanted;
      permute_to(std::move(axes));
      return true;
    }
    return false;
  }

  void gather() {
    for (std::size_t i = 0; i < rank_; ++i) {
      const std::size_t length = kept(i);
      if (length == now_.axes[i].size()) continue;
      const Layout before = now_;
      const Atoms group(now_.axes[i].begin() + static_cast<std::ptrdiff_t>(length), now_.axes[i].end());
      now_.axes[i].resize(length);
      record({.sort = Move::Sort::all_gather,
              .axis = static_cast<int>(i),
              .atoms = group,
              .bytes = local_bytes() * share(group)},
             before);
      return;
    }
    throw InternalError("a resharding is stuck");
  }

  const Grid& grid_;
  const TensorType& type_;
  Layout now_;
  const Layout& to_;
  std::size_t rank_;
  std::vector<std::int64_t> now_extent_, to_extent_;  ///< extents of full axes with padding
  std::vector<Move> moves_;
};

}  // namespace

std::vector<Move> moves(const Grid& grid, const TensorType& type, const Layout& from, const Layout& to) {
  if (from == to) return {};
  std::vector<Move> best = ReshardPlanner(grid, type, from, to).plan(false);
  if (std::ranges::none_of(best, [](const Move& move) { return move.sort == Move::Sort::all_gather; })) return best;
  std::vector<Move> other = ReshardPlanner(grid, type, from, to).plan(true);
  return wire_bytes(other) < wire_bytes(best) ? other : best;
}

double wire_bytes(const std::vector<Move>& moves) {
  double bytes = 0;
  for (const Move& move : moves) bytes += move.bytes;
  return bytes;
}

std::vector<std::int64_t> permute_pairs(const Grid& grid, const Layout& from, const Layout& to) {
  const auto key = [&](const Layout& layout, std::int64_t place) {
    std::vector<std::int64_t> indices;
    for (const Atoms& atoms : layout.axes) indices.push_back(grid.index(place, atoms));
    return indices;
  };
  std::map<std::vector<std::int64_t>, std::pair<std::vector<std::int64_t>, std::vector<std::int64_t>>> blocks;
  std::vector<std::int64_t> pairs;
  for (std::int64_t place = 0; place < grid.devices(); ++place) {
    const auto held = key(from, place), wanted = key(to, place);
    if (held == wanted) {
      pairs.insert(pairs.end(), {grid.mesh().device(place), grid.mesh().device(place)});
      continue;
    }
    blocks[held].first.push_back(place);
    blocks[wanted].second.push_back(place);
  }
  for (const auto& [block, sides] : blocks) {
    require(sides.first.size() == sides.second.size(), "a permutation of parts is invalid");
    for (std::size_t i = 0; i < sides.first.size(); ++i)
      pairs.insert(pairs.end(), {grid.mesh().device(sides.first[i]), grid.mesh().device(sides.second[i])});
  }
  return pairs;
}

}  // namespace tilesim::partitioning
