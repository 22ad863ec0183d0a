#pragma once

#include <ATen/core/stack.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "tape/dispatch/op_traits.h"
#include "tape/lent/aliases.h"
#include "tape/writing/tape_writer.h"

namespace gradrecomp::tape {

/// Finds what was written to values where the recorder does not see it: by a raw pointer, in memory
/// that others lent, by code that says so itself. Puts such writes on the tape.
class UnseenWrites {
 public:
  /// Puts on the tape that all of a tensor's memory has been written.
  using Record = std::function<void(const at::Tensor&)>;

  UnseenWrites(Tape& tape, TapeWriter& writer, Record record)
      : tape_(tape), writer_(writer), record_(std::move(record)), lent_aliases_(tape) {}

  /// Looks at all that a call is about to read or write; its arguments are the last of `stack`.
  void look_before(const OpTraits& traits, const torch::jit::Stack& stack);
  /// `whole`: looks at more than the tensor shows. `bumped`: the call has raised its version.
  void look_at(const at::Tensor& tensor, bool whole, bool bumped);
  /// Has look_after() see whether a call has written to `tensor`, which is plain, though its schema
  /// does not say so.
  void note_content(const at::Tensor& tensor);
  void look_after(const at::Tensor& tensor);
  /// Notes what `value` contains, whatever the guard is, so that a write by hand is found when it
  /// is next read.
  void watch_content(ValueId value);
  /// Looks once more at all whose content is watched, as the region ends.
  void look_at_watched();
  /// What a tensor contains at such a time: some say too late that they write.
  enum class Content : std::uint8_t { not_yet_written, unsure };
  /// Notes that `tensor` is about to be written, which will raise its version.
  void note(const at::Tensor& tensor, Content content);
  /// Notes that a call is about to write to `part` of a tensor, which need not raise its version.
  void note_part(const at::Tensor& part);
  /// Those whose version counters will have grown when a call that makes no content has returned.
  [[nodiscard]] std::vector<ValueId> values_to_grow(const OpTraits& traits,
                                                    const torch::jit::Stack& stack) const;

 private:
  [[nodiscard]] bool is_part_enough_before_write(const at::Tensor& written, const OpTraits& traits,
                                                 const torch::jit::Stack& stack) const;
  void look_at_part(const at::Tensor& tensor, bool bumped);
  bool record_write(const at::Tensor& tensor, Content content);
  void record_writes_to_aliases_of(const at::Tensor& written);
  void trust_as_it_is(const at::Tensor& tensor, ValueId value);
  [[nodiscard]] bool has_changed(ValueId value) const;
  void lose_content(ValueId value);
  /// Of what was made of a value that cannot be made again, and is not held, keeps what there is.
  void keep_what_hangs_on(ValueId lost);

  Tape& tape_;
  TapeWriter& writer_;
  Record record_;
  LentAliases lent_aliases_;
  std::vector<ValueId> watched_;
};

}  // namespace gradrecomp::tape
