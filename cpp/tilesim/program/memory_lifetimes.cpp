#include "tilesim/program/memory_lifetimes.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "tilesim/base/index.hpp"
#include "tilesim/program/expressions.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::program {

namespace {

constexpr std::size_t most_kernels = std::size_t{1} << 18;
const char* const counters_of_kernels = "kernels.";

/// Thrown if there are too many kernels, or calls inside a condition.
struct NotKnown {};

bool calls_functions(const Block& block) {
  bool found = false;
  for_each(block, [&](const Statement& statement) { found |= std::holds_alternative<Call>(statement.action); });
  return found;
}

/// Walks a program in execution order, each loop once, and records the uses of each tensor.
class Walk {
 public:
  explicit Walk(const Program& program) : program_(program), several_(program.cores * program.contexts > 1) {
    for (const Tensor& tensor : program.tensors) found_.owners[tensor.name] = owner(tensor.alias_of, tensor.name);
    for (const Function& function : program.functions) functions_[function.name] = &function;
    std::set<std::string> stores;
    for (const Counter& counter : program.counters)
      if (counter.name.starts_with(counters_of_kernels)) stores.insert(counter.name);
    ordered_stores_ = stores.size() <= 1 && !several_;
    find_named();
  }

  Lifetimes run() {
    Frame main;
    main.function = "";
    frames_.push_back({});
    try {
      walk(program_.body, main);
    } catch (const NotKnown&) {
      found_.known = false;
      return std::move(found_);
    }
    close(0);
    for (auto kernel = found_.complete.rbegin(); kernel != found_.complete.rend(); ++kernel) {
      if (kernel != found_.complete.rbegin()) *kernel = std::min(*kernel, *(kernel - 1));
    }
    for (const std::string& name : early_) found_.spans[name] = {{0, kernels() - 1}};
    for (auto& [name, spans] : found_.spans) {
      for (Lifetime& span : spans) {  // a loop without kernels may follow the last kernel
        span.last = std::min(span.last, kernels() - 1);
        span.first = std::min(span.first, std::max<std::int64_t>(0, span.last));
      }
      std::sort(spans.begin(), spans.end(), [](const Lifetime& a, const Lifetime& b) { return a.first < b.first; });
    }
    return std::move(found_);
  }

 private:
  struct Used {
    Lifetime span;
    bool stored = false;  ///< stored before any read
  };
  /// A tensor, and the call to which it belongs.
  struct Bound {
    std::string tensor;
    std::size_t frame = 0;
  };
  struct Frame {
    std::string function;
    std::size_t place = 0;   ///< index in frames_
    std::int32_t calls = 0;  ///< call context in the numbering
    std::map<std::string, Bound> formals;
    std::int64_t before = 0;  ///< kernels that are complete before the call
  };

  std::int64_t kernels() const { return static_cast<std::int64_t>(ends_.size()); }

  std::string owner(const std::string& alias_of, const std::string& own) const {
    if (alias_of.empty()) return own;
    const auto found = found_.owners.find(alias_of);
    return found == found_.owners.end() ? alias_of : found->second;
  }

  /// Finds tensors that only one function names; each call has separate contents of such a tensor.
  void find_named() {
    for_each_function(program_, [&](const Block& body, const std::string& function) {
      const auto name = [&](const std::string& tensor) {
        const auto own = found_.owners.find(tensor);
        if (own == found_.owners.end()) return;
        const auto [entry, fresh] = home_.emplace(own->second, function);
        if (!fresh && entry->second != function) entry->second.clear();
      };
      for_each(body, [&](const Statement& statement) {
        names_of(statement, [&](const std::string& tensor, bool) { name(tensor); });
        if (const auto* call = std::get_if<Call>(&statement.action))
          for (const auto& [formal, actual] : call->tensors) name(actual);
      });
    });
  }

  template <class Visit>
  static void read_by(const Expr& expr, const Visit& visit) {
    if (expr.kind() == Expr::Kind::read) visit(expr.name(), false);
    for (const Expr& argument : expr.arguments()) read_by(argument, visit);
  }

  /// Calls visit(tensor, whether it is stored) for the tensors that a statement uses, without nested statements.
  template <class Visit>
  static void names_of(const Statement& statement, const Visit& visit) {
    for_each_expression(statement, [&](const Expr& expr) { read_by(expr, visit); });
    const auto* load = std::get_if<Load>(&statement.action);
    const auto* store = std::get_if<Store>(&statement.action);
    const Transfer* transfer = load ? &load->transfer : store ? &store->transfer : nullptr;
    if (const auto* call = std::get_if<Call>(&statement.action))
      for (const auto& [name, value] : call->parameters) read_by(value, visit);
    if (!transfer) return;
    for (const TransferDim& dim : transfer->dims)
      if (!dim.through.empty()) visit(dim.through, false);
    visit(transfer->tensor, store != nullptr);
  }

  Bound resolve(const std::string& name, const Frame& frame) const {
    if (const auto formal = frame.formals.find(name); formal != frame.formals.end()) return formal->second;
    const auto own = found_.owners.find(name);
    if (own == found_.owners.end()) return {name, 0};
    const auto home = home_.find(own->second);
    const bool local = home != home_.end() && !home->second.empty() && home->second == frame.function;
    return {own->second, local ? frame.place : 0};
  }

  void use(const Bound& bound, Lifetime span, bool store) {
    auto& used = frames_[bound.frame];
    const auto [entry, fresh] = used.try_emplace(bound.tensor, Used{span, store});
    if (fresh && !store) early_.insert(bound.tensor);
    entry->second.span.first = std::min(entry->second.span.first, span.first);
    entry->second.span.last = std::max(entry->second.span.last, span.last);
  }

  void walk(const Block& block, const Frame& frame) {
    for (const Statement& statement : block) {
      worked(64);
      if (const auto* scope = std::get_if<Scope>(&statement.action))
        calls_functions(scope->body) ? steps(*scope, frame) : kernel(*scope, frame);
      else if (const auto* loop = std::get_if<For>(&statement.action))
        trips(*loop, frame);
      else if (const auto* call = std::get_if<Call>(&statement.action))
        enter(*call, frame);
      else if (const auto* wait = std::get_if<Wait>(&statement.action))
        waited_ = std::max(waited_, complete_after(*wait, frame));
      else
        loose(statement, frame);
    }
  }

  /// Walks a loop of the graph, with the copies before it.
  void steps(const Scope& scope, const Frame& frame) {
    if (scope.barrier && !several_) waited_ = kernels();
    walk(scope.body, frame);
  }

  void trips(const For& loop, const Frame& frame) {
    const std::int64_t first = kernels(), counted = counted_;
    walk(loop.body, frame);
    if (loop.extent.is_constant())
      counted_ = counted + (counted_ - counted) * std::max<std::int64_t>(0, loop.extent.value());
    std::fill(ends_.begin() + first, ends_.end(), counted_);
    const Lifetime whole{first, std::max(first, kernels() - 1)};
    const auto keep = [&](const std::string& name) { use(resolve(name, frame), whole, true); };
    for_each(loop.body, [&](const Statement& statement) {
      names_of(statement, [&](const std::string& tensor, bool) { keep(tensor); });
      if (const auto* call = std::get_if<Call>(&statement.action))
        for (const auto& [formal, actual] : call->tensors) keep(actual);
    });
  }

  void enter(const Call& call, const Frame& caller) {
    const auto function = functions_.find(call.function);
    if (function == functions_.end()) return;
    Frame frame;
    frame.function = call.function;
    frame.place = frames_.size();
    frame.calls = found_.numbers.enter(caller.calls, &call);
    frame.before = counted_;
    for (const auto& [formal, actual] : call.tensors) frame.formals[formal] = resolve(actual, caller);
    frames_.push_back({});
    walk(function->second->body, frame);
    close(frame.place);
    frames_.pop_back();
  }

  /// Walks a separate kernel, or a statement outside kernels, which is numbered like a kernel.
  void loose(const Statement& statement, const Frame& frame) {
    const std::int64_t number = begin();
    names_of(statement,
             [&](const std::string& tensor, bool store) { use(resolve(tensor, frame), {number, number}, store); });
    for_each_body(statement, [&](const Block& body) { inside(body, number, frame); });
    end(1);
  }

  void kernel(const Scope& scope, const Frame& frame) {
    const std::int64_t number = begin();
    found_.kernels.back() = &scope;
    found_.numbers.add(frame.calls, &scope, number);
    if (scope.barrier && !several_) waited_ = number;
    std::int64_t before_stores = waited_, all = waited_;
    bool stored = false;
    for_each(scope.body, [&](const Statement& statement) {
      stored |= std::holds_alternative<Store>(statement.action);
      const auto* wait = std::get_if<Wait>(&statement.action);
      if (!wait) return;
      const std::int64_t known = complete_after(*wait, frame);
      all = std::max(all, known);
      if (!stored) before_stores = std::max(before_stores, known);
    });
    found_.complete[at(number)] = before_stores;
    // Stores of one queue start in order, after the waits of their kernel.
    if (ordered_stores_) waited_ = all;
    inside(scope.body, number, frame);
    std::int64_t steps = 0;
    for (const Statement& statement : scope.body) steps += std::holds_alternative<Scope>(statement.action) ? 1 : 0;
    end(several_ ? std::max<std::int64_t>(1, steps) : 1);
  }

  void inside(const Block& block, std::int64_t number, const Frame& frame) {
    for_each(block, [&](const Statement& statement) {
      if (std::holds_alternative<Call>(statement.action)) throw NotKnown{};
      names_of(statement,
               [&](const std::string& tensor, bool store) { use(resolve(tensor, frame), {number, number}, store); });
    });
  }

  std::int64_t begin() {
    if (ends_.size() >= most_kernels) throw NotKnown{};
    found_.complete.push_back(waited_);
    found_.kernels.push_back(nullptr);
    ends_.push_back(std::numeric_limits<std::int64_t>::max());
    return kernels() - 1;
  }

  void end(std::int64_t count) { ends_.back() = counted_ += count; }

  /// Number of kernels that are complete after a wait for a number of kernels; in loops, as in the first trip.
  std::int64_t complete_after(const Wait& wait, const Frame& frame) const {
    if (!wait.counter.starts_with(counters_of_kernels)) return 0;
    const Expr& count = several_ ? wait.index : wait.pieces;
    if (count.reads_tensors()) return 0;
    const std::int64_t done = count.evaluate(
        [&](const std::string& name) -> std::int64_t { return name == "kernels_before" ? frame.before : 0; });
    return std::upper_bound(ends_.begin(), ends_.end(), done) - ends_.begin();
  }

  void close(std::size_t frame) {
    for (const auto& [name, used] : frames_[frame]) found_.spans[name].push_back(used.span);
  }

  const Program& program_;
  bool several_, ordered_stores_ = true;
  Lifetimes found_;
  std::map<std::string, const Function*> functions_;
  std::map<std::string, std::string> home_;  ///< by tensor: the only function that names it; empty: others
  std::vector<std::map<std::string, Used>> frames_;
  std::set<std::string> early_;     ///< tensors that are read before any store
  std::vector<std::int64_t> ends_;  ///< per kernel: number of complete kernels when it completes
  std::int64_t counted_ = 0, waited_ = 0;
};

}  // namespace

std::int64_t KernelNumbering::number(const std::vector<const Call*>& path, const Scope* scope) const {
  std::int32_t place = 0;
  for (const Call* call : path) {
    const auto next = calls_.find({place, call});
    if (next == calls_.end()) return -1;
    place = next->second;
  }
  const auto found = kernels_.find({place, scope});
  return found == kernels_.end() ? -1 : found->second;
}

Lifetimes lifetimes(const Program& program) { return Walk(program).run(); }

}  // namespace tilesim::program
