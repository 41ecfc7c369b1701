// Instructions of the user's: declared by a dict, carried out by a Python function.
#include "isa/instructions.hpp"

#include <pybind11/stl.h>

#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/cancel.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/pipeline/plan.hpp"
#include "tilesim/isa/state/hart.hpp"
#include "tilesim/isa/table/user.hpp"
#include "tilesim/isa/text/assemble.hpp"

namespace py = pybind11;
namespace tilesim::isa::bound {

using namespace tilesim;

namespace {

std::uint8_t register_in(const Op& op, Slot slot) {
  return slot == slot_rd ? op.rd : slot == slot_rs1 ? op.rs1 : slot == slot_rs2 ? op.rs2 : op.rs3;
}

/// The meaning: gathers the active elements, calls the function, scatters what it returns. It is called without the
/// GIL, from a hart's loop.
class CalledMeaning {
 public:
  CalledMeaning(std::string name, std::shared_ptr<py::object> function, unsigned width, std::vector<UserOperand> takes,
                std::optional<UserOperand> writes)
      : name_(std::move(name)),
        width_(width),
        takes_(std::move(takes)),
        writes_(writes),
        function_(std::move(function)) {}

  void operator()(Hart& h, const Op& o) const {
    const unsigned bits = 1U << h.v.type.sew;
    bool vector = writes_ && writes_->sort == Sort::v;
    for (const UserOperand& one : takes_) vector = vector || one.sort == Sort::v;
    if (vector && width_ != 0 && bits != width_)
      throw Trap{
          Cause::illegal, o.bits,
          "'" + name_ + "' works on elements of " + std::to_string(width_) + " bits, SEW is " + std::to_string(bits)};
    const std::vector<std::uint64_t> active = vector ? elements(h, o) : std::vector<std::uint64_t>();
    if (vector && writes_ && writes_->sort == Sort::v && active.empty()) return;
    bindings::pause_where_python_ends();
    const py::gil_scoped_acquire gil;
    const CancelScope none(nullptr);
    py::list given;
    for (const UserOperand& one : takes_) given.append(operand(h, o, one, active, bits / 8));
    const py::object made = (*function_)(given, active.size(), vector ? bits : 0, o.pc);
    if (writes_) write(h, o, made, active, bits / 8);
  }

 private:
  std::vector<std::uint64_t> elements(const Hart& h, const Op& o) const {
    std::vector<std::uint64_t> active;
    for (std::uint64_t i = 0; i < h.v.vl; ++i)
      if (o.rm != 0 || h.v.bit(0, i)) active.push_back(i);
    return active;
  }

  static py::object operand(Hart& h, const Op& o, const UserOperand& one, const std::vector<std::uint64_t>& active,
                            std::size_t bytes) {
    const std::uint8_t number = register_in(o, one.slot);
    if (one.sort == Sort::x) return py::int_(static_cast<std::int64_t>(h.x[number == no_register ? 0 : number]));
    if (one.sort == Sort::f) return py::int_(h.f[number]);
    if (one.sort != Sort::v) return py::int_(o.imm);
    std::string raw(active.size() * bytes, '\0');
    const std::uint8_t* from = h.v.at<std::uint8_t>(number);
    for (std::size_t i = 0; i < active.size(); ++i)
      std::memcpy(raw.data() + i * bytes, from + active[i] * bytes, bytes);
    return py::bytes(raw);
  }

  void write(Hart& h, const Op& o, const py::object& made, const std::vector<std::uint64_t>& active,
             std::size_t bytes) const {
    if (writes_->sort == Sort::x) {
      h.x[o.rd] = made.cast<std::uint64_t>();
    } else if (writes_->sort == Sort::f) {
      h.f[o.rd] = made.cast<std::uint64_t>();
    } else {
      const std::string raw = made.cast<py::bytes>();
      require(raw.size() == active.size() * bytes, "a meaning gives as many bytes as are written");
      std::uint8_t* to = h.v.at<std::uint8_t>(o.rd);
      for (std::size_t i = 0; i < active.size(); ++i)
        std::memcpy(to + active[i] * bytes, raw.data() + i * bytes, bytes);
    }
  }

  std::string name_;
  unsigned width_;
  std::vector<UserOperand> takes_;
  std::optional<UserOperand> writes_;
  std::shared_ptr<py::object> function_;
};

std::optional<double> number_or_none(const py::dict& from, const char* key) {
  return from[key].is_none() ? std::nullopt : std::optional<double>(from[key].cast<double>());
}

/// As Python declares it.
UserInstruction from_python(const py::dict& given) {
  UserInstruction one;
  one.text = given["text"].cast<std::string>();
  one.match = given["match"].cast<std::uint32_t>(), one.mask = given["mask"].cast<std::uint32_t>();
  one.element = given["element"].is_none() ? "" : given["element"].cast<std::string>();
  one.width = given["width"].cast<unsigned>();
  one.unit = given["unit"].cast<std::string>();
  if (!given["own_unit"].is_none()) {
    const py::dict own = given["own_unit"];
    one.own = UserUnit{own["name"].cast<std::string>(), own["queue"].cast<std::int64_t>(),
                       own["pipes"].cast<std::int64_t>()};
  }
  one.per_register = number_or_none(given, "cycles_per_register"), one.whole = number_or_none(given, "cycles");
  one.latency = number_or_none(given, "latency");
  one.description = given["description"].cast<std::string>();
  return one;
}

/// A meaning that machines carry, with the Python object that it calls.
class PythonMeaning final : public HeldMeaning {
 public:
  PythonMeaning(std::shared_ptr<const Meaning> held, std::shared_ptr<py::object> of)
      : HeldMeaning(std::move(held)), function(std::move(of)) {}
  const std::shared_ptr<py::object> function;
};

std::shared_ptr<py::object> shared(py::object function) {
  // the last owner may be a thread without the GIL
  return {new py::object(std::move(function)), [](py::object* held) {
            const py::gil_scoped_acquire gil;
            delete held;
          }};
}

std::shared_ptr<const PythonMeaning> meaning_of(const UserInstruction& one, const UserEntry& entry,
                                                const py::object& function) {
  const std::shared_ptr<py::object> held = shared(function);
  return std::make_shared<const PythonMeaning>(
      std::make_shared<const Meaning>(CalledMeaning(one.name(), held, one.width, entry.takes, entry.writes)), held);
}

/// A machine whose kernels take the instruction for a function; all that can be wrong with it is found here.
Machine used(const Machine& machine, const std::string& function, const py::dict& declared, const py::object& meaning) {
  const Function of = parse_function(function);
  UserInstruction one = from_python(declared);
  check_stands_for(one, of);
  one.meaning = meaning_of(one, entry_of(one), meaning);
  Machine changed = machine;
  changed.core.isa.functions[of] = one;
  for (CoreSort& sort : changed.sorts) sort.core.isa.functions[of] = one;
  changed.sources["core.isa.functions"] = "replaced by the user";
  static_timings(*set_of(changed), core_of(changed));
  return changed;
}

/// Function -> declaration as a file has it, and the Python object that says what it does; none where that is missing.
py::dict used_functions(const Machine& machine) {
  py::dict told;
  for (const auto& [function, one] : machine.core.isa.functions) {
    const auto* held = dynamic_cast<const PythonMeaning*>(one.meaning.get());
    told[py::str(std::string(info(function).name))] = held != nullptr ? *held->function : py::none();
  }
  return told;
}

py::list fields_of(const InstructionSet& set, std::uint16_t id) {
  static const char* const sorts[] = {"x",        "f",     "v",      "number", "offset", "csr",
                                      "rounding", "fence", "masked", "vtype",  "upper",  "fixed"};
  py::list fields;
  for (const OperandPart& part : set.parts(id)) {
    if (part.word == nullptr) continue;
    const OperandWord& word = *part.word;
    py::list pieces;
    for (const Piece& piece : word.pieces) pieces.append(py::make_tuple(piece.at, piece.from, piece.width));
    fields.append(py::make_tuple(std::string(word.word), sorts[static_cast<std::size_t>(word.sort)], pieces,
                                 (word.slots & slot_rd) != 0 && word.word.find("s3") == std::string_view::npos,
                                 word.lowest, word.highest));
  }
  return fields;
}

/// The assembler would never reach an instruction whose name it takes for something else.
void refuse_pseudo(const std::string& name) {
  bool taken = name == "li";
  for (std::size_t count = 0; count < 4; ++count)
    taken = taken || !expand_pseudo(name, std::vector<std::string>(count, "a0")).empty();
  if (taken) throw UserError({"a pseudo-instruction is called so", {}, name, "another name", {}});
}

/// All that writers of headers need.
py::list coded(const HeldSet& held) {
  py::list rows;
  for (const InstructionInfo& info : held.set->all()) {
    const std::uint32_t opcode = info.encoding.match & 0x7F;
    if (opcode != 0x0B && opcode != 0x2B && opcode != 0x5B && opcode != 0x7B) continue;
    py::dict row;
    row["name"] = info.name;
    row["operands"] = info.operands;
    row["match"] = info.encoding.match;
    row["mask"] = info.encoding.mask;
    row["extension"] = info.extension;
    row["description"] = info.description;
    row["vector"] = info.is(is_vector);
    row["reads_old"] = info.is(reads_vd);
    py::list widths;
    for (unsigned i = 0; i < 4; ++i)
      if (info.meaning || info.by_width[i] != nullptr) widths.append(8U << i);
    row["widths"] = widths;
    row["fields"] = fields_of(*held.set, held.set->id(info));
    rows.append(row);
  }
  return rows;
}

}  // namespace

void init_instructions(py::module_& module) {
  py::class_<HeldSet>(module, "IsaSet", "Instructions that a hart knows: a value.")
      .def(py::init<>())
      .def(
          "extend",
          [](const HeldSet& held, const py::dict& declared, const py::object& function) {
            const UserInstruction one = from_python(declared);
            UserEntry entry = entry_of(one);
            refuse_pseudo(one.name());
            entry.info.meaning = meaning_of(one, entry, function)->meaning;
            return HeldSet{held.set->extend(std::move(entry.info))};
          },
          py::arg("declared"), py::arg("function"), "A set with one more instruction.")
      .def("coded", coded, "The instructions of opcodes custom-0 to custom-3, with the fields of their operands.")
      .def(
          "check",
          [](const HeldSet& held, const std::string& core) {
            static_timings(*held.set, read_core(Json::parse(core, "core")));
          },
          py::arg("core"), "Refuses instructions whose unit the core does not have.");
  module.def("isa_use", used, py::arg("machine"), py::arg("function"), py::arg("declared"), py::arg("meaning"),
             "A machine whose kernels take an instruction for a function.");
  module.def("isa_functions", used_functions, py::arg("machine"),
             "Function -> what the instruction that kernels take for it does; None: that is not known.");
}

}  // namespace tilesim::isa::bound
