// Instructions of the user's: declared by a dict, carried out by a function of Python or of a library.
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

namespace py = pybind11;
namespace tilesim::isa::bound {

using namespace tilesim;

namespace {

std::uint8_t register_in(const Op& op, Slot slot) {
  return slot == slot_rd ? op.rd : slot == slot_rs1 ? op.rs1 : slot == slot_rs2 ? op.rs2 : op.rs3;
}

std::uint8_t* at(Hart& h, std::uint8_t number) { return h.v.at<std::uint8_t>(number); }

/// What meanings share: which elements are active, how they come and go.
class Gathering {
 public:
  Gathering(const UserInstruction& of, UserEntry entry)
      : name_(of.name()), width_(of.width), takes_(std::move(entry.takes)), writes_(entry.writes) {
    vector_ = writes_ && writes_->sort == Sort::v;
    for (const UserOperand& one : takes_) vector_ = vector_ || one.sort == Sort::v;
  }

 protected:
  bool writes_vector() const { return writes_ && writes_->sort == Sort::v; }

  std::vector<std::uint64_t> active(const Hart& h, const Op& o) const {
    if (!vector_) return {};
    const unsigned bits = 1U << h.v.type.sew;
    if (width_ != 0 && bits != width_)
      throw Trap{
          Cause::illegal, o.bits,
          "'" + name_ + "' works on elements of " + std::to_string(width_) + " bits, SEW is " + std::to_string(bits)};
    std::vector<std::uint64_t> found;
    for (std::uint64_t i = 0; i < h.v.vl; ++i)
      if (o.rm != 0 || h.v.bit(0, i)) found.push_back(i);
    return found;
  }

  static std::string gathered(Hart& h, std::uint8_t number, const std::vector<std::uint64_t>& active,
                              std::size_t bytes) {
    std::string raw(active.size() * bytes, '\0');
    const std::uint8_t* from = at(h, number);
    for (std::size_t i = 0; i < active.size(); ++i)
      std::memcpy(raw.data() + i * bytes, from + active[i] * bytes, bytes);
    return raw;
  }

  static void scattered(Hart& h, std::uint8_t number, const std::string& raw, const std::vector<std::uint64_t>& active,
                        std::size_t bytes) {
    require(raw.size() == active.size() * bytes, "a meaning gives as many bytes as are written");
    std::uint8_t* to = at(h, number);
    for (std::size_t i = 0; i < active.size(); ++i) std::memcpy(to + active[i] * bytes, raw.data() + i * bytes, bytes);
  }

  static std::uint64_t number(const Hart& h, const Op& o, const UserOperand& one) {
    const std::uint8_t of = register_in(o, one.slot);
    if (one.sort == Sort::x) return h.x[of == no_register ? 0 : of];
    return one.sort == Sort::f ? h.f[of] : static_cast<std::uint64_t>(o.imm);
  }

  std::string name_;
  unsigned width_;
  bool vector_;
  std::vector<UserOperand> takes_;
  std::optional<UserOperand> writes_;
};

/// Gathers the active elements, calls the Python function, scatters what it returns. It is called without the GIL, from
/// a hart's loop.
class CalledMeaning : Gathering {
 public:
  CalledMeaning(const UserInstruction& of, UserEntry entry, std::shared_ptr<py::object> function)
      : Gathering(of, std::move(entry)), function_(std::move(function)) {}

  void operator()(Hart& h, const Op& o) const {
    const unsigned bits = 1U << h.v.type.sew;
    const std::vector<std::uint64_t> places = active(h, o);
    if (writes_vector() && places.empty()) return;
    bindings::pause_where_python_ends();
    const py::gil_scoped_acquire gil;
    const CancelScope none(nullptr);
    py::list given;
    for (const UserOperand& one : takes_) given.append(operand(h, o, one, places, bits / 8));
    const py::object made = (*function_)(given, places.size(), vector_ ? bits : 0, o.pc);
    if (!writes_) return;
    if (writes_->sort == Sort::v)
      scattered(h, o.rd, made.cast<py::bytes>(), places, bits / 8);
    else
      (writes_->sort == Sort::x ? h.x[o.rd] : h.f[o.rd]) = made.cast<std::uint64_t>();
  }

 private:
  static py::object operand(Hart& h, const Op& o, const UserOperand& one, const std::vector<std::uint64_t>& places,
                            std::size_t bytes) {
    if (one.sort == Sort::v) return py::bytes(gathered(h, register_in(o, one.slot), places, bytes));
    const std::uint64_t value = number(h, o, one);
    return one.sort == Sort::f ? py::int_(value) : py::int_(static_cast<std::int64_t>(value));
  }

  std::shared_ptr<py::object> function_;
};

/// A function of a library: results, operands, elements. It runs without the GIL.
class NativeMeaning : Gathering {
 public:
  using Call = void (*)(void*, const void* const*, std::size_t);

  NativeMeaning(const UserInstruction& of, UserEntry entry, std::uint64_t address, std::shared_ptr<py::object> library)
      : Gathering(of, std::move(entry)),
        element_(of.element),
        call_(reinterpret_cast<Call>(static_cast<std::uintptr_t>(address))),
        library_(std::move(library)) {}

  void operator()(Hart& h, const Op& o) const {
    const std::size_t bytes = (1U << h.v.type.sew) / 8;
    const std::vector<std::uint64_t> places = active(h, o);
    if (writes_vector() && places.empty()) return;
    std::vector<std::string> held;
    for (const UserOperand& one : takes_) {
      if (one.sort == Sort::v) {
        held.push_back(gathered(h, register_in(o, one.slot), places, bytes));
        continue;
      }
      const std::uint64_t value = number(h, o, one);
      held.emplace_back(reinterpret_cast<const char*>(&value), sizeof value);
    }
    std::vector<const void*> operands;
    for (const std::string& one : held) operands.push_back(one.data());
    std::uint64_t scalar = 0;
    std::string made(writes_vector() ? places.size() * bytes : 0, '\0');
    call_(writes_vector() ? static_cast<void*>(made.data()) : &scalar, operands.data(), places.size());
    if (!writes_) return;
    if (writes_->sort == Sort::v) {
      canonical(made);
      return scattered(h, o.rd, made, places, bytes);
    }
    (writes_->sort == Sort::x ? h.x[o.rd] : h.f[o.rd]) = scalar;
  }

 private:
  /// NaN as RISC-V writes it: positive, quiet, no payload.
  void canonical(std::string& raw) const {
    const auto each = [&]<class Bits>(Bits infinity, Bits quiet) {
      for (std::size_t i = 0; i + sizeof(Bits) <= raw.size(); i += sizeof(Bits)) {
        Bits one;
        std::memcpy(&one, raw.data() + i, sizeof one);
        if (static_cast<Bits>(one << 1) > static_cast<Bits>(infinity << 1))
          std::memcpy(raw.data() + i, &quiet, sizeof quiet);
      }
    };
    if (element_ == "f32") each(std::uint32_t{0x7F800000}, std::uint32_t{0x7FC00000});
    if (element_ == "f64") each(std::uint64_t{0x7FF0} << 48, std::uint64_t{0x7FF8} << 48);
    if (element_ == "f16") each(std::uint16_t{0x7C00}, std::uint16_t{0x7E00});
    if (element_ == "bf16") each(std::uint16_t{0x7F80}, std::uint16_t{0x7FC0});
  }

  std::string element_;
  Call call_;
  std::shared_ptr<py::object> library_;
};

std::optional<double> number_or_none(const py::dict& from, const char* key) {
  return from[key].is_none() ? std::nullopt : std::optional<double>(from[key].cast<double>());
}

/// As Python declares it.
UserInstruction declared_by(const py::dict& given) {
  UserInstruction one;
  one.text = given["text"].cast<std::string>();
  one.match = given["match"].cast<std::uint32_t>(), one.mask = given["mask"].cast<std::uint32_t>();
  one.element = given["element"].is_none() ? "" : given["element"].cast<std::string>();
  one.width = given["width"].cast<unsigned>();
  one.unit = given["unit"].cast<std::string>();
  if (!given["own_unit"].is_none()) {
    const py::dict own = given["own_unit"];
    one.custom =
        UserUnit{own["name"].cast<std::string>(), own["queue"].cast<std::int64_t>(), own["pipes"].cast<std::int64_t>()};
  }
  one.per_register = number_or_none(given, "cycles_per_register"), one.whole = number_or_none(given, "cycles");
  one.latency = number_or_none(given, "latency");
  one.description = given["description"].cast<std::string>();
  return one;
}

/// A meaning that machines carry, with the Python object that it calls.
class PythonMeaning final : public HeldMeaning {
 public:
  PythonMeaning(Meaning held, std::shared_ptr<py::object> of)
      : HeldMeaning(std::make_shared<const Meaning>(std::move(held))), function(std::move(of)) {}
  const std::shared_ptr<py::object> function;
};

std::shared_ptr<const PythonMeaning> meaning_of(const UserInstruction& one, UserEntry entry,
                                                const py::object& function) {
  // the last owner may be a thread without the GIL
  const std::shared_ptr<py::object> held(new py::object(function), [](py::object* last) {
    const py::gil_scoped_acquire gil;
    delete last;
  });
  const py::object address = function.attr("native");
  if (!address.is_none())
    return std::make_shared<const PythonMeaning>(
        NativeMeaning(one, std::move(entry), address.cast<std::uint64_t>(), held), held);
  return std::make_shared<const PythonMeaning>(CalledMeaning(one, std::move(entry), held), held);
}

/// Whether both were made of one instruction of Python's.
bool is_meant(const InstructionMeaning& held, const py::object& meaning) {
  const auto* known = dynamic_cast<const PythonMeaning*>(&held);
  return known != nullptr && known->function->attr("of").equal(meaning.attr("of"));
}

/// A machine whose kernels take the instruction for a function; all that can be wrong with it is found here.
Machine used(const Machine& machine, const std::string& function, const py::dict& declared, const py::object& meaning) {
  const Function of = parse_function(function);
  UserInstruction one = declared_by(declared);
  check_stands_for(one, of);
  one.meaning = meaning_of(one, entry_of(one), meaning);
  Machine changed = machine;
  const auto put = [&](UserInstructions& functions) {
    // the same value stands for several functions as one instruction
    for (auto& [also, other] : functions)
      if (other.declared_as(one) && (other.meaning == nullptr || is_meant(*other.meaning, meaning)))
        other.meaning = one.meaning;
    functions[of] = one;
  };
  put(changed.core.isa.functions);
  for (CoreSort& sort : changed.sorts) put(sort.core.isa.functions);
  changed.sources["core.isa.functions"] = "set by the user";
  static_timings(*set_of(changed), core_of(changed));
  return changed;
}

/// Function -> the Python object that says what its instruction does; none where that is missing.
py::dict used_functions(const Machine& machine) {
  py::dict told;
  for (const auto& [function, one] : machine.core.isa.functions) {
    const auto* held = dynamic_cast<const PythonMeaning*>(one.meaning.get());
    told[py::str(std::string(tilesim::info(function).name))] =
        held != nullptr ? *held->function : py::object(py::none());
  }
  return told;
}

}  // namespace

InstructionInfo from_python(const py::dict& given, const py::object& function) {
  const UserInstruction one = declared_by(given);
  UserEntry entry = entry_of(one);
  InstructionInfo info = entry.info;
  info.meaning = meaning_of(one, std::move(entry), function)->meaning;
  return info;
}

void init_custom(py::module_& module) {
  module.def("isa_use", used, py::arg("machine"), py::arg("function"), py::arg("declared"), py::arg("meaning"),
             "A machine whose kernels take an instruction for a function.");
  module.def("isa_functions", used_functions, py::arg("machine"),
             "Function -> what the instruction that kernels take for it does; None: that is not known.");
}

}  // namespace tilesim::isa::bound
