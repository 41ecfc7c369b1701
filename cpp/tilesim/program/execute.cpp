// Functional execution in text order, with the search for missing waits, commits and releases.
#include "tilesim/program/execute.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <set>

#include "tilesim/base/error.hpp"
#include "tilesim/base/shape.hpp"
#include "tilesim/program/cursor.hpp"
#include "tilesim/program/transfer.hpp"
#include "tilesim/tile/strided.hpp"

namespace tilesim::program {

namespace {

constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

/// One buffer of a ring, holding one version.
struct Buffer {
  std::vector<std::byte> bytes;
  std::int64_t version = -1;
  std::int64_t pieces = 0;
  std::uint32_t released = 0;
  bool free = true;
  std::vector<std::int64_t> needed;  ///< per queue: pieces that cover what it wrote so far; `never`: not committed yet
  std::vector<std::int64_t> known;   ///< per queue: pieces it has waited for
  std::vector<std::int8_t> writers;  ///< per element: queue that wrote it last, -1: none (only while races are sought)
};

struct Ring {
  std::vector<Buffer> buffers;
  std::int64_t received = 0, sent = 0;
};

struct Core {
  Core(const CompiledProgram& program, std::int64_t id, std::int64_t context, const CompiledExpr::TensorReader* reader)
      : cursor(program, id, context, reader), core(id) {}
  Cursor cursor;
  std::int64_t core;
  std::vector<Ring> rings;
  const Instruction* held = nullptr;
  bool finished = false;
  std::vector<std::map<std::pair<int, std::int64_t>, std::int64_t>> counters_known;  ///< per queue
};

class Executor final : public CompiledExpr::TensorReader {
 public:
  Executor(const Program& program, const std::map<std::string, Array>& inputs, const ExecuteOptions& options)
      : compiled_(program), options_(options) {
    bind_tensors(inputs);
    for (const auto& [name, size] : compiled_.counters)
      counters_.emplace_back(static_cast<std::size_t>(size * program.cores), 0);
    for (std::int64_t core = 0; core < program.cores; ++core)
      for (std::int64_t context = 0; context < program.contexts; ++context) {
        auto state = std::make_unique<Core>(compiled_, core, context, this);
        for (const CompiledSlot& slot : compiled_.slots)
          state->rings.push_back({std::vector<Buffer>(static_cast<std::size_t>(slot.depth)), 0, 0});
        state->counters_known.resize(compiled_.queues.size());
        cores_.push_back(std::move(state));
      }
  }

  std::int64_t read(int tensor, const std::int64_t* index, int rank) const override {
    const CompiledTensor& t = compiled_.tensors.at(static_cast<std::size_t>(tensor));
    std::int64_t offset = 0;
    for (int i = 0; i < rank; ++i) offset += index[i] * t.strides[static_cast<std::size_t>(i)];
    const Array& array = arrays_[static_cast<std::size_t>(t.storage)];
    if (offset < 0 || offset >= array.size())
      throw UserError({"an expression reads outside a tensor", t.name, std::to_string(offset), {}, {}});
    return array.int_at(offset);
  }

  std::map<std::string, Array> run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (auto& core : cores_)
        while (!core->finished && step(*core)) moved = true;
    }
    for (auto& core : cores_)
      if (!core->finished) stuck(*core);
    check_released();
    std::map<std::string, Array> results;
    for (std::size_t i = 0; i < compiled_.tensors.size(); ++i) {
      const CompiledTensor& t = compiled_.tensors[i];
      if (!t.tensor || (t.tensor->role != Role::output && t.tensor->role != Role::state)) continue;
      results[t.name] = view_of(i);
    }
    return results;
  }

 private:
  Array view_of(std::size_t tensor) const {
    const CompiledTensor& t = compiled_.tensors[tensor];
    const Array& storage = arrays_[static_cast<std::size_t>(t.storage)];
    if (storage.dtype() == t.dtype) return storage.reshaped(t.shape);
    return Array(t.dtype, t.shape, const_cast<std::byte*>(storage.bytes()), std::make_shared<Array>(storage));
  }

  void bind_tensors(const std::map<std::string, Array>& inputs) {
    std::vector<std::string> known;
    arrays_.resize(compiled_.tensors.size());
    required_.resize(compiled_.tensors.size());
    for (std::size_t i = 0; i < compiled_.tensors.size(); ++i) {
      const CompiledTensor& t = compiled_.tensors[i];
      known.push_back(t.name);
      if (t.storage != static_cast<int>(i)) continue;
      const bool given =
          t.tensor->role == Role::input || t.tensor->role == Role::weight || t.tensor->role == Role::state;
      if (!given) {
        arrays_[i] = Array(t.dtype, t.shape);
        if (options_.poison) poison(arrays_[i].bytes(), t.dtype, arrays_[i].size());
        continue;
      }
      const auto found = inputs.find(t.name);
      if (found == inputs.end())
        throw UserError({"an input is missing", t.name, {}, std::string(name(t.dtype)) + to_string(t.shape), {}});
      if (found->second.dtype() != t.dtype || found->second.shape() != t.shape)
        throw UserError({"an input has the wrong type",
                         t.name,
                         std::string(name(found->second.dtype())) + to_string(found->second.shape()),
                         std::string(name(t.dtype)) + to_string(t.shape),
                         {}});
      arrays_[i] = t.tensor->role == Role::state ? found->second.clone() : found->second;
    }
    for (const auto& [key, array] : inputs)
      if (std::find(known.begin(), known.end(), key) == known.end())
        throw UserError({"the program has no such input", {}, "'" + key + "'", join(known), nearest(key, known)});
  }

  static void poison(std::byte* data, DType dtype, std::int64_t count) {
    if (count <= 0) return;
    if (dtype == DType::boolean) {
      std::memset(data, 1, static_cast<std::size_t>(count));
      return;
    }
    const int size = host_bytes(dtype);
    const double value = is_float(dtype) ? std::numeric_limits<double>::quiet_NaN() : 0;
    const std::int64_t extreme = -0x5A5A5A5A5A5A5A5BLL;
    if (is_float(dtype))
      convert(&value, DType::f64, data, dtype, 1);
    else
      convert(&extreme, DType::i64, data, dtype, 1);
    for (std::int64_t i = 1; i < count; ++i) std::memcpy(data + i * size, data, static_cast<std::size_t>(size));
  }

  std::string describe(const Core& core, const Instruction& i) const {
    std::string text = "core " + std::to_string(core.core);
    if (const std::string where = core.cursor.where(); !where.empty()) text += " in " + where;
    if (i.queue >= 0) text += ", queue " + compiled_.queues[static_cast<std::size_t>(i.queue)];
    return text;
  }

  [[noreturn]] void race(const Core& core, const Instruction& i, const std::string& what) const {
    throw RaceError({what, describe(core, i), {}, {}, {}});
  }

  [[noreturn]] void stuck(const Core& core) const {
    const Instruction& i = *core.held;
    std::string what = "waits for something that never happens";
    if (i.slot >= 0)
      what += ": slot " + compiled_.slots[static_cast<std::size_t>(i.slot)].name + " version " +
              std::to_string(core.cursor.version(i.slot, i.back));
    if (i.counter >= 0) what += ": counter " + compiled_.counters[static_cast<std::size_t>(i.counter)].first;
    if (i.opcode == Opcode::acquire) what += " is never released by every consumer";
    race(core, i, what);
  }

  Buffer& buffer(Core& core, int slot, std::int64_t version) {
    Ring& ring = core.rings[static_cast<std::size_t>(slot)];
    return ring.buffers[static_cast<std::size_t>(version) % ring.buffers.size()];
  }

  void reset(Buffer& b, int slot, std::int64_t version) {
    const CompiledSlot& s = compiled_.slots[static_cast<std::size_t>(slot)];
    b.bytes.resize(static_cast<std::size_t>(s.elements * host_bytes(s.dtype)));
    if (options_.poison) poison(b.bytes.data(), s.dtype, s.elements);
    b.version = version;
    b.pieces = 0;
    b.released = 0;
    b.free = false;
    b.needed.assign(compiled_.queues.size(), 0);
    b.known.assign(compiled_.queues.size(), 0);
    b.writers.clear();
  }

  /// One instruction of a core; false when it must wait for another core (or is at its end).
  bool step(Core& core) {
    if ((++steps_ & 0x3FF) == 0 && options_.cancel) options_.cancel->poll();
    const Instruction* i = core.held ? core.held : core.cursor.next();
    core.held = i;
    if (!i) {
      core.finished = true;
      return true;
    }
    if (!perform(core, *i)) return false;
    core.held = nullptr;
    return true;
  }

  bool perform(Core& core, const Instruction& i) {
    const auto q = static_cast<std::size_t>(std::max(0, i.queue));
    switch (i.opcode) {
      case Opcode::scope_begin:
        if (const Scope& scope = *compiled_.scopes[static_cast<std::size_t>(i.scope)].scope;
            scope.barrier && cores_.size() == 1)
          for (auto& needs : required_) needs.clear();  // everything before has completed
        return true;
      case Opcode::scope_end:
        return true;
      case Opcode::acquire: {
        const std::int64_t version = core.cursor.version(i.slot, 0);
        Buffer& b = buffer(core, i.slot, version);
        if (!b.free) return false;
        reset(b, i.slot, version);
        return true;
      }
      case Opcode::receive:
        ++core.rings[static_cast<std::size_t>(i.slot)].received;
        return true;
      case Opcode::commit: {
        Buffer& b = live(core, i, i.slot, i.back);
        b.pieces += i.pieces;
        if (b.needed[q] == never) b.needed[q] = b.pieces;
        return true;
      }
      case Opcode::release: {
        Buffer& b = live(core, i, i.slot, i.back);
        b.released |= 1U << i.queue;
        b.free = b.released == compiled_.slots[static_cast<std::size_t>(i.slot)].consumers;
        return true;
      }
      case Opcode::wait:
        return wait(core, i, q);
      case Opcode::signal: {
        const auto& [name, size] = compiled_.counters[static_cast<std::size_t>(i.counter)];
        count(i, core.cursor.value(i.core) * size + core.cursor.value(i.index)) += core.cursor.value(i.count);
        return true;
      }
      case Opcode::load:
        load(core, i);
        return true;
      case Opcode::store:
        store(core, i);
        return true;
      case Opcode::send:
        return send(core, i);
      default:
        compute(core, i);
        return true;
    }
  }

  std::int64_t& count(const Instruction& i, std::int64_t at) {
    auto& values = counters_[static_cast<std::size_t>(i.counter)];
    if (at < 0 || at >= static_cast<std::int64_t>(values.size()))
      throw UserError({"a counter's index is out of range",
                       compiled_.counters[static_cast<std::size_t>(i.counter)].first,
                       std::to_string(at),
                       {},
                       {}});
    return values[static_cast<std::size_t>(at)];
  }

  bool wait(Core& core, const Instruction& i, std::size_t q) {
    const std::int64_t wanted = core.cursor.value(i.count);
    if (i.counter >= 0) {
      const Counter& counter = compiled_.program().counters[static_cast<std::size_t>(i.counter)];
      const std::int64_t at = core.cursor.value(i.index);
      if (count(i, at + (counter.semaphore ? core.core * counter.size : 0)) < wanted) return false;
      std::int64_t& known = core.counters_known[q][{i.counter, at}];
      known = std::max(known, wanted);
      return true;
    }
    const std::int64_t version = core.cursor.version(i.slot, i.back);
    Buffer& b = buffer(core, i.slot, version);
    if (b.version != version || b.pieces < wanted) return false;
    b.known[q] = std::max(b.known[q], wanted);
    return true;
  }

  Buffer& live(Core& core, const Instruction& i, int slot, std::int64_t back) {
    const std::int64_t version = core.cursor.version(slot, back);
    if (version < 0)
      race(core, i, "uses slot " + compiled_.slots[static_cast<std::size_t>(slot)].name + " before its first acquire");
    Buffer& b = buffer(core, slot, version);
    if (b.version != version || b.free)
      race(core, i,
           "uses version " + std::to_string(version) + " of slot " +
               compiled_.slots[static_cast<std::size_t>(slot)].name + ", which is not live");
    return b;
  }

  /// What queue `q` reads must have been waited for, unless only the queue itself wrote it (an update in order).
  void check_known(Core& core, const Instruction& i, Buffer& b, int slot, bool update) {
    if (!options_.find_races) return;
    const auto q = static_cast<std::size_t>(i.queue);
    for (std::size_t other = 0; other < b.needed.size(); ++other) {
      if (b.needed[other] == 0 || (other == q && update)) continue;
      if (b.known[q] < b.needed[other])
        race(core, i,
             "uses slot " + compiled_.slots[static_cast<std::size_t>(slot)].name + " version " +
                 std::to_string(b.version) + " before it waited for what queue " + compiled_.queues[other] + " wrote");
    }
    if (!update && !(compiled_.slots[static_cast<std::size_t>(slot)].consumers >> i.queue & 1)) {
      // A queue that reads must release, or the buffer could be refilled under it; the writer's own queue is ordered by
      // its acquire.
      bool writes = b.needed[q] != 0;
      if (!writes)
        race(core, i,
             "reads slot " + compiled_.slots[static_cast<std::size_t>(slot)].name +
                 " without being one of its consumers");
    }
    if (b.released >> i.queue & 1)
      race(core, i, "uses slot " + compiled_.slots[static_cast<std::size_t>(slot)].name + " after releasing it");
  }

  TileView reading(Core& core, const Instruction& i, const CompiledView& v, bool update = false) {
    Buffer& b = live(core, i, v.slot, v.back);
    check_known(core, i, b, v.slot, update);
    return tile_view(core, i, v, b);
  }

  TileView writing(Core& core, const Instruction& i, const CompiledView& v) {
    Buffer& b = live(core, i, v.slot, v.back);
    const TileView view = tile_view(core, i, v, b);
    written(core, i, b, v.slot, view);
    return view;
  }

  /// Marks elements as written by the queue; another queue's elements must have been waited for (disjoint parts are
  /// free).
  void written(Core& core, const Instruction& i, Buffer& b, int slot, const TileView& view) {
    if (!options_.find_races) return;
    const auto q = static_cast<std::size_t>(i.queue);
    const CompiledSlot& s = compiled_.slots[static_cast<std::size_t>(slot)];
    b.writers.resize(static_cast<std::size_t>(s.elements), -1);
    const std::int64_t base = (view.data - b.bytes.data()) / host_bytes(s.dtype);
    for_each_offset(view.dims.data(), view.dims.size(), [&](std::int64_t offset) {
      std::int8_t& writer = b.writers[static_cast<std::size_t>(base + offset)];
      if (writer >= 0 && writer != i.queue && b.known[q] < b.needed[static_cast<std::size_t>(writer)])
        race(core, i,
             "writes slot " + s.name + " before it waited for what queue " +
                 compiled_.queues[static_cast<std::size_t>(writer)] + " wrote");
      writer = static_cast<std::int8_t>(i.queue);
    });
    b.needed[q] = never;
  }

  TileView tile_view(Core& core, const Instruction& i, const CompiledView& v, Buffer& b) {
    const CompiledSlot& s = compiled_.slots[static_cast<std::size_t>(v.slot)];
    TileView view{b.bytes.data(), s.dtype, {}};
    const std::int64_t offset = core.cursor.value(v.offset);
    std::int64_t low = offset, high = offset;
    bool empty = false;
    for (const auto& [extent, stride] : v.dims) {
      const std::int64_t e = core.cursor.value(extent), st = core.cursor.value(stride);
      view.dims.push_back({e, st});
      empty |= e <= 0;
      (st >= 0 ? high : low) += st * (std::max<std::int64_t>(1, e) - 1);
    }
    if (!empty && (low < 0 || high >= s.elements))
      throw UserError({"a view leaves its slot",
                       describe(core, i),
                       s.name + " elements " + std::to_string(low) + " to " + std::to_string(high),
                       "0 to " + std::to_string(s.elements - 1),
                       {}});
    view.data += empty ? 0 : offset * host_bytes(s.dtype);
    return view;
  }

  ResolvedTransfer resolve(Core& core, const Instruction& i) {
    ResolvedTransfer r;
    const CompiledTransfer& t = i.transfer;
    const auto id = static_cast<std::size_t>(core.cursor.tensor(t.tensor));
    const CompiledTensor& tensor = compiled_.tensors[id];
    r.tensor = view_of(id);
    r.strides = tensor.strides;
    for (const CompiledExpr& at : t.at) r.at.push_back(core.cursor.value(at));
    for (const CompiledTransferDim& d : t.dims) {
      ResolvedTransfer::Dim dim{
          core.cursor.value(d.extent), d.axis, core.cursor.value(d.step), core.cursor.value(d.stride), {}};
      if (d.through >= 0) {
        const auto ids = static_cast<std::size_t>(core.cursor.tensor(d.through));
        const CompiledTensor& index = compiled_.tensors[ids];
        std::int64_t offset = 0;
        for (std::size_t a = 0; a < d.through_at.size(); ++a)
          offset += core.cursor.value(d.through_at[a]) * index.strides[a];
        const Array values = view_of(ids);
        for (std::int64_t k = 0; k < dim.extent; ++k) dim.rows.push_back(values.int_at(offset + k * dim.step));
      }
      r.dims.push_back(std::move(dim));
    }
    const CompiledSlot& slot = compiled_.slots[static_cast<std::size_t>(t.slot)];
    r.slot_dtype = slot.dtype;
    r.slot_elements = slot.elements;
    r.slot_offset = core.cursor.value(t.offset);
    r.has_fill = t.has_fill;
    r.fill = t.fill;
    r.place = describe(core, i) + ", tensor " + tensor.name;
    if (slot.dtype != tensor.dtype)
      throw UserError({"a transfer cannot change the dtype",
                       r.place,
                       std::string(name(tensor.dtype)) + " and " + std::string(name(slot.dtype)),
                       "equal types",
                       {}});
    return r;
  }

  std::map<std::pair<int, std::int64_t>, std::int64_t>& required(Core& core, const Instruction& i) {
    const auto id = static_cast<std::size_t>(core.cursor.tensor(i.transfer.tensor));
    return required_[static_cast<std::size_t>(compiled_.tensors[id].storage)];
  }

  void load(Core& core, const Instruction& i) {
    if (options_.find_races)
      for (const auto& [counter, value] : required(core, i))
        if (counter.first < 0 || core.counters_known[static_cast<std::size_t>(i.queue)][counter] < value)
          race(core, i, "loads a tensor that an earlier store writes, without waiting for it");
    Buffer& b = live(core, i, i.transfer.slot, i.transfer.back);
    const ResolvedTransfer transfer = resolve(core, i);
    const CompiledSlot& s = compiled_.slots[static_cast<std::size_t>(i.transfer.slot)];
    TileView view{b.bytes.data() + transfer.slot_offset * host_bytes(s.dtype), s.dtype, {}};
    for (const ResolvedTransfer::Dim& dim : transfer.dims) view.dims.push_back({dim.extent, dim.stride});
    written(core, i, b, i.transfer.slot, view);
    load_block(transfer, b.bytes.data());
  }

  void store(Core& core, const Instruction& i) {
    Buffer& b = live(core, i, i.transfer.slot, i.transfer.back);
    check_known(core, i, b, i.transfer.slot, false);
    store_block(resolve(core, i), b.bytes.data());
    if (i.counter < 0) {
      required(core, i)[{-1, 0}] = 1;
      return;
    }
    const std::int64_t at = core.cursor.value(i.index);
    required(core, i)[{i.counter, at}] = ++count(i, at);
  }

  bool send(Core& core, const Instruction& i) {
    std::vector<Core*> targets;
    for (const CompiledExpr& expr : i.cores)
      for (auto& other : cores_)
        if (other->core == core.cursor.value(expr)) targets.push_back(other.get());
    for (Core* target : targets) {
      Ring& ring = target->rings[static_cast<std::size_t>(i.slot)];
      if (ring.received <= ring.sent || !buffer(*target, i.slot, ring.sent).free) return false;
    }
    const TileView from = reading(core, i, i.views[0]);
    for (Core* target : targets) {
      Ring& ring = target->rings[static_cast<std::size_t>(i.slot)];
      Buffer& b = buffer(*target, i.slot, ring.sent);
      reset(b, i.slot, ring.sent++);
      Permute copy{from, tile_view(core, i, i.views[1], b)};
      tilesim::execute(copy);
      b.pieces = i.pieces;
      b.needed[static_cast<std::size_t>(i.queue)] = i.pieces;
    }
    return true;
  }

  void compute(Core& core, const Instruction& i) {
    const Action& action = i.statement->action;
    if (i.opcode == Opcode::mma) {
      const auto& op = std::get<MmaOp>(action);
      const bool accumulate = core.cursor.value(i.count) != 0;
      Mma mma{op.batch_dims,
              op.m_dims,
              op.n_dims,
              op.k_dims,
              reading(core, i, i.views[0]),
              reading(core, i, i.views[1]),
              {},
              accumulate,
              op.numerics};
      mma.c = writing(core, i, i.views[2]);
      return tilesim::execute(mma);
    }
    if (i.opcode == Opcode::vector) return vector(core, i, std::get<VectorOp>(action));
    if (i.opcode == Opcode::permute)
      return tilesim::execute(Permute{reading(core, i, i.views[0]), writing(core, i, i.views[1])});
    if (i.opcode == Opcode::indexed) {
      const auto& op = std::get<IndexedOp>(action);
      return tilesim::execute(Indexed{reading(core, i, i.views[0]), reading(core, i, i.views[1]),
                                      writing(core, i, i.views[2]), op.scatter, op.combiner});
    }
    if (i.opcode == Opcode::sort)
      return tilesim::execute(Sort{reading(core, i, i.views[0]), writing(core, i, i.views[1]),
                                   writing(core, i, i.views[2]), std::get<SortOp>(action).descending});
    throw Unsupported(
        {"an opaque operation has no meaning here", describe(core, i), std::get<OpaqueOp>(action).target, {}, {}});
  }

  void vector(Core& core, const Instruction& i, const VectorOp& op) {
    VectorCompute compute;
    for (const CompiledExpr& extent : i.extents) compute.extents.push_back(core.cursor.value(extent));
    // Reading a version that the same compute rewrites in place is an update, ordered within the queue.
    std::set<int> outputs;
    for (std::size_t o = 0; o < op.outputs.size(); ++o) outputs.insert(i.views[op.inputs.size() + o].slot);
    for (std::size_t k = 0; k < op.inputs.size(); ++k)
      compute.inputs.push_back(reading(core, i, i.views[k], outputs.count(i.views[k].slot) > 0));
    std::size_t scalar = 0;
    for (const VectorNodeSpec& spec : op.nodes) {
      compute.nodes.push_back(spec.node);
      if (spec.node.op == VectorNode::Op::scalar)
        compute.nodes.back().number = static_cast<double>(core.cursor.value(i.scalars[scalar++]));
    }
    for (std::size_t o = 0; o < op.outputs.size(); ++o) {
      const VectorOutputSpec& spec = op.outputs[o];
      compute.outputs.push_back({spec.node, writing(core, i, i.views[op.inputs.size() + o]), spec.reduce, spec.combiner,
                                 core.cursor.value(i.accumulates[o]) != 0});
    }
    tilesim::execute(compute);
  }

  void check_released() const {
    if (!options_.find_races) return;
    for (const auto& core : cores_)
      for (std::size_t s = 0; s < core->rings.size(); ++s)
        for (const Buffer& b : core->rings[s].buffers)
          if (!b.free)
            throw RaceError({"a version is never released by every consumer",
                             compiled_.slots[s].name,
                             "version " + std::to_string(b.version),
                             {},
                             {}});
  }

  CompiledProgram compiled_;
  ExecuteOptions options_;
  std::vector<Array> arrays_;
  std::vector<std::map<std::pair<int, std::int64_t>, std::int64_t>>
      required_;  ///< per tensor: counters a reader must have waited for
  std::vector<std::vector<std::int64_t>> counters_;
  std::vector<std::unique_ptr<Core>> cores_;
  std::int64_t steps_ = 0;
};

}  // namespace

std::map<std::string, Array> execute(const Program& program, const std::map<std::string, Array>& inputs,
                                     const ExecuteOptions& options) {
  if (options.order != Order::text)
    throw Unsupported({"only text order can be executed so far", "order", {}, "text", {}});
  return Executor(program, inputs, options).run();
}

}  // namespace tilesim::program
