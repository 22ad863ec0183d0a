#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tape/geometry/geometry.h"
#include "tape/lent_parts.h"
#include "tape/op.h"

namespace gradrecomp::tape {

class ValueCopy;

/// Why the tape itself holds a value's storage.
enum class Hold : std::uint8_t {
  none,     ///< dropped: it lives only as long as the program holds it
  window,   ///< saved by autograd, held until the current window closes
  kept,     ///< the plan keeps it, or it is a boundary of a step without one
  source,   ///< cannot be made again: external, not replayable, or verification failed
  cached,   ///< made again by a replay, held until its last handle is released
  listed,   ///< made again by a replay whose plan lists it, held until nothing wants it
  away,     ///< kept, in a copy alone: in host memory, or rounded
  fetched,  ///< back from there, held until nothing wants it
};

/// What is known of the tensors with one version counter.
struct Followed {
  Extent shown;  ///< of the value, by them and by what is a view of them
  std::uint32_t sealed_version = 0;
};

/// Tensors over a value's memory that count by themselves: autograd does not take them for views
/// (aten::_unsafe_view), or they were given that memory, as parameters in one buffer are.
struct Alias : Followed {
  Alias(c10::VariableVersion by, Extent of_value)
      : Followed{.shown = of_value}, counter(std::move(by)) {}

  c10::VariableVersion counter;
};

/// What few values need, so that the others are smaller.
struct RareParts {
  std::shared_ptr<ValueCopy> copy = {};  ///< of a value that may be away, as long as it is held
  std::vector<Alias> aliases = {};
  std::optional<Followed> own = {};   ///< of the value's own counter; unknown: it shows all
  std::uint32_t retired_version = 0;  ///< of counters that only the tape still has
  /// The program's own hold at the seal, as it were, until no handle is left: it may write to the
  /// memory past its version and let go of it, and autograd would read that.
  c10::Storage shared = {};
  std::unique_ptr<LentParts> lent_parts = {};

  [[nodiscard]] std::uint32_t aliases_version() const {
    std::uint32_t version = retired_version;
    for (const Alias& alias : aliases) version += alias.counter.current_version();
    return version;
  }
};

/// A storage at one content version. Small, as a step has thousands, of which five fit into a node
/// of the tape's deque.
struct Value {
  /// The storage, whether the tape holds it or not. Also keeps its address from being used again.
  c10::weak_intrusive_ptr<c10::StorageImpl> owner{c10::intrusive_ptr<c10::StorageImpl>()};
  c10::Storage storage;    ///< the tape's own hold; empty if `hold` is none or away
  c10::Storage temporary;  ///< made in the current replay sweep
  c10::VariableVersion version_counter;
  std::unique_ptr<RareParts> rare;  ///< null: it needs none of them
  std::int64_t bytes = 0;
  std::uint32_t sealed_version = 0;
  std::uint32_t seen_version = 0;  ///< when the recorder last looked
  std::uint32_t copy_version = 0;  ///< when the tape got a copy of it, by a replay or from the host
  OpId producer = -1;              ///< -1: external
  ValueId overwrites = -1;         ///< the value whose memory it took over
  ValueId overwritten_by = -1;     ///< the next content of its storage, maybe in other memory
  std::int32_t num_handles = 0;
  std::int32_t num_wanted = 0;  ///< handles, and wanted ops that read it
  std::int32_t num_reads = 0;   ///< by recorded ops
  std::int32_t num_uses = 0;    ///< reads left in the current replay sweep
  std::int32_t sweep = 0;       ///< last replay sweep that visited it
  /// How often recorded writes will raise the version counter above `seen_version`. If this is
  /// too low, a recorded write looks like an unseen one; nothing worse happens.
  std::uint16_t num_due_bumps = 0;
  Hold hold = Hold::none;
  bool external : 1 = false;
  bool uninitialized : 1 = false;  ///< only by hand has it been written, if it has been
  bool must_keep : 1 = false;      ///< is a source, or would be if the program let go of it
  bool lost : 1 = false;           ///< cannot be made again and is not held
  bool lent : 1 = false;           ///< lent to LibTorch, or by an operator that keeps hold of it
  bool has_print : 1 = false;      ///< what it contains is known, see Contents
  bool stale : 1 = false;          ///< what the program holds is no longer this content
  bool snapshot : 1 = false;       ///< cloned when overwritten, because its content is a source

  /// Grows with each write in place, through whichever tensor.
  [[nodiscard]] std::uint32_t version() const {
    const std::uint32_t version = version_counter.current_version();
    return rare ? version + rare->aliases_version() : version;
  }

  /// Whether it was written since the seal, by a tensor that shows some of what is `read`.
  [[nodiscard]] bool was_written_in(Extent read) const {
    if (version() == sealed_version) return false;
    if (!rare || !rare->own) return true;
    const auto has_written = [&](const Followed& by, const c10::VariableVersion& counter) {
      return counter.current_version() != by.sealed_version && overlap(by.shown, read);
    };
    return has_written(*rare->own, version_counter) ||
           std::ranges::any_of(rare->aliases, [&](const Alias& alias) {
             return has_written(alias, alias.counter);
           });
  }
  void note_sealed_version() {
    sealed_version = version();
    if (!rare) return;
    if (rare->own) rare->own->sealed_version = version_counter.current_version();
    for (Alias& alias : rare->aliases) alias.sealed_version = alias.counter.current_version();
  }

  /// What it is while it is away; null: it has none.
  [[nodiscard]] ValueCopy* copy() const { return rare ? rare->copy.get() : nullptr; }

  RareParts& with_rare() {
    if (!rare) rare = std::make_unique<RareParts>();
    return *rare;
  }

  LentParts& with_lent_parts() {
    RareParts& parts = with_rare();
    if (!parts.lent_parts) parts.lent_parts = std::make_unique<LentParts>();
    return *parts.lent_parts;
  }

  /// Whether `other` is the storage that it is a content of.
  [[nodiscard]] bool is_content_of(const c10::Storage& other) const {
    return owner._unsafe_get_target() == other.unsafeGetStorageImpl();
  }
};

/// Whether a replay has made it, whatever the plan says of it.
inline bool made_again(Hold hold) { return hold == Hold::cached || hold == Hold::listed; }

/// Whether it is memory that the program has never seen.
inline bool is_copy(Hold hold) { return made_again(hold) || hold == Hold::fetched; }

}  // namespace gradrecomp::tape
