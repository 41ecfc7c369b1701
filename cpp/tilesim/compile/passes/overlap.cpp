#include "tilesim/compile/passes/overlap.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/passes/addresses.hpp"
#include "tilesim/compile/plan/plan.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

using program::Block;
using program::Statement;

const std::string before_name = "kernels_before", target_name = "to_core";

bool behind_barrier(const Statement& statement) {
  const auto* scope = std::get_if<program::Scope>(&statement.action);
  return scope && scope->barrier;
}

/// Without what lies behind a barrier, where everything before is complete.
template <class Visit>
void for_each_unbarred(Block& block, const Visit& visit) {
  for (Statement& statement : block) {
    visit(statement);
    if (!behind_barrier(statement))
      program::for_each_body(statement, [&](Block& body) { for_each_unbarred(body, visit); });
  }
}

const program::Transfer* transfer_of(const Statement& statement) {
  if (const auto* load = std::get_if<program::Load>(&statement.action)) return &load->transfer;
  if (const auto* store = std::get_if<program::Store>(&statement.action)) return &store->transfer;
  return nullptr;
}

bool is_store(const Statement& statement) { return std::holds_alternative<program::Store>(statement.action); }

class Overlap {
 public:
  Overlap(program::Program& program, const Share& machine) : program_(program), machine_(machine) {
    for (const program::Tensor& tensor : program.tensors) {
      if (!tensor.alias_of.empty()) root_[tensor.name] = tensor.alias_of;
      if (tensor.role == program::Role::weight || tensor.role == program::Role::input) given_.insert(tensor.name);
    }
    const auto collect = [&](Statement& statement) {
      if (is_store(statement)) queues_.insert(statement.queue);
    };
    program::for_each(program.body, collect);
    for (program::Function& function : program.functions) program::for_each(function.body, collect);
  }

  void run() {
    find_given_formals();
    for (program::Function& function : program_.functions) {
      function.parameters.push_back(before_name);
      body(function.body, Expr::symbol(before_name));
    }
    body(program_.body, Expr(0));
    // Several cores: a counter per number of complete kernels.
    const std::int64_t size = several() ? kernels_in(program_.body) + 1 : 1;
    for (const std::string& queue : queues_) program_.counters.push_back({counter(queue), size, true});
  }

 private:
  struct Touched { std::int64_t read = 0, written = 0; };  ///< kernels counted up to the last one that did

  bool several() const { return streams() > 1; }
  /// Cores with all their contexts: those of a core share its counters.
  std::int64_t streams() const { return program_.cores * program_.contexts; }

  static std::string counter(const std::string& queue) { return "kernels." + queue; }

  std::string root(std::string tensor) const {
    for (auto found = root_.find(tensor); found != root_.end(); found = root_.find(tensor)) tensor = found->second;
    return tensor;
  }

  /// Formals that every call binds to a weight or an input: nothing stores to them.
  void find_given_formals() {
    std::map<std::string, bool> given;
    bool changed = true;
    while (changed) {
      changed = false;
      std::map<std::string, bool> now;
      const auto bind = [&](Statement& statement) {
        const auto* call = std::get_if<program::Call>(&statement.action);
        if (!call) return;
        for (const auto& [formal, actual] : call->tensors) {
          const auto entry = now.try_emplace(formal, true).first;
          entry->second = entry->second && (given_.count(root(actual)) != 0);
        }
      };
      program::for_each(program_.body, bind);
      for (program::Function& function : program_.functions) program::for_each(function.body, bind);
      for (const auto& [formal, constant] : now)
        if (constant) changed |= given_.insert(formal).second;
    }
  }

  std::int64_t kernels_in(const std::string& name) const {
    for (const program::Function& function : program_.functions)
      if (function.name == name) return kernels_in(function.body);
    return 0;
  }
  std::int64_t kernels_in(const Block& block) const {
    std::int64_t count = 0;
    for (const Statement& statement : block) {
      if (const auto* loop = std::get_if<program::For>(&statement.action); loop && loop->extent.is_constant())
        count += loop->extent.value() * kernels_in(loop->body);
      if (const auto* scope = std::get_if<program::Scope>(&statement.action)) {
        if (runs_functions(scope->body))
          count += kernels_in(scope->body);
        else
          count += several() ? steps_in(*scope) : 1;
      }
      if (const auto* call = std::get_if<program::Call>(&statement.action)) count += kernels_in(call->function);
    }
    return count;
  }

  /// A loop of the graph: its body is a function.
  static bool runs_functions(const Block& block) {
    return std::any_of(block.begin(), block.end(), [](const Statement& statement) {
      if (const auto* loop = std::get_if<program::For>(&statement.action)) return runs_functions(loop->body);
      return std::holds_alternative<program::Call>(statement.action);
    });
  }

  /// Numbers the kernels of a loop, each of its own steps after all before it; returns how many there are.
  std::int64_t number(Block& block, const Expr& before) {
    const Expr outside = base_;
    base_ = before;
    std::int64_t count = 0;
    Block result;
    for (Statement& statement : block) {
      if (auto* loop = std::get_if<program::For>(&statement.action)) {
        const std::int64_t each = kernels_in(loop->body);
        number(loop->body, before + Expr(count) + Expr::symbol(loop->index) * Expr(each));
        count += each * loop->extent.value();
      } else if (auto* call = std::get_if<program::Call>(&statement.action)) {
        call->parameters[before_name] = before + Expr(count);
        count += kernels_in(call->function);
      } else if (auto* step = std::get_if<program::Scope>(&statement.action)) {
        if (several()) append_waits(result, *queues_.begin(), count);
        step->barrier = true;
        signal(step->body, ++count);
      }
      result.push_back(std::move(statement));
    }
    block = std::move(result);
    base_ = outside;
    return count;
  }

  /// Steps that follow each other within a kernel, or one.
  static std::int64_t steps_in(const program::Scope& kernel) {
    const auto is_step = [](const Statement& s) { return std::holds_alternative<program::Scope>(s.action); };
    return std::max<std::int64_t>(1, std::count_if(kernel.body.begin(), kernel.body.end(), is_step));
  }

  /// The kernel or step is complete on this core, `count` in this body.
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

  /// Steps of a kernel: each after all cores have done those before.
  void separate_steps(program::Scope& kernel, std::int64_t count) const {
    Block result;
    for (Statement& statement : kernel.body) {
      auto* step = std::get_if<program::Scope>(&statement.action);
      if (step) {
        if (!result.empty()) append_waits(result, *queues_.begin(), count);
        step->barrier = true;
        signal(step->body, ++count);
      }
      result.push_back(std::move(statement));
    }
    kernel.body = std::move(result);
  }

  void body(Block& block, const Expr& before) {
    base_ = before;
    Block result;
    std::map<std::string, Touched> touched;
    std::map<std::string, std::int64_t> waited;
    std::int64_t count = 0;
    for (Statement& statement : block) {
      if (auto* call = std::get_if<program::Call>(&statement.action)) {
        call->parameters[before_name] = before + Expr(count);
        count += kernels_in(call->function);
        for (const auto& [formal, actual] : call->tensors) touched[root(actual)] = {count, count};
        result.push_back(std::move(statement));
        continue;
      }
      auto* scope = std::get_if<program::Scope>(&statement.action);
      if (!scope) {
        result.push_back(std::move(statement));
        continue;
      }
      if (runs_functions(scope->body)) {
        place_slots(*scope, machine_, End::low);
        scope->barrier = true;
        count += number(scope->body, before + Expr(count));
        program::for_each(scope->body, [&](Statement& inner) {
          if (const program::Transfer* transfer = transfer_of(inner)) touched[root(transfer->tensor)] = {count, count};
          if (const auto* inner_call = std::get_if<program::Call>(&inner.action))
            for (const auto& [formal, actual] : inner_call->tensors) touched[root(actual)] = {count, count};
        });
        result.push_back(std::move(statement));
        continue;
      }
      const bool steps = several() && steps_in(*scope) > 1;
      if (several() && (steps || machine_.core.kernel_barrier || reads_stored(scope->body))) {
        if (count > 0 || !base_.is_constant()) append_waits(result, *queues_.begin(), count);
      } else {
        kernel(*scope, touched, waited);
      }
      // Every other kernel at the upper end of each memory.
      place_slots(*scope, machine_, machine_.core.kernel_barrier || count % 2 == 0 ? End::low : End::high);
      if (steps) {
        separate_steps(*scope, count);
        count += steps_in(*scope);
      } else {
        signal(scope->body, ++count);
      }
      program::for_each(scope->body, [&](Statement& inner) {
        const program::Transfer* transfer = transfer_of(inner);
        if (!transfer) return;
        Touched& entry = touched[root(transfer->tensor)];
        (is_store(inner) ? entry.written : entry.read) = count;
        for (const program::TransferDim& dim : transfer->dims)
          if (!dim.through.empty()) touched[root(dim.through)].read = count;
      });
      result.push_back(std::move(statement));
    }
    block = std::move(result);
  }

  /// Kernels of this body that must be complete; nothing: no wait. Zero: all before the body.
  std::optional<std::int64_t> needed(const std::string& tensor, bool store,
                                     const std::map<std::string, Touched>& touched) const {
    const std::string owner = root(tensor);
    if (!store && given_.count(owner)) return std::nullopt;
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
    // A queue whose first transfer needs most waits once, at the start.
    std::map<std::string, std::int64_t> first, most;
    for_each_unbarred(scope.body, [&](Statement& statement) {
      if (!transfer_of(statement)) return;
      const std::int64_t count = needed(statement, touched).value_or(-1);
      first.try_emplace(statement.queue, count);
      const auto entry = most.try_emplace(statement.queue, count).first;
      entry->second = std::max(entry->second, count);
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
    for (const std::string& stores : queues_) {
      program::Wait wait;
      wait.counter = counter(stores);
      wait.pieces = base_ + Expr(count);
      if (several()) {
        wait.index = wait.pieces;
        wait.pieces = count > 0 ? Expr(streams()) : min(Expr(streams()), base_ * Expr(streams()));
      }
      block.push_back(on(queue, std::move(wait)));
    }
  }

  /// Waits where they are needed; one holds for what follows in its block and inside it.
  void insert_waits(Block& block, const std::map<std::string, Touched>& touched,
                    std::map<std::string, std::int64_t> waited) const {
    Block result;
    for (Statement& statement : block) {
      if (transfer_of(statement)) {
        const auto count = needed(statement, touched);
        const auto known = waited.find(statement.queue);
        if (count && (known == waited.end() || known->second < *count)) {
          append_waits(result, statement.queue, *count);
          waited[statement.queue] = *count;
        }
      }
      if (!behind_barrier(statement))
        program::for_each_body(statement, [&](Block& body) { insert_waits(body, touched, waited); });
      result.push_back(std::move(statement));
    }
    block = std::move(result);
  }

  /// Whether a loop bound, an address or a predicate reads a tensor.
  static bool reads_stored(Block& block) {
    bool found = false;
    const auto look = [&](const Expr& expr) { found |= expr.reads_tensors(); };
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
  std::map<std::string, std::string> root_;
  std::set<std::string> given_;   ///< tensors that nothing stores to
  std::set<std::string> queues_;  ///< store queues
  Expr base_;
};

}  // namespace

void place_and_overlap(program::Program& program, const Share& machine) {
  if (!machine.core.kernel_barrier || program.cores * program.contexts > 1) return Overlap(program, machine).run();
  const auto place = [&](Statement& statement) {
    if (auto* kernel = std::get_if<program::Scope>(&statement.action)) place_slots(*kernel, machine, End::low);
  };
  std::for_each(program.body.begin(), program.body.end(), place);
  for (program::Function& function : program.functions)
    std::for_each(function.body.begin(), function.body.end(), place);
}

}  // namespace tilesim::lower
