#include "tilesim/compile/writer/kernel_writer.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "tilesim/base/error.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

using program::Block;
using program::Statement;

namespace {

/// What a statement does to a ring, on one queue.
struct Use {
  std::size_t ring;
  std::string queue;
  bool reads, writes;
};

class Writer {
 public:
  explicit Writer(const std::vector<Ring>& rings) : rings_(rings), commits_(rings.size()) {}

  program::Scope write(program::Scope scope, Block body) {
    assign_queues(body);
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      levels_.push_back(level_of(i, body));
      consumers_.push_back(consumers_of(i, body));
      const Ring& ring = rings_[i];
      program::Slot slot;
      slot.name = ring.name, slot.dtype = ring.dtype, slot.depth = ring.depth;
      slot.elements = std::max<std::int64_t>(1, ring.elements);
      slot.consumers = consumers_.back();
      scope.slots.push_back(std::move(slot));
    }
    scope.body = write(body);
    return scope;
  }

 private:
  std::size_t ring_of(const std::string& name) const {
    const auto found = std::ranges::find(rings_, name, &Ring::name);
    require(found != rings_.end(), "the kernel uses a ring that it has not declared");
    return static_cast<std::size_t>(found - rings_.begin());
  }

  void assign_queues(Block& block) const {
    program::for_each(block, [&](Statement& statement) {
      if (!statement.queue.empty()) return;
      const program::Action& action = statement.action;
      if (const auto* load = std::get_if<program::Load>(&action))
        statement.queue = "load" + std::to_string(rings_[ring_of(load->transfer.slot)].load_queue);
      else if (std::holds_alternative<program::Store>(action))
        statement.queue = "store0";
      else if (std::holds_alternative<program::PermuteOp>(action))
        statement.queue = "cross_lane";
      else if (std::holds_alternative<program::VectorOp>(action) || std::holds_alternative<program::SortOp>(action) ||
               std::holds_alternative<program::IndexedOp>(action))
        statement.queue = "vector";
    });
  }

  void add(std::vector<Use>& uses, const std::string& slot, const std::string& queue, bool writes) const {
    const std::size_t ring = ring_of(slot);
    const auto found =
        std::ranges::find_if(uses, [&](const Use& use) { return use.ring == ring && use.queue == queue; });
    if (found == uses.end())
      uses.push_back({ring, queue, !writes, writes});
    else
      (writes ? found->writes : found->reads) = true;
  }

  /// Uses by a statement and by all inside of it, in text order.
  std::vector<Use> uses_of(const Statement& whole) const {
    std::vector<Use> uses;
    const auto of = [&](const Statement& s) {
      const auto read = [&](const program::View& view) { add(uses, view.slot, s.queue, false); };
      const auto written = [&](const program::View& view) { add(uses, view.slot, s.queue, true); };
      if (const auto* load = std::get_if<program::Load>(&s.action)) add(uses, load->transfer.slot, s.queue, true);
      if (const auto* store = std::get_if<program::Store>(&s.action)) add(uses, store->transfer.slot, s.queue, false);
      if (const auto* vector = std::get_if<program::VectorOp>(&s.action)) {
        std::ranges::for_each(vector->inputs, read);
        for (const program::VectorOutputSpec& output : vector->outputs) written(output.view);
      }
      if (const auto* permute = std::get_if<program::PermuteOp>(&s.action)) read(permute->in), written(permute->out);
      if (const auto* indexed = std::get_if<program::IndexedOp>(&s.action)) {
        read(indexed->in), read(indexed->index), written(indexed->out);
        if (indexed->scatter) read(indexed->out);
      }
      if (const auto* sort = std::get_if<program::SortOp>(&s.action))
        read(sort->in), written(sort->keys), written(sort->positions);
      if (const auto* opaque = std::get_if<program::OpaqueOp>(&s.action)) {
        std::ranges::for_each(opaque->reads, read);
        std::ranges::for_each(opaque->writes, written);
      }
    };
    of(whole);
    program::for_each_body(whole, [&](const Block& body) { program::for_each(body, of); });
    return uses;
  }

  bool uses(const Statement& statement, std::size_t ring) const {
    return std::ranges::any_of(uses_of(statement), [&](const Use& use) { return use.ring == ring; });
  }

  /// The block in each pass of which a version begins.
  const Block* level_of(std::size_t ring, const Block& block) const {
    const program::For* only = nullptr;
    int count = 0;
    for (const Statement& statement : block)
      if (uses(statement, ring)) ++count, only = std::get_if<program::For>(&statement.action);
    const bool deeper = count == 1 && only && only->index != rings_[ring].carried;
    return deeper ? level_of(ring, only->body) : &block;
  }

  /// Queues that read and do not write; of a ring without such, the queue of its last use. An unused ring keeps its
  /// bytes.
  std::vector<std::string> consumers_of(std::size_t ring, const Block& body) const {
    std::vector<std::string> found;
    std::string last = "vector";
    program::for_each(body, [&](const Statement& statement) {
      if (statement.queue.empty()) return;
      for (const Use& use : uses_of(statement)) {
        if (use.ring != ring) continue;
        last = use.queue;
        if (!use.writes && std::ranges::find(found, use.queue) == found.end()) found.push_back(use.queue);
      }
    });
    return found.empty() ? std::vector{last} : found;
  }

  static bool reads(const std::vector<Use>& uses, std::size_t ring) {
    return std::ranges::any_of(uses, [&](const Use& use) { return use.ring == ring && use.reads; });
  }
  static bool writes(const std::vector<Use>& uses, std::size_t ring) {
    return std::ranges::any_of(uses, [&](const Use& use) { return use.ring == ring && use.writes; });
  }

  /// Whether a loop hands a ring over once, after its last trip: nothing inside of it reads the ring, or it carries it.
  bool finishes(const program::For& loop, const std::vector<Use>& uses, std::size_t ring) const {
    return open_.contains(ring) && (!reads(uses, ring) || loop.index == rings_[ring].carried);
  }

  /// How often a block commits a ring in one pass.
  std::int64_t commits_in(const Block& block, std::size_t ring) const {
    std::int64_t count = 0;
    for (const Statement& statement : block) {
      const auto* loop = std::get_if<program::For>(&statement.action);
      const std::vector<Use> uses = uses_of(statement);
      if (loop && writes(uses, ring) && !finishes(*loop, uses, ring)) {
        require(loop->extent.is_constant(), "a ring is handed over in a loop of unknown trips");
        count += loop->extent.value() * commits_in(loop->body, ring);
      } else {
        count += std::ranges::count_if(uses, [&](const Use& use) { return use.ring == ring && use.writes; });
      }
    }
    return count;
  }

  void wait(std::size_t ring, const std::string& queue, Block& out) {
    const auto found = waited_.find({ring, queue});
    if (found != waited_.end() && found->second == commits_[ring]) return;
    out.push_back({program::Wait{rings_[ring].name, 0, {}, 0, commits_[ring]}, queue, {}});
    waited_.insert_or_assign({ring, queue}, commits_[ring]);
  }

  void commit(const Use& use, Block& out) {
    out.push_back({program::Commit{rings_[use.ring].name, 0, 1}, use.queue, {}});
    commits_[use.ring] = commits_[use.ring] + Expr(1);
  }

  void forget_waits(std::size_t ring) {
    std::erase_if(waited_, [&](const auto& entry) { return entry.first.first == ring; });
  }

  Block write(const Block& block) {
    // First and, by reading queue, last statement of the rings whose versions begin here.
    std::map<std::size_t, std::size_t> first;
    std::map<std::pair<std::size_t, std::string>, std::size_t> last;
    for (std::size_t i = 0; i < block.size(); ++i)
      for (const Use& use : uses_of(block[i])) {
        if (levels_[use.ring] != &block) continue;
        first.emplace(use.ring, i);
        if (std::ranges::find(consumers_[use.ring], use.queue) != consumers_[use.ring].end())
          last.insert_or_assign({use.ring, use.queue}, i);
      }
    Block out;
    for (std::size_t i = 0; i < block.size(); ++i) {
      const std::vector<Use> uses = uses_of(block[i]);
      const auto* loop = std::get_if<program::For>(&block[i].action);
      for (const Use& use : uses)
        if (use.reads && open_.contains(use.ring) && !late_.contains(use.ring) &&
            (!loop || !writes(uses, use.ring) || finishes(*loop, uses, use.ring)))
          wait(use.ring, use.queue, out);
      for (const Use& use : uses)
        if (const auto found = first.find(use.ring); found != first.end() && found->second == i) {
          require(use.writes, "a ring is read before it is written");
          out.push_back({program::Acquire{rings_[use.ring].name, {use.queue}}, {}, {}});
          commits_[use.ring] = 0;
          open_.insert(use.ring);
          forget_waits(use.ring);
          first.erase(found);
        }
      if (loop)
        write_loop(*loop, uses, block[i].label, out);
      else
        out.push_back(block[i]);
      for (const Use& use : uses)
        if (use.writes && !late_.contains(use.ring) && (!loop || finishes(*loop, uses, use.ring))) commit(use, out);
      for (const Use& use : uses)
        if (const auto found = last.find({use.ring, use.queue}); found != last.end() && found->second == i) {
          wait(use.ring, use.queue, out);
          out.push_back({program::Release{rings_[use.ring].name, 0}, use.queue, {}});
        }
    }
    std::erase_if(open_, [&](std::size_t ring) { return levels_[ring] == &block; });
    return out;
  }

  void write_loop(const program::For& loop, const std::vector<Use>& uses, const std::string& label, Block& out) {
    const std::vector<Expr> before = commits_;
    std::map<std::size_t, std::int64_t> each;  ///< hand-overs of a trip
    std::vector<std::size_t> late;
    for (const Use& use : uses) {
      if (!use.writes || !open_.contains(use.ring)) continue;
      if (finishes(loop, uses, use.ring)) {
        if (late_.insert(use.ring).second) late.push_back(use.ring);
      } else if (!late_.contains(use.ring)) {
        each[use.ring] = commits_in(loop.body, use.ring);
        commits_[use.ring] = before[use.ring] + Expr::symbol(loop.index) * Expr(each[use.ring]);
        forget_waits(use.ring);
      }
    }
    program::For written{loop.index, loop.extent, write(loop.body)};
    for (const std::size_t ring : late) late_.erase(ring);
    for (const auto& [ring, count] : each) {
      commits_[ring] = before[ring] + loop.extent * Expr(count);
      forget_waits(ring);
    }
    out.push_back({std::move(written), {}, label});
  }

  const std::vector<Ring>& rings_;
  std::vector<const Block*> levels_;
  std::vector<std::vector<std::string>> consumers_;
  std::vector<Expr> commits_;  ///< of the present version, up to the statement at hand
  std::map<std::pair<std::size_t, std::string>, Expr> waited_;
  std::set<std::size_t> open_;  ///< rings that have a version
  std::set<std::size_t> late_;  ///< rings that a loop around the statement at hand finishes
};

}  // namespace

program::Scope write_kernel(program::Scope scope, const std::vector<Ring>& rings, Block body) {
  if (!rings.empty()) return Writer(rings).write(std::move(scope), std::move(body));
  scope.body = std::move(body);
  return scope;
}

Statement statement(program::Action action) { return {std::move(action), {}, {}}; }

}  // namespace tilesim::lower
