// Nests by the machine's lowering profile: rules of a real chip's compiler, as data in the machine file.
#include <algorithm>

#include "tilesim/base/shape.hpp"
#include "tilesim/mapping/space.hpp"

namespace tilesim::mapping {

namespace {

constexpr std::int64_t no_limit = std::int64_t{1} << 40;

/// Bytes of a region in the chip's padded layout: minor axis padded to `tile[1]`, second minor axis to `tile[0]`.
std::int64_t padded_bytes(const Share& machine, const Problem& problem, const Nest& nest, std::size_t operand) {
  const Access& access = operand < 2 ? problem.domain.operands[operand] : problem.domain.results[0];
  const std::vector<int>& order = problem.minor_to_major[operand];
  std::int64_t bytes = bits(problem.memory_dtypes[operand]) / 8;
  for (std::size_t axis = 0; axis < access.axes.size(); ++axis) {
    std::int64_t extent = access.axes[axis].window;
    for (const AxisAccess::Term& term : access.axes[axis].terms) {
      const auto d = static_cast<std::size_t>(term.dim);
      extent += term.coefficient * (std::min(nest.tiles[d], problem.domain.extents[d]) - 1);
    }
    extent = std::min(extent, problem.shapes[operand][axis]);
    const std::size_t rank = access.axes.size();
    const std::size_t minor = order.empty() ? rank - 1 : static_cast<std::size_t>(order[0]);
    const std::size_t second = rank < 2 ? rank : order.empty() ? rank - 2 : static_cast<std::size_t>(order[1]);
    if (machine.layout.tile.size() == 2) {
      if (axis == minor) extent = round_up(extent, machine.layout.tile[1]);
      if (axis == second) extent = round_up(extent, machine.layout.tile[0]);
    }
    bytes *= extent;
  }
  return bytes;
}

std::int64_t& tile(Nest& nest, int dim) { return nest.tiles[static_cast<std::size_t>(dim)]; }

struct PanelRules { std::int64_t panel, columns, split_rows_above; };

/// The left operand is a stationary panel that is loaded before any product; the right one streams in windows of
/// columns.
Nest panel_nest(const Share& machine, const Problem& problem, const PanelRules& rules) {
  Nest nest{problem.domain.extents,
            concatenate({&problem.batch_dims, &problem.m_dims, &problem.n_dims, &problem.k_dims}),
            {1, 2, 2}};
  for (int dim : problem.batch_dims) {
    nest.depths[0] = problem.domain.extents[static_cast<std::size_t>(dim)] > 1 ? 2 : nest.depths[0];
    tile(nest, dim) = 1;
  }
  if (!problem.n_dims.empty())
    tile(nest, problem.n_dims.back()) = std::min(rules.columns, tile(nest, problem.n_dims.back()));
  const std::int64_t whole = padded_bytes(machine, problem, nest, 0);
  if (whole <= rules.panel || problem.m_dims.empty() || problem.k_dims.empty()) return nest;
  const std::int64_t panels = ceil_div(whole, rules.panel);
  std::int64_t rows = 1;
  for (int dim : problem.m_dims) rows *= problem.domain.extents[static_cast<std::size_t>(dim)];
  if (rows > rules.split_rows_above) {
    std::int64_t& size = tile(nest, problem.m_dims.back());
    size = std::min(size, round_up(ceil_div(size, panels), 8));
  } else {
    // With few rows, split the contraction instead; sums of all columns stay on chip.
    std::int64_t& size = tile(nest, problem.k_dims.back());
    size = std::min(size, round_up(ceil_div(size, panels), machine.core.array.rows));
    nest.order = concatenate({&problem.batch_dims, &problem.m_dims, &problem.k_dims, &problem.n_dims});
    nest.depths[2] = 1;
  }
  return nest;
}

/// Panels of `rows` rows and part of the contraction; sums of all their columns stay on chip.
Nest cut_nest(const Share& machine, const Problem& problem, const PanelRules& rules, std::int64_t rows) {
  Nest nest = panel_nest(machine, problem, {no_limit, rules.columns, 0});
  nest.order = concatenate({&problem.batch_dims, &problem.m_dims, &problem.k_dims, &problem.n_dims});
  nest.depths[2] = 1;
  tile(nest, problem.m_dims.back()) = rows;
  const std::int64_t panels = ceil_div(padded_bytes(machine, problem, nest, 0), rules.panel);
  std::int64_t& size = tile(nest, problem.k_dims.back());
  size = std::min(size, round_up(ceil_div(size, panels), machine.core.array.rows));
  return nest;
}

/// The rule's nest if it fits. If a long contraction leaves no space for two windows beside the panel: by the estimate,
/// the fastest of narrower windows, smaller panels and a split contraction.
std::optional<Nest> product_rule(const Share& machine, const Problem& problem,
                                 const LoweringProfile::Product& profile) {
  const PanelRules rules{profile.panel_bytes, profile.window_columns, profile.split_rows_above};
  const Nest planned = panel_nest(machine, problem, rules);
  if (legal(problem, planned, machine).legal) return planned;
  CostModel model(problem, machine);
  std::optional<Nest> best;
  double least = 0;
  const auto consider = [&](const Nest& nest) {
    if (!legal(problem, nest, machine).legal) return;
    const double rank = model.price(nest).soft;
    if (!best || rank < least) best = nest, least = rank;
  };
  const std::int64_t rows =
      problem.m_dims.empty() ? 1 : problem.domain.extents[static_cast<std::size_t>(problem.m_dims.back())];
  for (std::int64_t panel = rules.panel; panel >= rules.panel / 16; panel /= 2)
    for (std::int64_t columns = rules.columns; columns >= machine.core.array.columns; columns /= 2) {
      const PanelRules narrower{panel, columns, rules.split_rows_above};
      consider(panel_nest(machine, problem, narrower));
      if (problem.m_dims.empty() || problem.k_dims.empty()) continue;
      for (std::int64_t parts = 1; parts <= 64 && parts <= rows; parts *= 2)
        consider(cut_nest(machine, problem, narrower, round_up(ceil_div(rows, parts), 8)));
    }
  return best;
}

/// Whether data and sums of a nest (with halo and zero border) and narrow windows of weights fit the scratchpad.
bool held(const Share& machine, const Problem& problem, Nest nest) {
  if (!problem.n_dims.empty()) {
    std::int64_t& columns = tile(nest, problem.n_dims.back());
    columns = std::min(columns, machine.core.array.columns);
  }
  return legal(problem, nest, machine).legal;
}

/// The dims of images and of output rows; -1: none.
std::pair<int, int> image_and_row(const Problem& problem) {
  int image = -1, row = -1;
  for (int dim : problem.m_dims)
    for (const AxisAccess& axis : problem.domain.operands[0].axes) {
      if (axis.terms.empty() || axis.terms[0].dim != dim) continue;
      if (axis.terms.size() == 1)
        image = dim;
      else if (row < 0)
        row = dim;
    }
  return {image, row};
}

/// Whether adjacent positions along this dim of the first operand are contiguous in memory.
bool lies_over_lanes(const Share& machine, const Problem& problem, int dim) {
  const std::vector<int>& order = problem.minor_to_major[0];
  if (machine.layout.tile.size() != 2 || order.empty()) return false;
  const AxisAccess& minor = problem.domain.operands[0].axes[static_cast<std::size_t>(order[0])];
  return !minor.terms.empty() && minor.terms[0].dim == dim;
}

/// Whether the convolution's kernel has one element and stride 1.
bool is_pointwise(const Problem& problem) {
  const auto above_one = [&](int dim) { return problem.domain.extents[static_cast<std::size_t>(dim)] > 1; };
  for (const AxisAccess& axis : problem.domain.operands[0].axes)
    for (const AxisAccess::Term& term : axis.terms)
      if (term.coefficient != 1) return false;
  return std::ranges::count_if(problem.k_dims, above_one) <= 1 && image_and_row(problem).second >= 0;
}

/// If weights do not fit or are reloaded for every window, or if images are along the lanes: by the estimate, the
/// fastest of fewer rows, more images and narrower weights.
std::optional<Nest> fitting_planes(const Share& machine, const Problem& problem, const Nest& planned) {
  std::optional<Nest> best;
  if (problem.n_dims.empty()) return best;
  CostModel model(problem, machine);
  double least = 0;
  const auto consider = [&](const Nest& nest) {
    if (!legal(problem, nest, machine).legal) return;
    const double rank = model.price(nest).soft;
    if (!best || rank < least) best = nest, least = rank;
  };
  const auto extent = [&](int dim) { return dim < 0 ? 1 : problem.domain.extents[static_cast<std::size_t>(dim)]; };
  consider(planned);
  const auto [image, row] = image_and_row(problem);
  const bool pointwise = is_pointwise(problem);
  const std::int64_t wide = machine.core.array.columns * machine.core.array.count;
  const std::int64_t images = image < 0 ? 1 : planned.tiles[static_cast<std::size_t>(image)];
  for (std::int64_t times = 1; times == 1 || images * times < 2 * extent(image); times *= 2)
    for (std::int64_t parts = 1; parts <= std::min<std::int64_t>(extent(row), 32); parts *= 2)
      for (std::int64_t columns = wide; columns >= machine.core.array.columns; columns /= 2) {
        Nest nest = planned;
        if (image >= 0) tile(nest, image) = std::min(images * times, extent(image));
        if (row >= 0) tile(nest, row) = ceil_div(extent(row), parts);
        tile(nest, problem.n_dims.back()) = std::min(columns, extent(problem.n_dims.back()));
        nest.depths = {1, 2, 1};  // weights stream while the array computes
        consider(nest);
        if (!lies_over_lanes(machine, problem, image) && !pointwise) continue;
        nest.depths = {2, 1, 2};  // rows stream while the array computes
        if (pointwise) tile(nest, problem.n_dims.back()) = extent(problem.n_dims.back());
        consider(nest);
      }
  return best;
}

/// Whether weights stream once for each of several windows of images.
bool streams_again(const Problem& problem, const Nest& nest) {
  const int image = image_and_row(problem).first;
  const auto cut = [&](int dim) {
    return nest.tiles[static_cast<std::size_t>(dim)] < problem.domain.extents[static_cast<std::size_t>(dim)];
  };
  return image >= 0 && cut(image) && !problem.n_dims.empty() && cut(problem.n_dims.back());
}

/// Number of images per window: the rule's number, or a multiple that hides the load of weights behind streamed rows,
/// and fills the lanes if images are along the lanes.
std::int64_t images_of(const Share& machine, const Problem& problem, int image_dim, std::int64_t images) {
  std::int64_t plane = 1, granule = images;
  for (int dim : problem.m_dims)
    if (dim != image_dim) plane *= problem.domain.extents[static_cast<std::size_t>(dim)];
  if (lies_over_lanes(machine, problem, image_dim)) granule = round_up(images, machine.layout.tile[1]);
  return round_up(std::max(granule, ceil_div(machine.core.array.rows, std::max<std::int64_t>(1, plane))), granule);
}

/// Convolutions: windows of full planes of 8 images, double-buffered if two windows fit beside the weights. Otherwise
/// load, compute and store alternate, and planes that do not fit are split into rows.
std::optional<Nest> plane_nest(const Share& machine, const Problem& problem, std::int64_t images) {
  Nest nest{problem.domain.extents,
            concatenate({&problem.batch_dims, &problem.m_dims, &problem.n_dims, &problem.k_dims}),
            {2, 1, 2}};
  const auto [image_dim, row_dim] = image_and_row(problem);
  for (int dim : problem.batch_dims) tile(nest, dim) = 1;
  if (image_dim >= 0)
    tile(nest, image_dim) = std::min(images_of(machine, problem, image_dim, images), tile(nest, image_dim));
  const auto bytes = [&](std::size_t operand) { return padded_bytes(machine, problem, nest, operand); };
  const bool groups =
      image_dim >= 0 && problem.domain.extents[static_cast<std::size_t>(image_dim)] > tile(nest, image_dim);
  const std::int64_t capacity = machine.core.scratchpad.bytes;
  if (groups && 2 * (bytes(0) + bytes(2)) + bytes(1) <= capacity) return nest;
  nest.depths = {1, 1, 1};
  if (row_dim >= 0) {
    std::int64_t& rows = tile(nest, row_dim);
    const auto too_large = [&] {
      return bytes(0) + bytes(2) + std::min(bytes(1), capacity / 4) > capacity || !held(machine, problem, nest);
    };
    while (rows > 1 && too_large()) rows -= ceil_div(rows, 16);
    const std::int64_t extent = problem.domain.extents[static_cast<std::size_t>(row_dim)];
    rows = ceil_div(extent, ceil_div(extent, rows));  // equal pieces
    if (rows == 1 && extent > 1 && bytes(0) + bytes(2) + std::min(bytes(1), capacity / 4) > capacity)
      return std::nullopt;  // not even one row of all channels fits
  }
  const bool whole =
      !groups && (row_dim < 0 || tile(nest, row_dim) == problem.domain.extents[static_cast<std::size_t>(row_dim)]);
  if ((whole || bytes(0) + bytes(1) + bytes(2) > capacity) &&
      !problem.n_dims.empty()) {  // weights stream while the array computes
    std::int64_t& columns = tile(nest, problem.n_dims.back());
    columns = std::min(columns, machine.core.array.columns * machine.core.array.count);
    nest.depths[1] = 2;
  }
  return nest;
}

}  // namespace

std::optional<Nest> profile_nest(const Share& machine, const Problem& problem, bool convolution) {
  const LoweringProfile& profile = machine.whole.lowering;
  if (!convolution) return profile.product ? product_rule(machine, problem, *profile.product) : std::nullopt;
  if (!profile.convolution) return std::nullopt;
  std::optional<Nest> nest = plane_nest(machine, problem, profile.convolution->images);
  const bool rows_stream = is_pointwise(problem) || lies_over_lanes(machine, problem, image_and_row(problem).first);
  if (!nest || (legal(problem, *nest, machine).legal && !streams_again(problem, *nest) && !rows_stream)) return nest;
  return fitting_planes(machine, problem, *nest);  // empty: the general heuristic decides
}

}  // namespace tilesim::mapping
