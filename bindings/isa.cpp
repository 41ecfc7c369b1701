// Instructions, assembler, and programs of a RISC-V hart.
#include "tilesim/isa/run/process.hpp"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "cancel.hpp"
#include "tilesim/isa/table/instruction_set.hpp"
#include "tilesim/isa/text/assemble.hpp"
#include "tilesim/isa/text/disassemble.hpp"

namespace py = pybind11;
using namespace tilesim;
using namespace tilesim::isa;

namespace {

Image image_from(const py::dict& from) {
  Image image;
  for (const py::handle item : from["segments"]) {
    const auto part = py::reinterpret_borrow<py::tuple>(item);
    image.segments.push_back({part[0].cast<Address>(), part[1].cast<std::string>(), part[2].cast<std::uint64_t>(),
                              part[3].cast<std::uint8_t>()});
  }
  image.entry = from["entry"].cast<Address>();
  image.headers = from["headers"].cast<Address>();
  image.header_bytes = from["header_bytes"].cast<std::uint64_t>();
  image.header_count = from["header_count"].cast<std::uint64_t>();
  image.global_pointer = from["global_pointer"].cast<Address>();
  image.thread_data = from["thread_data"].cast<std::string>();
  image.thread_bytes = from["thread_bytes"].cast<std::uint64_t>();
  return image;
}

const char* kind_of(const Stop& stop) {
  static const char* const names[] = {"exited", "trapped", "limit", "returned"};
  return names[stop.kind];
}

/// One program at a time; a call from another thread meanwhile is an error.
class Program {
 public:
  Program(const py::dict& image, std::uint32_t vlen, const LinuxOptions& options)
      : process_(InstructionSet::standard(), vlen, image_from(image), options) {}

  template <class Call>
  py::dict runs(Call&& call) {
    const bindings::Exclusive alone(busy_, "this program");
    const Stop stop = bindings::cancellable(std::forward<Call>(call));
    py::dict told;
    told["kind"] = kind_of(stop);
    told["status"] = stop.status;
    told["pc"] = stop.pc;
    if (stop.kind == Stop::trapped) {
      told["cause"] = cause_text(stop.trap.cause);
      told["detail"] = stop.trap.text;
      told["value"] = stop.trap.value;
      told["instruction"] = stop.instruction;
      told["text"] = stop.instruction != 0 ? disassemble(process_.hart.set(), stop.instruction, stop.pc) : "";
    }
    return told;
  }
  py::dict run(std::uint64_t limit) {
    return runs([&] { return process_.run(limit); });
  }
  py::dict call(Address function, std::uint64_t limit) {
    return runs([&] { return process_.call(function, limit); });
  }
  Process& process() { return process_; }

 private:
  Process process_;
  bool busy_ = false;
};

py::bytes bytes_at(Program& program, Address address, std::uint64_t count) {
  std::string bytes(count, '\0');
  for (std::uint64_t done = 0; done < count;) {
    const std::uint64_t part = std::min(count - done, page_bytes - (address + done) % page_bytes);
    try {
      program.process().memory.read(address + done, bytes.data() + done, part);
    } catch (const Trap&) {
      throw UserError({"nothing can be read there", {}, std::to_string(address + done), "addresses in use", {}});
    }
    done += part;
  }
  return bytes;
}

void place(Program& program, Address address, const py::bytes& given) {
  const std::string bytes = given;
  try {
    program.process().memory.place(address, bytes.data(), bytes.size());
  } catch (const Trap&) {
    throw UserError({"nothing can be written there", {}, std::to_string(address), "addresses in use", {}});
  }
}

void declare_program(py::module_& module) {
  py::class_<Program>(module, "IsaProgram", "A program in the memory of a hart.")
      .def(py::init([](const py::dict& image, std::uint32_t vlen, const std::string& root, std::uint64_t seed,
                       bool pass_through, const py::bytes& input) {
             return std::make_unique<Program>(image, vlen, LinuxOptions{root, seed, pass_through, std::string(input)});
           }),
           py::arg("image"), py::arg("vlen"), py::arg("root") = "", py::arg("seed") = 0,
           py::arg("pass_through") = false, py::arg("input") = py::bytes())
      .def("start", [](Program& p, const std::vector<std::string>& arguments) { p.process().start(arguments); })
      .def("make_bare", [](Program& p, Address tohost) { p.process().make_bare(tohost); })
      .def("run", &Program::run, py::arg("limit"))
      .def("call", &Program::call, py::arg("function"), py::arg("limit"))
      .def("allocate", [](Program& p, std::uint64_t bytes) { return p.process().allocate(bytes); })
      .def("read", bytes_at, py::arg("address"), py::arg("count"))
      .def("place", place, py::arg("address"), py::arg("bytes"))
      .def("x", [](Program& p, unsigned number) { return p.process().hart.x.at(number); })
      .def("f", [](Program& p, unsigned number) { return p.process().hart.f.at(number); })
      .def("set_x", [](Program& p, unsigned number, std::uint64_t value) { p.process().hart.x.at(number) = value; })
      .def("set_f", [](Program& p, unsigned number, std::uint64_t value) { p.process().hart.f.at(number) = value; })
      .def("set_stack",
           [](Program& p, std::uint64_t bytes) { p.process().hart.x[2] = (stack_top - 64 - bytes) & ~Address{15}; })
      .def("set_ones", [](Program& p, bool ones) { set_ones(p.process().hart.v, ones); })
      .def_property_readonly("output", [](Program& p) { return py::bytes(p.process().system().output); })
      .def_property_readonly("errors", [](Program& p) { return py::bytes(p.process().system().errors); })
      .def_property_readonly("instructions", [](Program& p) { return p.process().hart.instret; })
      .def_property_readonly("vector_instructions", [](Program& p) { return p.process().hart.vector_instructions; })
      .def_property_readonly("element_operations", [](Program& p) { return p.process().hart.element_operations; });
}

py::dict described(const InstructionInfo& info) {
  py::dict row;
  row["name"] = info.name;
  row["operands"] = info.operands;
  row["match"] = info.encoding.match;
  row["mask"] = info.encoding.mask;
  row["extension"] = info.extension;
  row["unit"] = unit_name(info.unit);
  row["timing"] = info.timing;
  row["compressed"] = info.is(is_compressed);
  row["description"] = info.description;
  return row;
}

}  // namespace

void init_isa(py::module_& module) {
  declare_program(module);
  module.def(
      "isa_instructions",
      [] {
        py::list rows;
        for (const InstructionInfo& info : InstructionSet::standard()->all()) rows.append(described(info));
        return rows;
      },
      "All instructions of the standard table.");
  module.def(
      "isa_assemble",
      [](const std::string& text, std::uint64_t address) {
        const Assembled made = assemble(*InstructionSet::standard(), text, address);
        return std::make_pair(py::bytes(made.bytes), made.labels);
      },
      py::arg("text"), py::arg("address") = 0, "Machine code of assembly text, and its labels.");
  module.def(
      "isa_disassemble",
      [](std::uint32_t bits, std::uint64_t address) { return disassemble(*InstructionSet::standard(), bits, address); },
      py::arg("bits"), py::arg("address") = 0, "Text of one instruction; '.word' where there is none.");
}
