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
using program::View;

namespace {

/// Accesses of a statement to a ring, on one queue.
struct Use {
  std::size_t ring;
  std::string queue;
  bool reads, writes;
  bool loads;                                   ///< the first access is a load
  bool begins;                                  ///< the first access only writes
  bool updates;                                 ///< each access writes what it reads, or reads nothing
  std::vector<const View*> from = {}, to = {};  ///< of a compute
};

/// A version of a ring, and the statements of a block that use it.
struct Version {
  enum class Begins : std::uint8_t { before_statement, in_loop, before_block };
  std::size_t first;
  Begins begins;
  bool read = false, ends_in_loop = false;       ///< ends: in the trips of a loop, or in the next trip
  std::vector<std::string> writers = {};         ///< queues whose first access only writes
  std::map<std::string, std::size_t> uses = {};  ///< last statement by queue
  std::vector<std::size_t> statements = {};
  std::size_t last() const { return statements.empty() ? first : statements.back(); }
};

class Writer {
 public:
  explicit Writer(const std::vector<Ring>& rings)
      : rings_(rings),
        consumers_(rings.size()),
        begins_(rings.size()),
        later_(rings.size()),
        written_(rings.size()),
        commits_(rings.size()),
        waited_(rings.size()),
        back_(rings.size()),
        changed_(rings.size()),
        filled_(rings.size()) {
    for (std::size_t i = 0; i < rings.size(); ++i) numbers_.emplace(rings[i].name, i);
  }

  program::Scope write(program::Scope scope, Block body) {
    assign_queues(body);
    find_consumers(body);
    for (std::size_t i = 0; i < rings_.size(); ++i) {
      const Ring& ring = rings_[i];
      program::Slot slot;
      slot.name = ring.name, slot.dtype = ring.dtype, slot.depth = ring.depth;
      slot.elements = std::max<std::int64_t>(1, ring.elements);
      slot.consumers = consumers_[i];
      slot.accumulator = ring.accumulator;
      scope.slots.push_back(std::move(slot));
    }
    scope.body = write(body);
    return scope;
  }

 private:
  std::size_t ring_of(const std::string& name) const {
    const auto found = numbers_.find(name);
    require(found != numbers_.end(), "the kernel uses a ring that it has not declared");
    return found->second;
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
      else if (std::holds_alternative<program::Send>(action))
        statement.queue = "send";
      else if (std::holds_alternative<program::VectorOp>(action) || std::holds_alternative<program::SortOp>(action) ||
               std::holds_alternative<program::IndexedOp>(action))
        statement.queue = "vector";
    });
  }

  static bool same(const View& a, const View& b) {
    return a.offset == b.offset &&
           std::ranges::equal(a.dims, b.dims, [](const program::Dim& one, const program::Dim& other) {
             return one.extent == other.extent && one.stride == other.stride;
           });
  }

  /// Accesses of one load, store, send or compute. A tile from another core is written on no queue.
  std::vector<Use> accesses(const Statement& s) const {
    std::vector<Use> found;
    const auto access = [&](const std::string& slot, bool writes) -> Use& {
      const std::size_t ring = ring_of(slot);
      const auto known = std::ranges::find(found, ring, &Use::ring);
      Use& use =
          known == found.end() ? found.emplace_back(Use{ring, s.queue, false, false, false, false, false}) : *known;
      (writes ? use.writes : use.reads) = true;
      use.begins = !use.reads;
      use.updates = use.writes;
      use.loads = std::holds_alternative<program::Load>(s.action) || s.queue.empty();
      return use;
    };
    const auto read = [&](const View& view) { access(view.slot, false).from.push_back(&view); };
    const auto written = [&](const View& view) { access(view.slot, true).to.push_back(&view); };
    const auto added = [&](const View& view, const Expr& accumulate) {
      if (accumulate.is_constant() && accumulate.value() != 0) read(view);
      written(view);
    };
    if (const auto* load = std::get_if<program::Load>(&s.action)) access(load->transfer.slot, true);
    if (const auto* store = std::get_if<program::Store>(&s.action)) access(store->transfer.slot, false);
    if (const auto* receive = std::get_if<program::Receive>(&s.action)) access(receive->slot, true);
    if (const auto* send = std::get_if<program::Send>(&s.action)) access(send->from.slot, false);
    if (const auto* mma = std::get_if<program::MmaOp>(&s.action))
      read(mma->a), read(mma->b), added(mma->c, mma->accumulate);
    if (const auto* vector = std::get_if<program::VectorOp>(&s.action)) {
      std::ranges::for_each(vector->inputs, read);
      for (const program::VectorOutputSpec& output : vector->outputs) added(output.view, output.accumulate);
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
    for (Use& use : found)
      for (const View* from : use.from)
        for (const View* to : use.to) use.updates &= same(*from, *to);
    return found;
  }

  /// Accesses of a statement and of all statements inside of it, in text order.
  std::vector<Use> uses_of(const Statement& whole) const {
    std::vector<Use> uses;
    for_each_inside(whole, [&](const Statement& s) { add_uses(s, uses); });
    return uses;
  }

  static void for_each_inside(const Statement& whole, const auto& call) {
    call(whole);
    program::for_each_body(whole, [&](const Block& body) { program::for_each(body, call); });
  }

  void add_uses(const Statement& s, std::vector<Use>& uses) const {
    for (Use& use : accesses(s)) {
      const auto known = std::ranges::find_if(
          uses, [&](const Use& other) { return other.ring == use.ring && other.queue == use.queue; });
      if (known == uses.end()) {
        uses.push_back(std::move(use));
        continue;
      }
      known->reads |= use.reads;
      known->writes |= use.writes;
      known->updates &= use.updates;
    }
  }

  bool in_pieces(std::size_t ring, const program::For& loop) const {
    return std::ranges::find(rings_[ring].pieces, loop.index) != rings_[ring].pieces.end();
  }

  /// Versions that a block begins or ends, by ring and in text order. `uses`: of each statement.
  std::map<std::size_t, std::vector<Version>> versions(const Block& block,
                                                       const std::vector<std::vector<Use>>& uses) const {
    using Begins = Version::Begins;
    std::map<std::size_t, std::vector<Version>> found;
    std::vector<Use> all;
    for (const std::vector<Use>& own : uses) all.insert(all.end(), own.begin(), own.end());
    for (std::size_t i = 0; i < block.size(); ++i) {
      std::set<std::size_t> turned;
      for (const Use& use : uses[i]) {
        const bool renewed = rings_[use.ring].renewed, before = open_.contains(use.ring);
        if (rings_[use.ring].counted || (before && !turns(all, use.ring)) || turned.contains(use.ring)) continue;
        std::vector<Version>& own = found[use.ring];
        const auto* loop = std::get_if<program::For>(&block[i].action);
        if (own.empty())
          own.push_back({i, before ? Begins::before_block : Begins::before_statement});
        else if ((renewed ? use.begins : use.loads) && own.back().read && own.back().last() != i)
          own.push_back({i, Begins::before_statement});
        if (loop && turns(uses[i], use.ring)) {
          own.back().ends_in_loop = own.back().read = true;
          if (leaves(loop->body, use.ring)) own.push_back({i, Begins::in_loop});
          turned.insert(use.ring);
          continue;
        }
        Version& version = own.back();
        if (version.statements.empty() || version.last() != i) version.statements.push_back(i);
        version.read |= use.reads;
        if (version.uses.insert_or_assign(use.queue, i).second && use.begins) version.writers.push_back(use.queue);
      }
    }
    for (auto& [number, own] : found) {
      if (turning_.contains(number) && own.back().begins == Begins::before_statement) own.back().ends_in_loop = true;
      std::erase_if(own, [&, ring = number](const Version& v) {  // others lie in a loop or branch of the block
        if (v.begins != Begins::before_statement || v.statements.size() != 1) return false;
        const auto* loop = std::get_if<program::For>(&block[v.first].action);
        return loop ? loop->index != rings_[ring].carried && !in_pieces(ring, *loop) : is_branch(block[v.first]);
      });
    }
    return found;
  }

  static bool is_branch(const Statement& statement) { return std::holds_alternative<program::If>(statement.action); }

  /// Whether the version that a trip of a loop begins is there after the loop: not if a branch begins it.
  bool leaves(const Block& body, std::size_t ring) const {
    const Statement* first = nullptr;
    bool read = true;
    for (const Statement& statement : body)
      for (const Use& use : uses_of(statement)) {
        if (use.ring != ring) continue;
        if (use.begins && read) first = &statement, read = false;
        read |= use.reads;
      }
    return first && !is_branch(*first);
  }

  /// Whether a loop with these accesses ends a version that began before the loop, and begins another version.
  bool turns(const std::vector<Use>& uses, std::size_t ring) const {
    if (!rings_[ring].renewed) return false;
    const auto first = std::ranges::find(uses, ring, &Use::ring);
    return first != uses.end() && !first->begins &&
           std::any_of(first, uses.end(), [&](const Use& use) { return use.ring == ring && use.begins; });
  }

  /// Sets each ring's consumers: queues that read it without writing, else the queue of its last use. An unused ring
  /// keeps its bytes. Also sets the queues that write a ring before a piece of it is complete, and those only after.
  void find_consumers(const Block& body) {
    std::vector<std::string> last(rings_.size(), "vector");
    std::set<std::size_t> complete;
    program::for_each(body, [&](const Statement& statement) {
      if (const auto* piece = std::get_if<program::Commit>(&statement.action)) complete.insert(ring_of(piece->slot));
      for (const Use& use : accesses(statement)) {
        last[use.ring] = use.queue;
        if (!use.writes) add(consumers_[use.ring], use.queue);
        if (use.writes && !complete.contains(use.ring)) add(begins_[use.ring], use.queue);
        if (use.writes && !std::ranges::count(begins_[use.ring], use.queue)) later_[use.ring].insert(use.queue);
      }
    });
    for (std::size_t i = 0; i < rings_.size(); ++i)
      if (consumers_[i].empty()) consumers_[i] = {last[i]};
  }

  static void add(std::vector<std::string>& queues, const std::string& queue) {
    if (std::ranges::find(queues, queue) == queues.end()) queues.push_back(queue);
  }

  static bool reads(const std::vector<Use>& uses, std::size_t ring) {
    return std::ranges::any_of(uses, [&](const Use& use) { return use.ring == ring && use.reads; });
  }
  static bool writes(const std::vector<Use>& uses, std::size_t ring) {
    return std::ranges::any_of(uses, [&](const Use& use) { return use.ring == ring && use.writes; });
  }

  /// Whether a statement commits a ring once, at its end. A loop does if no statement inside reads the ring, or if it
  /// carries the ring; a branch does if neither side hands the ring over.
  bool finishes(const Statement& statement, const std::vector<Use>& uses, std::size_t ring) const {
    if (!open_.contains(ring)) return false;
    if (const auto* loop = std::get_if<program::For>(&statement.action))
      return !in_pieces(ring, *loop) && (!reads(uses, ring) || loop->index == rings_[ring].carried);
    if (!is_branch(statement)) return true;
    bool once = true;
    program::for_each_body(statement, [&](const Block& side) {
      std::vector<Use> own;
      program::for_each(side, [&](const Statement& s) { add_uses(s, own); });
      std::erase_if(own, [&](const Use& use) { return use.ring != ring; });
      once &= !writes(own, ring) || (own.size() == 1 && own[0].updates);
    });
    return once;
  }

  /// Number of commits of a ring in one pass of a block.
  Expr commits_in(const Block& block, std::size_t ring) const {
    Expr count = 0;
    std::vector<std::vector<Use>> all;
    for (const Statement& statement : block) all.push_back(uses_of(statement));
    for (std::size_t i = 0; i < block.size(); ++i) {
      const Statement& statement = block[i];
      const std::vector<Use>& uses = all[i];
      const bool inside = writes(uses, ring) && !finishes(statement, uses, ring);
      if (const auto* loop = std::get_if<program::For>(&statement.action); loop && inside)
        count = count + in_trips(*loop, commits_in(loop->body, ring)).all;
      else if (const auto* branch = std::get_if<program::If>(&statement.action); branch && inside)
        count = count + if_taken(*branch, commits_in(branch->then, ring));
      else
        count = count + Expr(std::ranges::count_if(uses, [&](const Use& use) {
                  return use.ring == ring && use.writes && !goes_on(use, i, block, all);
                }));
    }
    return count;
  }

  /// Commits of a branch, which may not be taken. A number that is not constant is that of trips: 0 without.
  static Expr if_taken(const program::If& branch, const Expr& commits) {
    return commits.is_constant() ? branch.condition * commits : commits;
  }

  /// Commits in the trips of a loop before the current one, and in all of them.
  struct InTrips { Expr before, all; };

  /// `each`: commits in a trip. All trips but the last commit alike.
  static InTrips in_trips(const program::For& loop, const Expr& each) {
    if (each.is_constant()) return {Expr::symbol(loop.index) * each, loop.extent * each};
    require(loop.extent.is_constant() && each.symbols() == std::set{loop.index}, "a loop's commits are not known");
    const auto in_trip = [&](std::int64_t trip) { return each.evaluate([&](const std::string&) { return trip; }); };
    const std::int64_t last = loop.extent.value() - 1, first = in_trip(0);
    for (std::int64_t trip = 1; trip < last; ++trip)
      require(in_trip(trip) == first, "a loop's trips before the last commit unlike each other");
    return {Expr::symbol(loop.index) * Expr(first), Expr(last * first + in_trip(last))};
  }

  void wait(std::size_t ring, const std::string& queue, Block& out) {
    const auto found = waited_[ring].find(queue);
    if (found != waited_[ring].end() && found->second == commits_[ring]) return;
    out.push_back({program::Wait{rings_[ring].name, back_[ring], {}, 0, commits_[ring]}, queue, {}});
    waited_[ring].insert_or_assign(queue, commits_[ring]);
    changed_[ring].erase(queue);
  }

  void commit(const Use& use, Block& out) {
    if (!use.queue.empty()) out.push_back({program::Commit{rings_[use.ring].name, 0, 1}, use.queue, {}});
    commits_[use.ring] = commits_[use.ring] + Expr(1);
    for (const auto& [other, last] : open_.at(use.ring).version.uses)
      if (other != use.queue) changed_[use.ring].insert(other);
  }

  /// Whether a queue must wait before a statement reads a ring.
  bool waits(const Use& use, const std::vector<Use>& uses, const Statement& statement) const {
    if (rings_[use.ring].counted) return changed_[use.ring].contains(use.queue);
    if (!use.reads || !open_.contains(use.ring) || late_.contains(use.ring)) return false;
    if (!writes(uses, use.ring)) return !has_pieces(use.ring, statement);
    return finishes(statement, uses, use.ring) && (!use.updates || changed_[use.ring].contains(use.queue));
  }

  /// Whether a loop that is a statement, or lies in it, waits for pieces of a ring one by one.
  bool has_pieces(std::size_t ring, const Statement& statement) const {
    bool found = false;
    const auto look = [&](const Statement& s) {
      if (const auto* loop = std::get_if<program::For>(&s.action)) found |= in_pieces(ring, *loop);
    };
    if (rings_[ring].pieces.empty()) return false;
    look(statement);
    program::for_each_body(statement, [&](const Block& body) { program::for_each(body, look); });
    return found;
  }

  /// Acquires a version for the queues that write it before they read it.
  void acquire(std::size_t ring, const Version& version, const Block& block, Block& out) {
    require(!version.writers.empty(), "a ring is read before it is written");
    if (!version.writers[0].empty()) out.push_back({program::Acquire{rings_[ring].name, version.writers}, {}, {}});
    commits_[ring] = 0;
    open(ring, version, block);
  }

  void open(std::size_t ring, const Version& version, const Block& block) {
    open_.insert_or_assign(ring, Open{version, &block});
    if (version.begins != Version::Begins::before_block) waited_[ring].clear();
    changed_[ring].clear();
    if (version.begins == Version::Begins::before_statement) return;
    for (const auto& [queue, last] : version.uses) changed_[ring].insert(queue);
  }

  /// Whether the version of a ring belongs to a block, not to one around it.
  bool owns(const Block& block, std::size_t ring) const {
    const auto found = open_.find(ring);
    return found != open_.end() && found->second.block == &block;
  }

  /// Whether the next statement that uses the version also writes it on the queue of `use`: both share one commit.
  bool goes_on(const Use& use, std::size_t i, const Block& block, const std::vector<std::vector<Use>>& all) const {
    const auto uses_it = [&](const std::vector<Use>& uses) {
      return std::ranges::find(uses, use.ring, &Use::ring) != uses.end();
    };
    const auto next = std::find_if(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end(), uses_it);
    if (next == all.end()) return false;
    const auto number = static_cast<std::size_t>(next - all.begin());
    if (owns(block, use.ring) && !std::ranges::count(open_.at(use.ring).version.statements, number)) return false;
    return finishes(block[number], *next, use.ring) && std::ranges::all_of(*next, [&](const Use& other) {
             return other.ring != use.ring || (other.queue == use.queue && other.updates);
           });
  }

  /// Whether another queue writes what `use` has read in statement `i` after its last commit, and waits for nothing
  /// that follows the read. A loop whose trips alternate copies commits the copy that it writes; the other is free by
  /// then.
  bool overtaken(const Use& use, std::size_t i, const Block& block, const std::vector<std::vector<Use>>& all) const {
    if (!use.reads || !owns(block, use.ring)) return false;
    const std::size_t last = open_.at(use.ring).version.last();
    const View* committed = nullptr;
    std::set<std::string> behind;   ///< queues that wait for what follows the read
    std::set<std::size_t> results;  ///< rings that the read and those queues write
    bool read = false, again = last == i, found = false;
    for (std::size_t k = i; k <= last && !again; ++k) {
      for_each_inside(block[k], [&](const Statement& s) {
        const std::vector<Use> own = accesses(s);
        const auto here = std::ranges::find(own, use.ring, &Use::ring);
        const bool writes = here != own.end() && here->writes, mine = here != own.end() && s.queue == use.queue;
        again |= mine && k > i;
        if (again) return;
        if (mine && writes) read = false, committed = here->to.empty() ? nullptr : here->to.back();
        const auto is_committed = [&](const View* from) { return from->offset == committed->offset; };
        const bool reads = mine && !writes && (!committed || std::ranges::any_of(here->from, is_committed));
        if (reads) read = true, behind.clear(), results.clear();
        if (std::ranges::any_of(own, [&](const Use& one) { return one.reads && results.contains(one.ring); }))
          behind.insert(s.queue);
        found |= read && k > i && writes && !behind.contains(s.queue);
        if (!reads && !behind.contains(s.queue)) return;
        for (const Use& one : own) {
          if (!one.writes) continue;
          results.insert(one.ring);
          const bool released = !open_.contains(one.ring) && std::ranges::count(consumers_[one.ring], s.queue) > 0;
          if (released) behind.insert(s.queue);  // has waited for the result in the trip
        }
      });
      for (const Use& one : all[k])  // committed after the loop
        if (one.writes && behind.contains(one.queue) && finishes(block[k], all[k], one.ring)) results.insert(one.ring);
    }
    return found;
  }

  Block write(const Block& block) {
    using Begins = Version::Begins;
    std::vector<std::vector<Use>> all;
    for (const Statement& statement : block) all.push_back(uses_of(statement));
    const std::map<std::size_t, std::vector<Version>> begun = versions(block, all);
    std::map<std::pair<std::size_t, std::size_t>, const Version*> before, after;  ///< by first statement and ring
    for (const auto& [ring, own] : begun)
      for (const Version& version : own)
        if (version.begins == Begins::before_block)
          open(ring, version, block);
        else
          (version.begins == Begins::in_loop ? after : before)[{version.first, ring}] = &version;
    Block out;
    for (std::size_t first = 0, end = 0; first < block.size(); first = end) {
      end = end_of_run(block, all, first);
      const auto each = [&](const auto& call) {
        for (std::size_t i = first; i < end; ++i)
          for (const Use& use : all[i]) call(use, i);
      };
      each([&](const Use& use, std::size_t i) {
        if (waits(use, all[i], block[i])) wait(use.ring, use.queue, out);
      });
      each([&](const Use& use, std::size_t i) {
        if (const auto version = before.extract({i, use.ring})) acquire(use.ring, *version.mapped(), block, out);
      });
      std::set<std::pair<std::size_t, std::size_t>> finished;  ///< statements and rings
      each([&](const Use& use, std::size_t i) {
        if (!late_.contains(use.ring) && finishes(block[i], all[i], use.ring)) finished.insert({i, use.ring});
      });
      for (std::size_t i = first; i < end; ++i) write_statement(block[i], all[i], out);
      each([&](const Use& use, std::size_t i) {
        const bool hands_over = use.writes && finished.contains({i, use.ring}) && !goes_on(use, i, block, all);
        if (hands_over || overtaken(use, i, block, all)) commit(use, out);
      });
      each([&](const Use& use, std::size_t i) {
        if (owns(block, use.ring)) release(use, i, out);
      });
      each([&](const Use& use, std::size_t i) {
        if (const auto version = after.extract({i, use.ring})) open(use.ring, *version.mapped(), block);
        if (!owns(block, use.ring)) return;
        const Version& version = open_.at(use.ring).version;
        const bool begun = version.begins == Begins::in_loop && version.first == i;
        if (version.last() == i && !begun && !version.ends_in_loop) open_.erase(use.ring);
      });
    }
    return out;
  }

  /// The end of a run of products by several arrays, each of which adds to its part of a ring: none waits for another.
  static std::size_t end_of_run(const Block& block, const std::vector<std::vector<Use>>& all, std::size_t first) {
    const auto sum = [&](std::size_t i) -> const Use* {
      const auto* branch = std::get_if<program::If>(&block[i].action);
      const Statement& one = branch && branch->then.size() == 1 ? branch->then[0] : block[i];
      if (!std::holds_alternative<program::MmaOp>(one.action)) return nullptr;
      const auto found = std::ranges::find_if(all[i], [](const Use& use) { return use.reads && use.writes; });
      return found == all[i].end() ? nullptr : &*found;
    };
    const Use* own = sum(first);
    std::size_t end = first + 1;
    for (; own && end < block.size(); ++end)
      if (const Use* next = sum(end); !next || next->ring != own->ring || next->queue == own->queue) break;
    return end;
  }

  void write_statement(const Statement& statement, const std::vector<Use>& uses, Block& out) {
    if (const auto* loop = std::get_if<program::For>(&statement.action)) {
      write_loop(*loop, uses, statement, out);
    } else if (const auto* branch = std::get_if<program::If>(&statement.action)) {
      write_branch(*branch, uses, statement, out);
    } else if (const auto* begun = std::get_if<program::Acquire>(&statement.action)) {
      const std::size_t ring = ring_of(begun->slot);
      changed_[ring].clear();
      out.push_back({program::Acquire{begun->slot, begins_[ring]}, {}, {}});
    } else if (const auto* piece = std::get_if<program::Commit>(&statement.action)) {
      for (const std::string& queue : std::exchange(written_[ring_of(piece->slot)], {}))
        out.push_back({program::Commit{piece->slot, 0, piece->pieces}, queue, {}});
    } else if (const auto* count = std::get_if<program::Wait>(&statement.action)) {
      const std::size_t ring = ring_of(count->slot);
      commits_[ring] = count->pieces, back_[ring] = count->back;
      waited_[ring].clear();
      changed_[ring] = {consumers_[ring].begin(), consumers_[ring].end()};
      changed_[ring].insert(later_[ring].begin(), later_[ring].end());
    } else if (const auto* last = std::get_if<program::Release>(&statement.action)) {
      const std::size_t ring = ring_of(last->slot);
      for (const std::string& queue : consumers_[ring]) {
        if (changed_[ring].contains(queue)) wait(ring, queue, out);
        out.push_back({program::Release{last->slot, last->back}, queue, {}});
      }
    } else {
      for (const Use& use : uses)
        if (use.writes && rings_[use.ring].counted) add(written_[use.ring], use.queue);
      out.push_back(statement);
    }
  }

  void write_branch(const program::If& branch, const std::vector<Use>& uses, const Statement& statement, Block& out) {
    std::set<std::size_t> late, handed;
    for (const Use& use : uses)
      if (open_.contains(use.ring) && !late_.contains(use.ring) && writes(uses, use.ring))
        (finishes(statement, uses, use.ring) ? late : handed).insert(use.ring);
    late_.insert(late.begin(), late.end());
    const std::vector<Expr> before = commits_;
    std::vector<std::map<std::string, Expr>> waited = waited_;
    std::vector<std::set<std::string>> changed = changed_;
    program::If written{branch.condition, write(branch.then), {}};
    require(handed.empty() || branch.otherwise.empty(), "both sides of a branch hand a ring over");
    changed_.swap(changed);
    written.otherwise = write(branch.otherwise);
    for (std::size_t ring = 0; ring < rings_.size(); ++ring)
      changed_[ring].insert(changed[ring].begin(), changed[ring].end());
    for (const std::size_t ring : late) late_.erase(ring);
    waited_.swap(waited);
    for (const std::size_t ring : handed) {
      waited_[ring].clear();
      commits_[ring] = before[ring] + if_taken(branch, commits_[ring] - before[ring]);
    }
    out.push_back({std::move(written), {}, statement.label});
  }

  /// Releases a version on a queue after the queue's last use.
  void release(const Use& use, std::size_t i, Block& out) {
    const Version& version = open_.at(use.ring).version;
    const auto last = version.uses.find(use.queue);
    if (last == version.uses.end() || last->second != i || version.ends_in_loop) return;
    if (!std::ranges::count(consumers_[use.ring], use.queue)) return;
    wait(use.ring, use.queue, out);
    out.push_back({program::Release{rings_[use.ring].name, 0}, use.queue, {}});
  }

  /// Sets the number of commits for which readers in a loop wait: those of the pieces up to the loop's trip.
  void enter_pieces(std::size_t ring, const program::For& loop) {
    const auto fills = [&](const Statement& statement) {
      const auto* inner = std::get_if<program::For>(&statement.action);
      return inner && in_pieces(ring, *inner) && writes(uses_of(statement), ring);
    };
    Filled& filled = filled_[ring];
    require(filled.by && filled.by->index == loop.index, "a loop reads pieces that no loop like it has filled");
    const Block& body = filled.by->body;
    if (loop.index == rings_[ring].pieces.front()) commits_[ring] = filled.before;
    const auto inner = std::ranges::find_if(body, fills);
    const Expr trips = Expr::symbol(loop.index) + Expr(inner == body.end() ? 1 : 0);
    commits_[ring] = commits_[ring] + trips * commits_in(body, ring);
    filled.by = inner == body.end() ? nullptr : &std::get<program::For>(inner->action);
    waited_[ring].clear();
  }

  void write_loop(const program::For& loop, const std::vector<Use>& uses, const Statement& statement, Block& out) {
    const std::vector<Expr> before = commits_;
    std::map<std::size_t, InTrips> each;
    std::map<std::size_t, Filled> read;  ///< rings whose pieces the loop reads
    std::vector<std::size_t> late;
    for (const Use& use : uses) {
      const std::size_t ring = use.ring;
      if (late_.contains(ring) || turns(uses, ring)) continue;
      if (!open_.contains(ring)) continue;
      if (!writes(uses, ring)) {
        if (in_pieces(ring, loop) && read.emplace(ring, filled_[ring]).second) enter_pieces(ring, loop);
      } else if (finishes(statement, uses, ring)) {
        const auto queues = std::ranges::count(uses, ring, &Use::ring);
        require(loop.index != rings_[ring].carried || queues == 1,
                "a loop that carries a ring uses it on several queues");
        late_.insert(ring), late.push_back(ring);
      } else if (use.writes && !each.contains(ring)) {
        each[ring] = in_trips(loop, commits_in(loop.body, ring));
        commits_[ring] = before[ring] + each[ring].before;
        if (in_pieces(ring, loop) && loop.index == rings_[ring].pieces.front()) filled_[ring] = {&loop, before[ring]};
        waited_[ring].clear();
      }
    }
    for (const Use& use : uses)  // in the trip before
      for (const Use& other : uses)
        if (use.writes && each.contains(use.ring) && other.ring == use.ring && other.queue != use.queue)
          changed_[use.ring].insert(other.queue);
    const std::vector<std::map<std::string, Expr>> waited = waited_;
    std::set<std::size_t> turning = turning_;
    for (const Use& use : uses)
      if (turns(uses, use.ring)) turning_.insert(use.ring);
    program::For written{loop.index, loop.extent, write(loop.body)};
    turning_.swap(turning);
    for (const Use& use : uses) {
      if (!turns(uses, use.ring)) continue;
      require(commits_[use.ring] == before[use.ring], "a trip writes a version as often as what is before its loop");
      for (const auto& [queue, count] : waited[use.ring])
        require(waited_[use.ring].contains(queue), "a trip waits for a version as what is before its loop does");
      open_.erase(use.ring);
    }
    for (const std::size_t ring : late) late_.erase(ring);
    for (const auto& [ring, commits] : each) {
      commits_[ring] = before[ring] + commits.all;
      waited_[ring].clear();
    }
    for (const auto& [ring, filled] : read) filled_[ring] = filled, commits_[ring] = before[ring];
    for (const Use& use : uses)  // the last trip has waited for the last piece
      if (open_.contains(use.ring) && in_pieces(use.ring, loop) && !use.writes)
        waited_[use.ring].insert_or_assign(use.queue, commits_[use.ring]);
    out.push_back({std::move(written), {}, statement.label});
  }

  /// The loop that fills a ring in pieces, and the number of commits before it.
  struct Filled {
    const program::For* by = nullptr;
    Expr before = 0;
  };

  /// A version, and the block that it belongs to.
  struct Open {
    Version version;
    const Block* block;
  };

  const std::vector<Ring>& rings_;
  std::map<std::string, std::size_t> numbers_;  ///< of the rings, by name
  std::vector<std::vector<std::string>> consumers_;
  // Counted rings: queues that write before a piece is complete; others that write; those since the last piece.
  std::vector<std::vector<std::string>> begins_;
  std::vector<std::set<std::string>> later_;
  std::vector<std::vector<std::string>> written_;
  // Per ring: state of its current version before the current statement.
  std::vector<Expr> commits_;
  std::vector<std::map<std::string, Expr>> waited_;  ///< by queue
  std::vector<std::int64_t> back_;
  std::vector<std::set<std::string>> changed_;  ///< queues without a wait since another queue's write
  std::vector<Filled> filled_;
  std::map<std::size_t, Open> open_;  ///< rings that have a version
  std::set<std::size_t> turning_;     ///< rings that enclosing loops hand over from trip to trip
  std::set<std::size_t> late_;        ///< rings that an enclosing loop commits after its last trip
};

}  // namespace

program::Scope write_kernel(program::Scope scope, const std::vector<Ring>& rings, Block body) {
  if (!rings.empty()) return Writer(rings).write(std::move(scope), std::move(body));
  scope.body = std::move(body);
  return scope;
}

Statement statement(program::Action action) { return {std::move(action), {}, {}}; }

Statement begun(const std::string& ring) { return statement(program::Acquire{ring, {}}); }

Statement complete(const std::string& ring, std::int64_t pieces) { return statement(program::Commit{ring, 0, pieces}); }

Statement counted(const std::string& ring, const Expr& pieces) {
  return statement(program::Wait{ring, 0, {}, 0, pieces});
}

Statement released(const std::string& ring) { return statement(program::Release{ring, 0}); }

}  // namespace tilesim::lower
