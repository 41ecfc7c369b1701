// Settings of the lowering profile. Each section is optional; setting one of its values creates it.
#include "tilesim/machine/settings.hpp"
#include "tilesim/machine/settings_text.hpp"

namespace tilesim {

namespace {

using U = SettingUnit;
using Profile = LoweringProfile;

/// A value of a section, read by `parse`; null where the machine lacks the section.
template <class Section, class Value, class Parse>
Setting of_section(std::string path, U unit, double low, double high, std::string description,
                   std::optional<Section> Profile::* section, Value Section::* member, Parse parse) {
  return {"lowering." + path,
          unit,
          low,
          high,
          std::move(description),
          {},
          [section, member](const Machine& m) {
            const std::optional<Section>& own = m.lowering.*section;
            return own ? Json((*own).*member) : Json();
          },
          [section, member, parse](Machine& m, const Json& json) {
            Value value = parse(json);
            std::optional<Section>& own = m.lowering.*section;
            if (!own) own.emplace();
            (*own).*member = std::move(value);
          }};
}

template <class Section>
Setting flag(std::string path, std::string description, std::optional<Section> Profile::* section,
             bool Section::* member) {
  return of_section(std::move(path), U::flag, 0, 1, std::move(description), section, member,
                    [](const Json& json) { return json.as_bool(); });
}

template <class Section>
Setting number(std::string path, std::int64_t low, std::string description, std::optional<Section> Profile::* section,
               std::int64_t Section::* member) {
  constexpr auto high = static_cast<double>(std::int64_t{1} << 40);
  const auto least = static_cast<double>(low);
  return of_section(std::move(path), U::count, least, high, std::move(description), section, member,
                    [least](const Json& json) {
                      const std::int64_t value = json.as_int();
                      check_range(json, static_cast<double>(value), least, high, U::count);
                      return value;
                    });
}

/// Written only if it is set.
template <class Section>
Setting reason(const std::string& name, std::optional<Section> Profile::* section) {
  Setting setting = of_section(name + ".reason", U::text, 0, 0, "source of the section's values", section,
                               &Section::reason, [](const Json& json) { return json.as_string(); });
  setting.get = [section](const Machine& m) {
    const std::optional<Section>& own = m.lowering.*section;
    return own && !own->reason.empty() ? Json(own->reason) : Json();
  };
  return setting;
}

template <class Section>
void begin(std::optional<Section>& section, const Json& json, const char* name) {
  if (json.find(name) && !section) section.emplace();
}

}  // namespace

std::vector<Setting> lowering_settings() {
  std::vector<Setting> all;
  using F = Profile::Fusion;
  all.push_back(flag("fusion.resident_rows",
                     "rows stay on chip between stages of a kernel; false: each reduction is a pass over memory",
                     &Profile::fusion, &F::resident_rows));
  all.push_back(flag("fusion.merge_sibling_reductions", "reductions of the same operand share a pass", &Profile::fusion,
                     &F::merge_sibling_reductions));
  all.push_back(flag("fusion.product_prologue", "elementwise producers are recomputed as the operand of a product",
                     &Profile::fusion, &F::product_prologue));
  all.push_back(flag("fusion.reduce_epilogue", "a row reduction may end the kernel of a product", &Profile::fusion,
                     &F::reduce_epilogue));
  all.push_back(flag("fusion.narrow_for_products",
                     "tensors that only products read are stored in the type that the array multiplies",
                     &Profile::fusion, &F::narrow_for_products));
  all.push_back(flag("fusion.keep_affine_apart", "scale and shift of a normalization run as separate kernels",
                     &Profile::fusion, &F::keep_affine_apart));
  all.push_back(reason("fusion", &Profile::fusion));
  using P = Profile::Product;
  all.push_back(number("product.panel_bytes", 1,
                       "largest panel of the left operand, which is loaded before the right operand streams",
                       &Profile::product, &P::panel_bytes));
  all.push_back(number("product.window_columns", 1, "columns of the right operand that stream at a time",
                       &Profile::product, &P::window_columns));
  all.push_back(
      number("product.split_rows_above", 0,
             "a panel that is too large is cut into rows where it has more than this, else its contraction is",
             &Profile::product, &P::split_rows_above));
  all.push_back(reason("product", &Profile::product));
  using C = Profile::Convolution;
  all.push_back(number("convolution.images", 1, "images per tile of a window over whole planes", &Profile::convolution,
                       &C::images));
  all.push_back(
      flag("convolution.copy_few_images",
           "fewer images than a tile of the layout, in torch's order, are first copied to channels-minor order",
           &Profile::convolution, &C::copy_few_images));
  all.push_back(reason("convolution", &Profile::convolution));
  all.push_back({"lowering.reason",
                 U::text,
                 0,
                 0,
                 "source of the profile",
                 {},
                 [](const Machine& m) { return m.lowering.reason.empty() ? Json() : Json(m.lowering.reason); },
                 [](Machine& m, const Json& json) { m.lowering.reason = json.as_string(); }});
  return all;
}

void begin_lowering(Machine& machine, const Json& json) {
  begin(machine.lowering.fusion, json, "fusion");
  begin(machine.lowering.product, json, "product");
  begin(machine.lowering.convolution, json, "convolution");
}

Machine machine_of_defaults() {
  Machine machine;
  machine.lowering = {Profile::Fusion{}, Profile::Product{}, Profile::Convolution{}, {}};
  return machine;
}

}  // namespace tilesim
