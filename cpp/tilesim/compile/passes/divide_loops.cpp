// Splits the loops of a kernel over cores if the program proves that their trips are independent.
#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "tilesim/base/shape.hpp"
#include "tilesim/compile/plan/divide.hpp"
#include "tilesim/machine/parts.hpp"
#include "tilesim/program/expressions.hpp"
#include "tilesim/program/visit.hpp"

namespace tilesim::lower {

namespace {

using program::Block;
using program::Statement;

using Ranges = std::map<std::string, Expr::Range>;

/// Factor of the symbol in an expression that is affine in it; empty if it is not.
std::optional<std::int64_t> coefficient(const Expr& expr, const std::string& symbol) {
  if (!expr.symbols().count(symbol)) return 0;
  switch (expr.kind()) {
    case Expr::Kind::symbol:
      return 1;
    case Expr::Kind::add: {
      std::int64_t sum = 0;
      for (const Expr& term : expr.arguments()) {
        const auto one = coefficient(term, symbol);
        if (!one) return std::nullopt;
        sum += *one;
      }
      return sum;
    }
    case Expr::Kind::multiply: {
      const auto one = coefficient(expr.arguments()[0], symbol);
      return one ? std::optional(*one * expr.operand()) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

/// Accesses of a kernel, gathered once.
struct Facts {
  struct StoreAt {
    const program::Transfer* transfer;
    std::vector<std::string> loops;  ///< loops around the store, outermost first
  };
  std::vector<StoreAt> stores;
  std::vector<const program::Transfer*> loads;
  std::set<std::string> indices;  ///< tensors that determine addresses of other accesses
  Ranges ranges;                  ///< of every loop index
  bool known = true;              ///< false: an unsupported statement occurs
};

class Divider {
 public:
  Divider(program::Scope& scope, program::Program& program, TensorIndex& tensors, const Share& machine)
      : scope_(scope),
        program_(program),
        tensors_(tensors),
        machine_(machine),
        cores_(machine.core.count),
        speeds_(vector_speeds(machine)) {}

  void run() {
    if (divided()) return;
    gather(scope_.body);
    if (facts_.known && stores_are_apart() && divide()) return;
    const std::string name = scope_.kernel.empty() ? join(scope_.operation, "+") : scope_.kernel;
    program_.notes.push_back(name + ": its trips are not proven independent; the first core runs it alone");
    program::If first{less(Expr::symbol("core"), Expr(1)), std::move(scope_.body), {}};
    scope_.body = {};
    scope_.body.push_back(on("", std::move(first)));
  }

 private:
  bool divided() const {
    bool asks = false;
    program::for_each(std::as_const(scope_.body), [&](const Statement& statement) {
      program::for_each_expression(statement, [&](const Expr& expr) { asks |= expr.symbols().contains("core"); });
    });
    return asks;
  }

  std::string root(std::string tensor) const {
    for (const program::Tensor* found = tensors_.find(program_, tensor); found && !found->alias_of.empty();
         found = tensors_.find(program_, tensor))
      tensor = found->alias_of;
    return tensor;
  }

  void gather(const Block& block) {
    using Loops = std::vector<std::string>;
    program::for_each_knowing(block, Loops(), [&](const Statement& statement, const Loops& around) {
      if (const auto* loop = std::get_if<program::For>(&statement.action)) {
        if (std::find(around.begin(), around.end(), loop->index) != around.end()) facts_.known = false;
        const Expr::Range trips = loop->extent.range(facts_.ranges);
        Expr::Range& range = facts_.ranges[loop->index];  // one range for all loops of this name
        range = {0, std::max({std::int64_t{0}, range.high, trips.high - 1})};
        Loops inside = around;
        inside.push_back(loop->index);
        return std::optional(std::move(inside));
      } else if (const auto* load = std::get_if<program::Load>(&statement.action)) {
        facts_.loads.push_back(&load->transfer);
        through(load->transfer);
      } else if (const auto* store = std::get_if<program::Store>(&statement.action)) {
        facts_.stores.push_back({&store->transfer, around});
        through(store->transfer);
      } else if (std::holds_alternative<program::Scope>(statement.action) ||
                 std::holds_alternative<program::Call>(statement.action) ||
                 std::holds_alternative<program::Send>(statement.action) ||
                 std::holds_alternative<program::OpaqueOp>(statement.action)) {
        facts_.known = false;
        return std::optional<Loops>();
      }
      return program::inside(statement, around);
    });
  }

  void through(const program::Transfer& transfer) {
    for (const program::TransferDim& dim : transfer.dims)
      if (!dim.through.empty()) facts_.indices.insert(root(dim.through));
  }

  /// Whether the kernel's stores do not affect its addresses.
  bool stores_are_apart() const {
    return std::none_of(facts_.stores.begin(), facts_.stores.end(), [&](const Facts::StoreAt& store) {
      return facts_.indices.count(root(store.transfer->tensor)) != 0;
    });
  }

  const program::Tensor* tensor(const program::Transfer& transfer) const {
    return tensors_.find(program_, transfer.tensor);
  }

  /// Whether loads of the stored tensor's bytes access the same elements as the store along this axis.
  bool reads_there(const program::Transfer& store, std::size_t axis) const {
    const auto along = [&](const program::Transfer& transfer) {
      std::vector<std::pair<std::string, std::string>> steps;
      for (const program::TransferDim& dim : transfer.dims)
        if (dim.axis == static_cast<int>(axis)) steps.emplace_back(dim.extent.text(), dim.step.text());
      return steps;
    };
    return std::ranges::all_of(facts_.loads, [&](const program::Transfer* load) {
      if (root(load->tensor) != root(store.tensor)) return true;
      return tensor(*load)->shape == tensor(store)->shape && load->at[axis] == store.at[axis] &&
             along(*load) == along(store);
    });
  }

  /// Whether two trips of the loop never store the same element, or one that the other reads, for any trips of the
  /// other loops; the loops in `held` are at the same trip.
  bool separates(const Facts::StoreAt& store, const std::string& index, const std::set<std::string>& held) const {
    if (std::find(store.loops.begin(), store.loops.end(), index) == store.loops.end()) return false;
    const program::Transfer& t = *store.transfer;
    for (const program::Slot& slot : scope_.slots)
      if (slot.name == t.slot && bits(slot.dtype) < 8) return false;  // adjacent elements share a byte
    for (std::size_t axis = 0; axis < t.at.size(); ++axis)
      if (separates(t, axis, index, held) && reads_there(t, axis)) return true;
    return false;
  }

  /// Steps along an axis: the distance of one, and the sum of all.
  struct Stride { std::int64_t by = 0, reach = 0; };

  /// The same along one axis. A position is a sum of steps: of this loop, of other loops, of the transfer. If each step
  /// of this loop, and each longer one, exceeds the sum of all shorter ones, the position determines the trip.
  bool separates(const program::Transfer& t, std::size_t axis, const std::string& index,
                 const std::set<std::string>& held) const {
    const auto distance = coefficient(t.at[axis], index);
    if (!distance || *distance == 0) return false;
    constexpr std::int64_t limit = std::int64_t{1} << 40;
    Expr rest = t.at[axis].substitute({{index, Expr(0)}});
    std::vector<Stride> steps;
    for (const auto& [loop, range] : facts_.ranges) {
      const auto by = coefficient(rest, loop);
      if (!by || *by == 0) continue;
      rest = rest.substitute({{loop, Expr(0)}});
      if (held.count(loop) || range.high == 0) continue;
      if (std::abs(*by) >= limit || range.high >= limit / std::abs(*by)) return false;
      steps.push_back({std::abs(*by), std::abs(*by) * range.high});
    }
    if (rest.symbols().count("core") || rest.reads_tensors()) return false;
    const Expr::Range start = rest.range(facts_.ranges);
    if (start.low < -limit || start.high > limit) return false;
    steps.push_back({0, start.high - start.low});
    for (const program::TransferDim& dim : t.dims) {
      if (dim.axis != static_cast<int>(axis)) continue;
      const Expr::Range extent = dim.extent.range(facts_.ranges), step = dim.step.range(facts_.ranges);
      if (!dim.through.empty() || extent.high >= limit || step.low != step.high || std::abs(step.low) >= limit)
        return false;
      const std::int64_t by = std::abs(step.low), last = std::max<std::int64_t>(0, extent.high - 1);
      if (by > 0 && last >= limit / by) return false;
      steps.push_back({by, by * last});
    }
    std::ranges::sort(steps, {}, &Stride::by);
    const std::int64_t own = std::abs(*distance);
    const auto longer = std::ranges::find_if(steps, [&](const Stride& one) { return one.by > own; });
    std::int64_t shorter = 0;
    for (auto one = steps.begin(); one != longer; ++one) shorter += one->reach;
    if (shorter >= own) return false;
    shorter += own * facts_.ranges.at(index).high;
    for (auto one = longer; one != steps.end(); shorter += one++->reach)
      if (one->reach > 0 && shorter >= one->by) return false;
    return true;
  }

  using Slots = std::set<std::string>;

  static bool owned(const Slots& acquired, const std::string& slot, std::int64_t back) {
    return back == 0 && acquired.count(slot) > 0;
  }
  static bool owned(const Slots& acquired, std::initializer_list<const program::View*> views) {
    return std::all_of(views.begin(), views.end(),
                       [&](const program::View* view) { return owned(acquired, view->slot, view->back); });
  }

  /// Whether the statement itself uses acquired slots only.
  static bool touches_owned(const program::Action& action, const Slots& acquired) {
    if (std::holds_alternative<program::Acquire>(action) || std::holds_alternative<program::For>(action) ||
        std::holds_alternative<program::If>(action))
      return true;
    if (const auto* commit = std::get_if<program::Commit>(&action)) return owned(acquired, commit->slot, commit->back);
    if (const auto* release = std::get_if<program::Release>(&action))
      return owned(acquired, release->slot, release->back);
    if (const auto* wait = std::get_if<program::Wait>(&action))
      return wait->counter.empty() && owned(acquired, wait->slot, wait->back);
    if (const auto* load = std::get_if<program::Load>(&action))
      return owned(acquired, load->transfer.slot, load->transfer.back);
    if (const auto* store = std::get_if<program::Store>(&action))
      return owned(acquired, store->transfer.slot, store->transfer.back);
    if (const auto* mma = std::get_if<program::MmaOp>(&action)) return owned(acquired, {&mma->a, &mma->b, &mma->c});
    if (const auto* vector = std::get_if<program::VectorOp>(&action)) {
      const auto out = [&](const program::VectorOutputSpec& output) { return owned(acquired, {&output.view}); };
      const auto in = [&](const program::View& view) { return owned(acquired, {&view}); };
      return std::ranges::all_of(vector->inputs, in) && std::ranges::all_of(vector->outputs, out);
    }
    if (const auto* permute = std::get_if<program::PermuteOp>(&action))
      return owned(acquired, {&permute->in, &permute->out});
    if (const auto* indexed = std::get_if<program::IndexedOp>(&action))
      return owned(acquired, {&indexed->in, &indexed->index, &indexed->out});
    if (const auto* sort = std::get_if<program::SortOp>(&action))
      return owned(acquired, sort->in.slot, sort->in.back) &&
             (sort->keys.slot.empty() || owned(acquired, {&sort->keys})) &&
             (sort->positions.slot.empty() || owned(acquired, {&sort->positions}));
    return false;
  }

  /// Whether the trip acquires every slot before it uses the slot.
  static bool owns_slots(const Block& trip) {
    bool fine = true;
    program::for_each_knowing(trip, Slots(), [&](const Statement& statement, Slots& acquired) {
      if (const auto* acquire = std::get_if<program::Acquire>(&statement.action)) acquired.insert(acquire->slot);
      fine = fine && touches_owned(statement.action, acquired);
      return fine ? program::inside(statement, acquired) : std::nullopt;
    });
    return fine;
  }

  /// Nested loops around the kernel, outermost first, that may be split. Different trips of a loop are independent, so
  /// an inner loop need only be independent of itself within one trip.
  std::vector<program::For*> divisible() {
    std::vector<program::For*> loops;
    std::set<std::string> held;
    Block* block = &scope_.body;
    while (block->size() == 1) {
      auto* loop = std::get_if<program::For>(&block->front().action);
      if (!loop) break;
      const bool apart = std::all_of(facts_.stores.begin(), facts_.stores.end(),
                                     [&](const Facts::StoreAt& store) { return separates(store, loop->index, held); });
      if (loop->extent.is_constant() && loop->extent.value() > 1 && apart && owns_slots(loop->body))
        loops.push_back(loop), held.insert(loop->index);
      block = &loop->body;
    }
    return loops;
  }

  bool divide() {
    std::vector<program::For*> loops = divisible();
    if (!speeds_.empty()) return divide_by_speed(loops);
    if (loops.size() > 4) loops.resize(4);
    std::vector<std::int64_t> extents;
    for (const program::For* loop : loops) extents.push_back(loop->extent.value());
    const std::vector<std::int64_t> parts = parts_of_loops(extents, cores_);
    std::int64_t used = 1;
    for (std::int64_t count : parts) used *= count;
    if (used < 2) return false;
    std::int64_t inner = used;
    for (std::size_t i = 0; i < loops.size(); ++i) {
      inner /= parts[i];
      if (parts[i] < 2) continue;
      const Expr digit = inner == 1 ? Expr::symbol("core") : floor_div(Expr::symbol("core"), inner);
      const Expr part = inner * parts[i] == used ? digit : modulo(digit, parts[i]);
      const std::int64_t trips = loops[i]->extent.value();
      const Expr first = floor_div(part * Expr(trips), parts[i]);
      loops[i]->extent =
          trips % parts[i] == 0 ? Expr(trips / parts[i]) : floor_div((part + Expr(1)) * Expr(trips), parts[i]) - first;
      substitute(loops[i]->body, {{loops[i]->index, first + Expr::symbol(loops[i]->index)}});
    }
    if (used == cores_) return true;
    program::If has_part{less(Expr::symbol("core"), Expr(used)), std::move(scope_.body), {}};
    scope_.body = {};
    scope_.body.push_back(on("", std::move(has_part)));
    take_regions_in_turn(scope_.body, used, machine_);
    return true;
  }

  /// With several core types: splits the longest loop in proportion to their speeds.
  bool divide_by_speed(const std::vector<program::For*>& loops) {
    program::For* longest = nullptr;
    for (program::For* loop : loops)
      if (!longest || loop->extent.value() > longest->extent.value()) longest = loop;
    if (!longest) return false;
    std::int64_t all = 0;
    for (const Stretch& stretch : speeds_) all += stretch.count * stretch.each;
    const std::int64_t trips = longest->extent.value();
    const Expr first = floor_div(shares_before(speeds_) * Expr(trips), all);
    const Expr next = first.substitute({{"core", Expr::symbol("core") + Expr(1)}});
    longest->extent = next - first;
    substitute(longest->body, {{longest->index, first + Expr::symbol(longest->index)}});
    return true;
  }

  program::Scope& scope_;
  program::Program& program_;
  TensorIndex& tensors_;
  const Share& machine_;
  std::int64_t cores_;
  std::vector<Stretch> speeds_;
  Facts facts_;
};

}  // namespace

void divide_loops(program::Scope& scope, program::Program& program, TensorIndex& tensors, const Share& machine) {
  if (machine.core.count < 2) return;
  for_each_step(scope, [&](program::Scope& step) { Divider(step, program, tensors, machine).run(); });
}

}  // namespace tilesim::lower
