#include "tilesim/compile/passes/overlap.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/passes/given.hpp"
#include "tilesim/compile/passes/numbers.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

using program::Block;
using program::Statement;

const std::string before_name = kernels_before, counters_of_kernels = "kernels.", target_name = "to_core";

/// Enters the statement's bodies, unless it has a barrier, which completes everything before.
template <class State>
std::optional<State> unbarred(const Statement& statement, const State& known) {
  const auto* scope = std::get_if<program::Scope>(&statement.action);
  return scope && scope->barrier ? std::nullopt : program::inside(statement, known);
}

const program::Transfer* transfer_of(const Statement& statement) {
  if (const auto* load = std::get_if<program::Load>(&statement.action)) return &load->transfer;
  if (const auto* store = std::get_if<program::Store>(&statement.action)) return &store->transfer;
  return nullptr;
}

bool is_store(const Statement& statement) { return std::holds_alternative<program::Store>(statement.action); }

/// Appends the wait for one counter.
void append_wait(Block& block, const std::string& counter, std::int64_t streams, const std::string& queue,
                 const Expr& base, std::int64_t count) {
  program::Wait wait;
  wait.counter = counter;
  wait.pieces = base + Expr(count);
  if (streams > 1) {
    wait.index = wait.pieces;
    wait.pieces = count > 0 ? Expr(streams) : min(Expr(streams), base * Expr(streams));
  }
  block.push_back(on(queue, std::move(wait)));
}

class Overlap {
 public:
  Overlap(program::Program& program, const Share& machine)
      : program_(program), machine_(machine), numbers_(program), given_(program) {
    for (const program::Tensor& tensor : program.tensors)
      if (tensor.role == program::Role::weight) weights_.insert(tensor.name);
    const auto collect = [&](Statement& statement) {
      if (is_store(statement)) queues_.insert(statement.queue);
    };
    program::for_each_function(program, [&](Block& body, const std::string&) { program::for_each(body, collect); });
  }

  void run() {
    // With several cores, one counter per number of complete kernels.
    const std::int64_t size = several() ? numbers_.kernels_in(program_.body) + 1 : 1;
    for (program::Function& function : program_.functions) function.parameters.push_back(before_name);
    program::for_each_function(program_, [&](Block& block, const std::string& function) {
      body(block, function.empty() ? Expr(0) : Expr::symbol(before_name));
    });
    for (const std::string& queue : queues_) program_.counters.push_back({counter(queue), size, true});
  }

 private:
  struct Touched { std::int64_t read = 0, written = 0; };  ///< numbers of the last kernels that read and wrote

  bool several() const { return numbers_.several(); }

  static std::string counter(const std::string& queue) { return counters_of_kernels + queue; }

  std::string root(const std::string& tensor) const { return given_.owner(tensor); }

  /// Numbers the kernels of a loop: those of an iteration follow all earlier ones.
  void number(Block& block, const Expr& before) {
    struct Trip {
      Expr before;
      std::int64_t count = 0;
    };
    const auto visit = [&](Statement& statement, Trip& trip, Block& waits) -> std::optional<Trip> {
      base_ = trip.before;
      const std::int64_t count = trip.count;
      trip.count += numbers_.kernels_in(statement);
      if (const auto* loop = std::get_if<program::For>(&statement.action))
        return Trip{trip.before + Expr(count) + Expr::symbol(loop->index) * Expr(numbers_.kernels_in(loop->body)), 0};
      if (auto* call = std::get_if<program::Call>(&statement.action)) {
        call->parameters[before_name] = trip.before + Expr(count);
      } else if (auto* step = std::get_if<program::Scope>(&statement.action)) {
        if (several()) append_waits(waits, *queues_.begin(), count);
        step->barrier = true;
        signal(step->body, trip.count);
      }
      return std::nullopt;
    };
    const Expr outside = base_;
    program::rewrite_knowing(block, Trip{before, 0}, visit);
    base_ = outside;
  }

  /// Signals that kernel or step number `count` of this body is complete on this core.
  void signal(Block& block, std::int64_t count) const {
    for (const std::string& queue : queues_) {
      if (!several()) {
        block.push_back(on(queue, program::Signal{counter(queue), Expr::symbol("core"), 0, 1}));
        continue;
      }
      Block each;
      each.push_back(on(queue, program::Signal{counter(queue), Expr::symbol(target_name), base_ + Expr(count), 1}));
      block.push_back(loop(target_name, Expr(program_.cores), std::move(each)));
    }
  }

  /// Makes each step of a kernel wait until all cores have completed the previous steps.
  void separate_steps(program::Scope& kernel, std::int64_t count) const {
    bool first = true;
    program::rewrite_knowing(kernel.body, count, [&](Statement& statement, std::int64_t& done, Block& waits) {
      if (auto* step = std::get_if<program::Scope>(&statement.action)) {
        if (!first) append_waits(waits, *queues_.begin(), done);
        step->barrier = true;
        signal(step->body, ++done);
      }
      first = false;
      return std::optional<std::int64_t>();
    });
  }

  /// State before a kernel of a body.
  struct PriorKernels {
    std::map<std::string, Touched> touched;
    std::map<std::string, std::int64_t> waited;
    std::int64_t count = 0;
  };

  void body(Block& block, const Expr& before) {
    base_ = before;
    program::rewrite_knowing(block, PriorKernels(), [&](Statement& statement, PriorKernels& known, Block& waits) {
      const std::int64_t count = known.count;
      known.count += numbers_.kernels_in(statement);
      if (auto* call = std::get_if<program::Call>(&statement.action)) {
        call->parameters[before_name] = before + Expr(count);
        touch(known, *call);
      } else if (auto* scope = std::get_if<program::Scope>(&statement.action)) {
        const bool loops = KernelNumbers::runs_functions(scope->body);
        one(*scope, loops, count, known, waits);
        program::for_each(scope->body, [&](const Statement& inner) { touch(known, loops, inner); });
      }
      return std::optional<PriorKernels>();
    });
  }

  /// Handles a kernel or a loop of the graph that follows `count` kernels of its body.
  void one(program::Scope& scope, bool loops, std::int64_t count, PriorKernels& known, Block& waits) {
    if (loops) {
      scope.barrier = true;
      return number(scope.body, base_ + Expr(count));
    }
    const bool steps = several() && KernelNumbers::steps_in(scope) > 1;
    const bool one = KernelNumbers::steps_in(scope) == 1 && !scope.body.empty();
    if (one)  // a step at the start waits for what the kernel waits for
      if (auto* step = std::get_if<program::Scope>(&scope.body.front().action)) step->barrier = false;
    if (several() && (steps || machine_.core.kernel_barrier || reads_stored(scope.body))) {
      if (count > 0 || !base_.is_constant()) append_waits(waits, *queues_.begin(), count);
    } else {
      kernel(scope, known.touched, known.waited);
    }
    if (steps)
      separate_steps(scope, count);
    else
      signal(scope.body, known.count);
  }

  /// Records that a called function may read and write all its tensors.
  void touch(PriorKernels& known, const program::Call& call) const {
    for (const auto& [formal, actual] : call.tensors) known.touched[root(actual)] = {known.count, known.count};
  }

  /// Records the reads and writes of a statement; a loop of the graph may read and write in any trip.
  void touch(PriorKernels& known, bool loops, const Statement& inner) const {
    if (const auto* call = std::get_if<program::Call>(&inner.action)) return touch(known, *call);
    const program::Transfer* transfer = transfer_of(inner);
    if (!transfer) return;
    Touched& entry = known.touched[root(transfer->tensor)];
    if (loops) {
      entry = {known.count, known.count};
      return;
    }
    (is_store(inner) ? entry.written : entry.read) = known.count;
    for (const program::TransferDim& dim : transfer->dims)
      if (!dim.through.empty()) known.touched[root(dim.through)].read = known.count;
  }

  /// Number of kernels of this body that must be complete; empty: no wait; zero: all kernels before the body.
  std::optional<std::int64_t> needed(const std::string& tensor, bool store,
                                     const std::map<std::string, Touched>& touched) const {
    const std::string owner = root(tensor);
    if (!store && given_.contains(owner)) return std::nullopt;
    const auto found = touched.find(owner);
    std::int64_t count = 0;
    if (found != touched.end())
      count = store ? std::max(found->second.read, found->second.written) : found->second.written;
    if (count == 0 && base_.is_constant()) return std::nullopt;
    return count;
  }

  std::optional<std::int64_t> needed(const Statement& statement, const std::map<std::string, Touched>& touched) const {
    const program::Transfer* transfer = transfer_of(statement);
    std::optional<std::int64_t> most = needed(transfer->tensor, is_store(statement), touched);
    for (const program::TransferDim& dim : transfer->dims) {
      if (dim.through.empty()) continue;
      const auto other = needed(dim.through, false, touched);
      if (other && (!most || *other > *most)) most = other;
    }
    return most;
  }

  void kernel(program::Scope& scope, const std::map<std::string, Touched>& touched,
              std::map<std::string, std::int64_t>& waited) {
    if (reads_stored(scope.body)) return;
    scope.barrier = false;
    // A queue waits once, at the start, if its first transfer needs the most kernels.
    std::map<std::string, std::int64_t> first, most;
    program::for_each_knowing(scope.body, 0, [&](const Statement& statement, int) {
      if (transfer_of(statement)) {
        const std::int64_t count = needed(statement, touched).value_or(-1);
        first.try_emplace(statement.queue, count);
        const auto entry = most.try_emplace(statement.queue, count).first;
        entry->second = std::max(entry->second, count);
      }
      return unbarred(statement, 0);
    });
    Block start;
    for (const auto& [queue, count] : most) {
      const auto known = waited.find(queue);
      if (count < 0 || first[queue] != count || (known != waited.end() && known->second >= count)) continue;
      append_waits(start, queue, count);
      waited[queue] = count;
    }
    insert_waits(scope.body, touched, waited);
    scope.body.insert(scope.body.begin(), start.begin(), start.end());
  }

  void append_waits(Block& block, const std::string& queue, std::int64_t count) const {
    for (const std::string& stores : queues_)
      append_wait(block, counter(stores), numbers_.streams(), queue, base_, count);
  }

  /// Inserts waits; a wait also covers later statements of its block and their bodies.
  void insert_waits(Block& block, const std::map<std::string, Touched>& touched,
                    const std::map<std::string, std::int64_t>& waited) const {
    using Waited = std::map<std::string, std::int64_t>;
    program::rewrite_knowing(block, waited, [&](Statement& statement, Waited& known, Block& waits) {
      if (transfer_of(statement)) {
        const auto count = needed(statement, touched);
        const auto found = known.find(statement.queue);
        if (count && (found == known.end() || found->second < *count)) {
          append_waits(waits, statement.queue, *count);
          known[statement.queue] = *count;
        }
      }
      return unbarred(statement, known);
    });
  }

  /// Whether an expression reads a tensor other than a weight.
  bool reads_stored(const Expr& expr) const {
    if (expr.kind() == Expr::Kind::read && !weights_.contains(expr.name())) return true;
    return std::ranges::any_of(expr.arguments(), [&](const Expr& argument) { return reads_stored(argument); });
  }

  /// Whether a loop bound, an address or a predicate reads a tensor other than a weight.
  bool reads_stored(Block& block) const {
    bool found = false;
    const auto look = [&](const Expr& expr) { found = found || reads_stored(expr); };
    program::for_each(block, [&](Statement& statement) {
      if (const auto* loop = std::get_if<program::For>(&statement.action)) look(loop->extent);
      if (const auto* branch = std::get_if<program::If>(&statement.action)) look(branch->condition);
      const program::Transfer* transfer = transfer_of(statement);
      if (!transfer) return;
      for (const Expr& expr : transfer->at) look(expr);
      for (const program::TransferDim& dim : transfer->dims) {
        look(dim.extent);
        for (const Expr& expr : dim.through_at) look(expr);
      }
    });
    return found;
  }

  program::Program& program_;
  const Share& machine_;
  KernelNumbers numbers_;
  Given given_;
  std::set<std::string> weights_;
  std::set<std::string> queues_;  ///< store queues
  Expr base_;
};

}  // namespace

std::string kernels_counted_on(const program::Counter& counter) {
  return counter.name.starts_with(counters_of_kernels) ? counter.name.substr(counters_of_kernels.size()) : "";
}

void append_waits(program::Block& block, const program::Program& program, const std::string& queue, const Expr& base,
                  std::int64_t count) {
  for (const program::Counter& counter : program.counters)
    if (counter.name.starts_with(counters_of_kernels))
      append_wait(block, counter.name, program.cores * program.contexts, queue, base, count);
}

void overlap(program::Program& program, const Share& machine) {
  if (!machine.core.kernel_barrier || program.cores * program.contexts > 1) Overlap(program, machine).run();
}

}  // namespace tilesim::lower
