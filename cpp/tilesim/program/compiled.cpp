// Resolves names of a program to indices and flattens its control flow.
#include "tilesim/program/compiled.hpp"

#include <algorithm>
#include <bit>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"

namespace tilesim::program {

namespace {

constexpr std::size_t queue_limit = 32;

[[noreturn]] void unknown(const char* what, const std::string& name, const std::vector<std::string>& known, const std::string& place) {
  throw UserError({std::string("unknown ") + what, place, "'" + name + "'", join(known), nearest(name, known)});
}

/// Turns the structured program into steps and instructions.
class Flattener {
 public:
  Flattener(CompiledProgram& compiled, CompiledProgram::Code& code) : compiled_(compiled), code_(code), program_(code.program) {}

  void run() {
    for (const auto& [name, value] : program_.parameters) code_.parameters.emplace_back(declare(name), value);
    code_.core_slot = declare("core");
    code_.context_slot = declare("context");
    for (const Counter& counter : program_.counters) compiled_.counters.emplace_back(counter.name, counter.size);
    declare_tensors();
    for (const Slot& slot : program_.slots) add_slot(slot, -1);
    emit(program_.body);
    step(StepKind::halt);
    flatten_functions();
    code_.environment_size = static_cast<std::int32_t>(next_symbol_);
  }

 private:
  int declare(const std::string& name) {
    symbols_[name].push_back(next_symbol_);
    return next_symbol_++;
  }
  void forget(const std::string& name) { symbols_[name].pop_back(); }

  int symbol(const std::string& name) const {
    const auto found = symbols_.find(name);
    if (found == symbols_.end() || found->second.empty()) {
      std::vector<std::string> known;
      for (const auto& [key, stack] : symbols_)
        if (!stack.empty()) known.push_back(key);
      unknown("symbol", name, known, place_);
    }
    return found->second.back();
  }

  CompiledExpr compile(const Expr& e) const {
    return CompiledExpr(e, [this](const std::string& name) { return symbol(name); }, [this](const std::string& name) { return tensor(name); });
  }
  std::vector<CompiledExpr> compile(const std::vector<Expr>& list) const {
    std::vector<CompiledExpr> result;
    for (const Expr& e : list) result.push_back(compile(e));
    return result;
  }

  void declare_tensors() {
    const auto lookup = [this](const std::string& name) -> std::int64_t {
      const auto found = program_.parameters.find(name);
      if (found == program_.parameters.end()) unknown("parameter", name, {}, "shape of a tensor");
      return found->second;
    };
    for (const Tensor& t : program_.tensors) {
      CompiledTensor compiled{t.name, t.dtype, {}, {}, static_cast<int>(compiled_.tensors.size()), &t};
      for (const Expr& extent : t.shape) compiled.shape.push_back(extent.evaluate(lookup));
      if (element_count(compiled.shape) < 0) throw UserError({"a tensor has a negative extent", t.name, to_string(compiled.shape), {}, {}});
      compiled.strides = row_major_strides(compiled.shape);
      if (tensor_ids_.count(t.name)) throw UserError({"two tensors have one name", t.name, {}, {}, {}});
      tensor_ids_[t.name] = compiled.storage;
      if (!t.alias_of.empty()) {
        const auto base = tensor_ids_.find(t.alias_of);
        if (base == tensor_ids_.end()) throw UserError({"an alias names no earlier tensor", t.name, "'" + t.alias_of + "'", {}, {}});
        const CompiledTensor& owner = compiled_.tensors[static_cast<std::size_t>(base->second)];
        if (packed_bytes(owner.dtype, element_count(owner.shape)) != packed_bytes(t.dtype, element_count(compiled.shape)))
          throw UserError({"an alias has another size than its tensor", t.name, to_string(compiled.shape), to_string(owner.shape), {}});
        compiled.storage = owner.storage;
      }
      compiled_.tensors.push_back(std::move(compiled));
    }
  }

  int tensor(const std::string& name) const {
    if (const auto formal = formal_ids_.find(name); formal != formal_ids_.end()) return formal->second;
    if (const auto found = tensor_ids_.find(name); found != tensor_ids_.end()) return found->second;
    std::vector<std::string> known;
    for (const auto& [key, id] : tensor_ids_) known.push_back(key);
    unknown("tensor", name, known, place_);
  }

  int queue(const std::string& name) {
    const auto found = std::find(compiled_.queues.begin(), compiled_.queues.end(), name);
    if (found != compiled_.queues.end()) return static_cast<int>(found - compiled_.queues.begin());
    if (compiled_.queues.size() >= queue_limit) throw UserError({"too many queues", place_, name, "at most 32", {}});
    compiled_.queues.push_back(name);
    return static_cast<int>(compiled_.queues.size()) - 1;
  }

  void add_slot(const Slot& s, int scope) {
    if (s.elements < 1 || s.depth < 1 || s.address < 0) throw UserError({"a slot needs elements, depth >= 1 and an address >= 0", s.name, {}, {}, {}});
    CompiledSlot compiled{s.name, s.dtype, s.elements, round_up(packed_bytes(s.dtype, s.elements), 64), s.depth, s.address, s.accumulator, 0, 0, scope};
    for (const std::string& consumer : s.consumers) compiled.consumers |= 1U << queue(consumer);
    compiled.consumer_count = std::popcount(compiled.consumers);
    if (compiled.consumer_count == 0) throw UserError({"a slot has no consumer queue, so that its buffers would never be free", s.name, {}, {}, {}});
    slots_[s.name].push_back(static_cast<int>(compiled_.slots.size()));
    compiled_.slots.push_back(std::move(compiled));
  }

  int slot(const std::string& name) const {
    const auto found = slots_.find(name);
    if (found == slots_.end() || found->second.empty()) {
      std::vector<std::string> known;
      for (const auto& [key, stack] : slots_)
        if (!stack.empty()) known.push_back(key);
      unknown("slot", name, known, place_);
    }
    return found->second.back();
  }

  int counter(const std::string& name) const {
    std::vector<std::string> known;
    for (std::size_t i = 0; i < compiled_.counters.size(); ++i) {
      if (compiled_.counters[i].first == name) return static_cast<int>(i);
      known.push_back(compiled_.counters[i].first);
    }
    unknown("counter", name, known, place_);
  }

  CompiledView view(const View& v) const {
    CompiledView result{slot(v.slot), static_cast<std::int32_t>(v.back), compile(v.offset), {}};
    for (const Dim& d : v.dims) result.dims.emplace_back(compile(d.extent), compile(d.stride));
    return result;
  }

  CompiledTransfer transfer(const Transfer& t) const {
    CompiledTransfer result;
    result.tensor = tensor(t.tensor);
    result.at = compile(t.at);
    if (result.tensor < static_cast<int>(compiled_.tensors.size())) {
      const std::size_t rank = compiled_.tensors[static_cast<std::size_t>(result.tensor)].shape.size();
      if (rank != t.at.size()) throw UserError({"a transfer names the wrong number of axes", place_ + " of " + t.tensor, std::to_string(t.at.size()), std::to_string(rank), {}});
    }
    for (const TransferDim& d : t.dims) {
      CompiledTransferDim dim{compile(d.extent), compile(d.step), compile(d.stride), d.axis, -1, {}};
      if (!d.through.empty()) {
        dim.through = tensor(d.through);
        dim.through_at = compile(d.through_at);
      }
      result.dims.push_back(std::move(dim));
    }
    result.slot = slot(t.slot);
    result.back = static_cast<std::int32_t>(t.back);
    result.offset = compile(t.offset);
    result.has_fill = t.fill.has_value();
    result.fill = t.fill.value_or(0);
    return result;
  }

  std::int32_t step(StepKind kind, std::int32_t target = 0) {
    code_.steps.push_back({});
    code_.steps.back().kind = kind;
    code_.steps.back().target = target;
    return static_cast<std::int32_t>(code_.steps.size()) - 1;
  }
  std::int32_t here() const { return static_cast<std::int32_t>(code_.steps.size()); }

  Instruction& instruction(Opcode opcode, const Statement& s, StepKind kind = StepKind::leaf) {
    step(kind, static_cast<std::int32_t>(code_.instructions.size()));
    Instruction& i = code_.instructions.emplace_back();
    i.opcode = opcode;
    i.statement = &s;
    i.scope = scope_;
    if (!s.queue.empty()) i.queue = queue(s.queue);
    return i;
  }

  void emit(const Block& block) {
    for (const Statement& s : block) {
      place_ = s.label.empty() ? "statement " + std::to_string(code_.instructions.size()) : s.label;
      std::visit([&](const auto& action) { emit(s, action); }, s.action);
    }
  }

  void emit(const Statement&, const For& a) {
    CompiledExpr extent = compile(a.extent);
    const std::int32_t begin = step(StepKind::loop_begin);
    const std::int32_t index = declare(a.index), loop = code_.loops++;
    code_.loop_names.push_back(a.index);
    emit(a.body);
    forget(a.index);
    const std::int32_t end = step(StepKind::loop_end, begin + 1);
    code_.steps[static_cast<std::size_t>(begin)].target = end + 1;
    code_.steps[static_cast<std::size_t>(begin)].expr = std::move(extent);
    for (const std::int32_t at : {begin, end}) {
      code_.steps[static_cast<std::size_t>(at)].slot = index;
      code_.steps[static_cast<std::size_t>(at)].loop = loop;
    }
  }

  void emit(const Statement&, const If& a) {
    const std::int32_t branch = step(StepKind::branch);
    code_.steps.back().expr = compile(a.condition);
    emit(a.then);
    if (a.otherwise.empty()) {
      code_.steps[static_cast<std::size_t>(branch)].target = here();
      return;
    }
    const std::int32_t skip = step(StepKind::jump);
    code_.steps[static_cast<std::size_t>(branch)].target = here();
    emit(a.otherwise);
    code_.steps[static_cast<std::size_t>(skip)].target = here();
  }

  void emit(const Statement&, const Call& a) {
    const auto found = std::find_if(program_.functions.begin(), program_.functions.end(), [&](const Function& f) { return f.name == a.function; });
    if (found == program_.functions.end()) {
      std::vector<std::string> known;
      for (const Function& f : program_.functions) known.push_back(f.name);
      unknown("function", a.function, known, place_);
    }
    for (const auto& formal : found->tensors)
      if (!a.tensors.count(formal)) throw UserError({"a call leaves a tensor unbound", a.function, "'" + formal + "'", {}, {}});
    const std::int32_t at = step(StepKind::call);
    code_.steps.back().call = static_cast<std::int32_t>(code_.calls.size());
    CallSite& site = code_.calls.emplace_back();
    PendingCall pending{at, static_cast<std::size_t>(found - program_.functions.begin()), code_.steps.back().call, {}, {}};
    for (const auto& [formal, actual] : a.tensors) pending.tensors.emplace_back(formal, tensor(actual));
    for (const auto& [formal, value] : a.parameters) pending.parameters.emplace_back(formal, compile(value));
    (void)site;
    pending_.push_back(std::move(pending));
  }

  void emit(const Statement& s, const Scope& a) {
    const int outer = scope_;
    scope_ = static_cast<int>(compiled_.scopes.size());
    compiled_.scopes.push_back({&a, function_});
    instruction(Opcode::scope_begin, s, StepKind::scope_begin);
    for (const Slot& declared : a.slots) add_slot(declared, scope_);
    emit(a.body);
    instruction(Opcode::scope_end, s, StepKind::scope_end);
    for (const Slot& declared : a.slots) slots_[declared.name].pop_back();
    scope_ = outer;
  }

  void emit(const Statement& s, const Acquire& a) {
    Instruction& i = instruction(Opcode::acquire, s);
    i.slot = slot(a.slot);
    if (a.queues.empty()) throw UserError({"an acquire names no queue", place_, a.slot, {}, {}});
    for (const std::string& name : a.queues) i.queues.push_back(queue(name));
    i.queue = i.queues[0];
  }
  void emit(const Statement& s, const Receive& a) { instruction(Opcode::receive, s).slot = slot(a.slot); }
  void emit(const Statement& s, const Commit& a) {
    Instruction& i = instruction(Opcode::commit, s);
    i.slot = slot(a.slot);
    i.back = static_cast<std::int32_t>(a.back);
    i.pieces = a.pieces;
  }
  void emit(const Statement& s, const Release& a) {
    Instruction& i = instruction(Opcode::release, s);
    i.slot = slot(a.slot);
    i.back = static_cast<std::int32_t>(a.back);
    if (!(compiled_.slots[static_cast<std::size_t>(i.slot)].consumers >> i.queue & 1))
      throw UserError({"a queue releases a slot that does not list it as a consumer", place_, s.queue + " releases " + a.slot, {}, {}});
  }
  void emit(const Statement& s, const Wait& a) {
    Instruction& i = instruction(Opcode::wait, s);
    i.count = compile(a.pieces);
    if (!a.counter.empty()) {
      i.counter = counter(a.counter);
      i.index = compile(a.index);
      return;
    }
    i.slot = slot(a.slot);
    i.back = static_cast<std::int32_t>(a.back);
  }
  void emit(const Statement& s, const Signal& a) {
    Instruction& i = instruction(Opcode::signal, s);
    i.counter = counter(a.counter);
    i.core = compile(a.core);
    i.index = compile(a.index);
    i.count = compile(a.count);
  }
  void emit(const Statement& s, const Load& a) { instruction(Opcode::load, s).transfer = transfer(a.transfer); }
  void emit(const Statement& s, const Store& a) {
    Instruction& i = instruction(Opcode::store, s);
    i.transfer = transfer(a.transfer);
    if (a.signal.empty()) return;
    i.counter = counter(a.signal);
    i.index = compile(a.signal_index);
  }
  void emit(const Statement& s, const MmaOp& a) {
    Instruction& i = instruction(Opcode::mma, s);
    i.views = {view(a.a), view(a.b), view(a.c)};
    i.count = compile(a.accumulate);
  }
  void emit(const Statement& s, const VectorOp& a) {
    Instruction& i = instruction(Opcode::vector, s);
    for (const View& v : a.inputs) i.views.push_back(view(v));
    for (const VectorOutputSpec& o : a.outputs) {
      i.views.push_back(view(o.view));
      i.accumulates.push_back(compile(o.accumulate));
    }
    i.extents = compile(a.extents);
    for (const VectorNodeSpec& n : a.nodes)
      if (n.node.op == VectorNode::Op::scalar) i.scalars.push_back(compile(n.scalar));
  }
  void emit(const Statement& s, const PermuteOp& a) { instruction(Opcode::permute, s).views = {view(a.in), view(a.out)}; }
  void emit(const Statement& s, const IndexedOp& a) { instruction(Opcode::indexed, s).views = {view(a.in), view(a.index), view(a.out)}; }
  void emit(const Statement& s, const SortOp& a) { instruction(Opcode::sort, s).views = {view(a.in), view(a.keys), view(a.positions)}; }
  void emit(const Statement& s, const OpaqueOp& a) {
    Instruction& i = instruction(Opcode::opaque, s);
    for (const View& v : a.reads) i.views.push_back(view(v));
    for (const View& v : a.writes) i.views.push_back(view(v));
    i.count = compile(a.cycles);
  }
  void emit(const Statement& s, const Send& a) {
    Instruction& i = instruction(Opcode::send, s);
    i.views = {view(a.from)};
    i.slot = slot(a.slot);
    View target{a.slot, 0, a.offset, a.dims};
    i.views.push_back(view(target));
    i.cores = compile(a.cores);
    i.pieces = a.pieces;
  }

  struct PendingCall {
    std::int32_t at;
    std::size_t function;
    std::int32_t site;
    std::vector<std::pair<std::string, int>> tensors;
    std::vector<std::pair<std::string, CompiledExpr>> parameters;
  };

  struct Flat {
    bool done = false, active = false;
    std::int32_t entry = -1;
    std::map<std::string, std::int32_t> formals;     ///< tensor id
    std::map<std::string, std::int32_t> parameters;  ///< environment index
  };

  /// Functions are flattened once, after their callers; calls are patched.
  void flatten_functions() {
    flat_.resize(program_.functions.size());
    for (std::size_t next = 0; next < pending_.size(); ++next) {
      const std::size_t f = pending_[next].function;
      if (!flat_[f].done) flatten(f);
      patch(pending_[next]);
    }
    check_recursion();
  }

  void flatten(std::size_t f) {
    const Function& function = program_.functions[f];
    Flat& flat = flat_[f];
    flat.done = true;
    flat.entry = here();
    function_ = function.name;
    scope_ = -1;
    formal_ids_.clear();
    const auto base = static_cast<std::int32_t>(compiled_.tensors.size());
    for (const std::string& formal : function.tensors) {
      flat.formals[formal] = base + code_.formals++;
      formal_ids_[formal] = flat.formals[formal];
    }
    for (const std::string& parameter : function.parameters) flat.parameters[parameter] = declare(parameter);
    const std::size_t first = pending_.size();
    emit(function.body);
    for (std::size_t i = first; i < pending_.size(); ++i) callees_[f].push_back(pending_[i].function);
    for (const std::string& parameter : function.parameters) forget(parameter);
    step(StepKind::leave);
    formal_ids_.clear();
  }

  void patch(const PendingCall& call) {
    const Flat& flat = flat_[call.function];
    code_.steps[static_cast<std::size_t>(call.at)].target = flat.entry;
    CallSite& site = code_.calls[static_cast<std::size_t>(call.site)];
    const auto base = static_cast<std::int32_t>(compiled_.tensors.size());
    for (const auto& [formal, actual] : call.tensors) {
      const auto found = flat.formals.find(formal);
      if (found == flat.formals.end()) throw UserError({"a call binds a tensor that the function does not have", program_.functions[call.function].name, "'" + formal + "'", {}, {}});
      site.tensors.emplace_back(found->second - base, actual);
    }
    for (const auto& [formal, value] : call.parameters) {
      const auto found = flat.parameters.find(formal);
      if (found == flat.parameters.end()) throw UserError({"a call binds a parameter that the function does not have", program_.functions[call.function].name, "'" + formal + "'", {}, {}});
      site.parameters.emplace_back(found->second, value);
    }
    if (call.parameters.size() != flat.parameters.size()) throw UserError({"a call leaves a parameter unbound", program_.functions[call.function].name, {}, {}, {}});
  }

  void check_recursion() {
    std::vector<int> state(program_.functions.size(), 0);
    const std::function<void(std::size_t)> walk = [&](std::size_t f) {
      if (state[f] == 2) return;
      if (state[f] == 1) throw UserError({"a function calls itself", program_.functions[f].name, {}, {}, {}});
      state[f] = 1;
      for (std::size_t callee : callees_[f]) walk(callee);
      state[f] = 2;
    };
    for (std::size_t f = 0; f < state.size(); ++f) walk(f);
  }

  CompiledProgram& compiled_;
  CompiledProgram::Code& code_;
  const Program& program_;
  std::map<std::string, std::vector<int>> symbols_, slots_;
  std::map<std::string, int> tensor_ids_, formal_ids_;
  std::map<std::size_t, std::vector<std::size_t>> callees_;
  std::vector<PendingCall> pending_;
  std::vector<Flat> flat_;
  std::string place_, function_;
  int next_symbol_ = 0;
  int scope_ = -1;
};

}  // namespace

CompiledProgram::CompiledProgram(Program program) : code_(std::make_unique<Code>()) {
  code_->program = std::move(program);
  Flattener(*this, *code_).run();
}
CompiledProgram::~CompiledProgram() = default;
CompiledProgram::CompiledProgram(CompiledProgram&&) noexcept = default;
const Program& CompiledProgram::program() const { return code_->program; }
const std::vector<Instruction>& CompiledProgram::instructions() const { return code_->instructions; }

}  // namespace tilesim::program
