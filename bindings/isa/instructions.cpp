// The table of instructions as Python sees it.
#include "isa/instructions.hpp"

#include <pybind11/stl.h>

#include <string>

#include "tilesim/base/dtype.hpp"
#include "tilesim/base/error.hpp"
#include "tilesim/isa/npu/functions.hpp"
#include "tilesim/isa/pipeline/plan.hpp"
#include "tilesim/isa/state/csr.hpp"
#include "tilesim/isa/state/npu.hpp"
#include "tilesim/isa/state/transfer.hpp"
#include "tilesim/isa/text/assemble.hpp"

namespace py = pybind11;
namespace tilesim::isa::bound {

using namespace tilesim;

namespace {

py::list fields_of(const InstructionSet& set, std::uint16_t id) {
  static const char* const sorts[] = {"x",        "f",     "v",      "number", "offset", "csr",
                                      "rounding", "fence", "masked", "vtype",  "upper",  "fixed"};
  py::list fields;
  for (const OperandPart& part : set.parts(id)) {
    if (part.word == nullptr) continue;
    const OperandWord& word = *part.word;
    py::list pieces;
    for (const BitSlice& piece : word.slices) pieces.append(py::make_tuple(piece.at, piece.from, piece.width));
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

/// What a header of C says of one: `described` with the fields of its operands.
py::dict coded(const InstructionSet& set, const InstructionInfo& info) {
  py::dict row = described(info);
  row["vector"] = info.is(is_vector);
  row["reads_old"] = info.is(reads_vd);
  row["apart"] = info.is(overlap_never);
  const GroupRule& rule = info.groups;
  const auto plain = [](const Group& group) {
    return group.kind == Group::none || (group.kind == Group::group && group.scale == 0);
  };
  row["plain"] = plain(rule.vd) && plain(rule.vs1) && plain(rule.vs2) && rule.fields == 1;
  py::list widths;
  for (unsigned i = 0; i < 4; ++i)
    if (info.meaning || info.by_width[i] != nullptr) widths.append(8U << i);
  row["widths"] = widths;
  row["fields"] = fields_of(set, set.id(info));
  return row;
}

/// Those that no compiler has a name for: of an NPU core, and the user's.
py::list named_by_headers(const HeldSet& held) {
  py::list rows;
  for (const InstructionInfo& info : held.set->all())
    if (info.extension == "Xtilesimnpu" || info.meaning) rows.append(coded(*held.set, info));
  return rows;
}

py::dict numbers() {
  py::dict dtypes, registers;
  for (int i = 0; i < dtype_count; ++i) {
    const auto dtype = static_cast<DType>(i);
    dtypes[py::str(std::string(name(dtype)))] = py::make_tuple(i, bits(dtype));
  }
  for (unsigned number = 0xCC0; number <= 0xCC7; ++number) registers[py::str(std::string(csr_name(number)))] = number;
  py::list functions;
  for (const Function function : special_functions) functions.append(std::string(tilesim::info(function).name));
  const auto fields = [](const auto& all) {
    py::list rows;
    for (const DescriptorField& field : all)
      rows.append(py::make_tuple(std::string(field.type), std::string(field.name), std::string(field.description)));
    return rows;
  };
  py::dict told;
  told["descriptor"] = fields(descriptor_fields), told["dim"] = fields(dim_fields);
  told["descriptor_bytes"] = sizeof(TransferDescriptor), told["descriptor_dims"] = most_transfer_dims;
  told["flags"] = py::dict(py::arg("HAS_FILL") = TransferDescriptor::has_fill,
                           py::arg("WIDE_ROWS") = TransferDescriptor::wide_rows);
  told["places"] = py::dict(py::arg("SCRATCHPAD") = scratchpad_base, py::arg("ACCUMULATOR") = accumulator_base,
                            py::arg("OFF_CHIP") = off_chip_base);
  told["dtypes"] = dtypes, told["functions"] = functions, told["registers"] = registers;
  return told;
}

}  // namespace

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

void init_instructions(py::module_& module) {
  py::class_<HeldSet>(module, "IsaSet", "Instructions that a hart knows: a value.")
      .def(py::init<>())
      .def(
          "extend",
          [](const HeldSet& held, const py::dict& declared, const py::object& function) {
            InstructionInfo info = from_python(declared, function);
            refuse_pseudo(info.name);
            return HeldSet{held.set->extend(std::move(info))};
          },
          py::arg("declared"), py::arg("function"), "A set with one more instruction.")
      .def("coded", named_by_headers,
           "The instructions of an NPU core and the user's, with the fields of their operands.")
      .def(
          "check",
          [](const HeldSet& held, const std::string& core) {
            static_timings(*held.set, read_core(Json::parse(core, "core")));
          },
          py::arg("core"), "Rejects instructions whose unit is missing in the core.");
  module.def("isa_numbers", numbers,
             "Numbers that instructions of an NPU core take: element types (with bits), functions, control registers.");
}

}  // namespace tilesim::isa::bound
