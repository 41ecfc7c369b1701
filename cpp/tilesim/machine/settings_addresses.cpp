// Settings of the mapping from addresses to channels and banks.
#include <algorithm>

#include "tilesim/base/error.hpp"
#include "tilesim/machine/settings.hpp"

namespace tilesim {

namespace {

Setting text_of(std::string path, std::string description, std::vector<std::string> allowed,
                std::string& (*access)(Machine&)) {
  return {std::move(path),
          SettingUnit::text,
          0,
          0,
          std::move(description),
          allowed,
          [access](const Machine& m) { return Json(access(const_cast<Machine&>(m))); },
          [access, allowed](Machine& m, const Json& json) {
            const std::string& text = json.as_string();
            if (!allowed.empty() && std::ranges::find(allowed, text) == allowed.end())
              json.fail("unknown value", join(allowed), nearest(text, allowed));
            access(m) = text;
          },
          true};
}

}  // namespace

std::vector<Setting> address_settings() {
  return {text_of("memory.channel_hash", "rotates the order of channels from round to round, so that strides spread",
                  {"none", "skew", "ipoly"}, [](Machine& m) -> std::string& { return m.memory.channel_hash; }),
          text_of("memory.mapping", "fields of an address within a channel (fidelity bank); empty: those of the part",
                  {}, [](Machine& m) -> std::string& { return m.memory.mapping; }),
          text_of("memory.bank_hash", "changes the bank by the row, so that strides spread (fidelity bank)",
                  {"none", "xor", "ipoly"}, [](Machine& m) -> std::string& { return m.memory.bank_hash; })};
}

}  // namespace tilesim
