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
#include "tilesim/isa/state/hart.hpp"

namespace py = pybind11;
namespace tilesim::isa::bound {

using namespace tilesim;

namespace {

/// One operand that the function is given, or what it writes.
struct Passed {
  Sort sort = Sort::v;
  Slot slot = slot_rs1;
};

std::uint8_t register_in(const Op& op, Slot slot) {
  return slot == slot_rd ? op.rd : slot == slot_rs1 ? op.rs1 : slot == slot_rs2 ? op.rs2 : op.rs3;
}

/// The meaning: gathers the active elements, calls the function, scatters what it returns. It is called without the
/// GIL, from a hart's loop.
class CalledMeaning {
 public:
  CalledMeaning(std::string name, py::object function, unsigned width, std::vector<Passed> takes,
                std::optional<Passed> writes)
      : name_(std::move(name)), width_(width), takes_(std::move(takes)), writes_(writes) {
    // the last owner may be a thread without the GIL
    function_ = std::shared_ptr<py::object>(new py::object(std::move(function)), [](py::object* held) {
      const py::gil_scoped_acquire gil;
      delete held;
    });
  }

  void operator()(Hart& h, const Op& o) const {
    const unsigned bits = 1U << h.v.type.sew;
    bool vector = writes_ && writes_->sort == Sort::v;
    for (const Passed& one : takes_) vector = vector || one.sort == Sort::v;
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
    for (const Passed& one : takes_) given.append(operand(h, o, one, active, bits / 8));
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

  static py::object operand(Hart& h, const Op& o, const Passed& one, const std::vector<std::uint64_t>& active,
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
  std::vector<Passed> takes_;
  std::optional<Passed> writes_;
  std::shared_ptr<py::object> function_;
};

Unit unit_of(const std::string& name) {
  for (const Unit unit : {Unit::scalar, Unit::load, Unit::store, Unit::arithmetic, Unit::special, Unit::cross_lane,
                          Unit::matrix, Unit::control})
    if (name == unit_name(unit)) return unit;
  throw InternalError("no unit is called " + name);
}

std::optional<double> number_or_none(const py::dict& from, const char* key) {
  return from[key].is_none() ? std::nullopt : std::optional<double>(from[key].cast<double>());
}

/// The slot of a register word; none for `vm`.
std::optional<Passed> passed(const OperandWord& word) {
  if (word.sort == Sort::masked) return std::nullopt;
  if (word.sort != Sort::x && word.sort != Sort::f && word.sort != Sort::v) return Passed{Sort::number, slot_imm};
  for (const Slot slot : {slot_rd, slot_rs1, slot_rs2, slot_rs3})
    if ((word.slots & slot) != 0) return Passed{word.sort, slot};
  return std::nullopt;
}

}  // namespace

InstructionInfo from_python(const py::dict& given, const py::object& function) {
  InstructionInfo info;
  info.name = given["name"].cast<std::string>();
  info.operands = given["operands"].cast<std::string>();
  info.encoding = {given["match"].cast<std::uint32_t>(), given["mask"].cast<std::uint32_t>()};
  info.extension = "custom";
  info.description = given["description"].cast<std::string>();
  info.unit = unit_of(given["unit"].cast<std::string>());
  info.own = OwnTiming{number_or_none(given, "cycles_per_register"), number_or_none(given, "cycles"),
                       number_or_none(given, "latency"), given["own_unit"].cast<std::string>(),
                       given["width"].cast<unsigned>()};
  const bool reads_old = given["reads_old"].cast<bool>();
  std::vector<Passed> takes;
  std::optional<Passed> writes;
  for (const OperandPart& part : operand_parts(info.operands)) {
    const std::optional<Passed> one = part.word == nullptr ? std::nullopt : passed(*part.word);
    if (!one) continue;
    const bool vector = one->sort == Sort::v;
    if (vector) info.traits |= is_vector;
    if (vector) {
      Group& group = one->slot == slot_rd ? info.groups.vd : one->slot == slot_rs1 ? info.groups.vs1 : info.groups.vs2;
      group = {Group::group, 0};
    }
    if (one->slot == slot_rd) writes = one;
    if (one->slot != slot_rd || reads_old) takes.push_back(*one);
    if (one->slot == slot_rd && reads_old && vector) info.traits |= reads_vd;
  }
  const auto width = given["width"].cast<unsigned>();
  info.meaning = std::make_shared<const Meaning>(CalledMeaning(info.name, function, width, std::move(takes), writes));
  return info;
}

}  // namespace tilesim::isa::bound
