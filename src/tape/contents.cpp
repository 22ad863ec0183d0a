#include "tape/contents.h"

namespace gradrecomp::tape {

void Contents::print(ValueId value, const c10::Storage& storage, const Geometry& geometry,
                     Look look) {
  known_[value] = {Print(storage, geometry, look), {}};
}

bool Contents::fits(ValueId value, const c10::Storage& storage, const Geometry& shown) const {
  const Print& print = known_.at(value).print;
  return print.fits(storage, print.blocks_of(shown.extent()));
}

bool Contents::fits_in_sweep(ValueId value, const c10::Storage& storage, const Geometry& shown,
                             std::int32_t sweep) {
  Known& known = known_.at(value);
  return fits_in_sweep(known, known.print.blocks_of(shown.extent()), storage, sweep);
}

bool Contents::fits_in_sweep(ValueId value, const c10::Storage& storage, std::int32_t sweep) {
  Known& known = known_.at(value);
  return fits_in_sweep(known, known.print.all(), storage, sweep);
}

bool Contents::fits_in_sweep(Known& known, Print::Blocks blocks, const c10::Storage& storage,
                             std::int32_t sweep) {
  if (!known.print.is_of_size(storage)) return false;
  known.last_sweeps.resize(static_cast<std::size_t>(known.print.all().end));
  for (std::int64_t block = blocks.begin; block < blocks.end; ++block) {
    std::int32_t& last_sweep = known.last_sweeps[static_cast<std::size_t>(block)];
    if (last_sweep == sweep) continue;
    if (!known.print.fits(storage, {block, block + 1})) return false;
    last_sweep = sweep;
  }
  return true;
}

}  // namespace gradrecomp::tape
