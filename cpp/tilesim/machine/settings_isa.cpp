// Settings of a core at instruction level: `core.isa`.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"
#include "tilesim/machine/settings_text.hpp"

namespace tilesim {

namespace {

Setting isa_count(const char* key, std::int64_t low, std::int64_t high, std::string description,
                  std::int64_t IsaSpec::* member) {
  return {std::string("core.isa.") + key,
          SettingUnit::count,
          static_cast<double>(low),
          static_cast<double>(high),
          std::move(description),
          {},
          [member](const Machine& m) { return Json(m.core.isa.*member); },
          [member, low, high](Machine& m, const Json& json) { m.core.isa.*member = json.as_int(low, high); },
          true};
}

Setting accumulates() {
  const std::vector<std::string> allowed{"auto", "vector", "array"};
  return {"core.isa.accumulate",
          SettingUnit::text,
          0,
          0,
          "unit that adds partial sums of products: the vector unit, from and to the scratchpad, or the arrays in "
          "their accumulator memory; auto: arrays where core.scratchpad.accumulator_bytes is not 0",
          allowed,
          [allowed](const Machine& m) { return Json(allowed[static_cast<std::size_t>(m.core.isa.accumulates)]); },
          [allowed](Machine& m, const Json& json) {
            const std::string& text = json.as_string();
            const auto found = std::find(allowed.begin(), allowed.end(), text);
            if (found == allowed.end()) json.fail("unknown value", join(allowed), nearest(text, allowed));
            m.core.isa.accumulates = static_cast<Accumulates>(found - allowed.begin());
          },
          true};
}

Setting functions() {
  return {"core.isa.functions",
          SettingUnit::text,
          0,
          0,
          "custom instructions that kernels use for elementwise functions, by function (`ts.isa.use`)",
          {},
          [](const Machine& m) { return m.core.isa.functions.empty() ? Json("") : to_json(m.core.isa.functions); },
          [](Machine& m, const Json& json) { m.core.isa.functions = user_instructions(json, m.core.isa.functions); },
          true};
}

}  // namespace

std::vector<Setting> isa_settings() {
  return {
      isa_count("vlen", 0, 65536, "bits of a vector register; 0: 32 × lanes × sublanes", &IsaSpec::vlen),
      isa_count("width", 1, 16, "instructions issued per cycle", &IsaSpec::width),
      isa_count("dispatch", 1, 16, "vector instructions among them", &IsaSpec::dispatch),
      isa_count("queue", 1, 64, "instructions that wait before each kind of pipe", &IsaSpec::queue),
      isa_count("loads", 1, 8, "scratchpad ports for loads", &IsaSpec::loads),
      isa_count("stores", 1, 8, "ports of the scratchpad for stores", &IsaSpec::stores),
      isa_count("port_bytes", 0, 65536, "bytes of such a port and cycle; 0: a vector register", &IsaSpec::port_bytes),
      isa_count("load_latency", 0, 10000, "cycles to the first beat of a vector load", &IsaSpec::load_latency),
      isa_count("input_rows", 0, 1 << 20, "rows that wait before an array; 0: 2 × (rows + columns)",
                &IsaSpec::input_rows),
      isa_count("result_rows", 0, 1 << 20, "rows of results that wait behind an array; 0: 2 × (rows + columns)",
                &IsaSpec::result_rows),
      accumulates(),
      functions()};
}

}  // namespace tilesim
