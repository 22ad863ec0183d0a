#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

/// Operators that compute each element of their result from those at the same place.
enum class Pointwise : std::uint8_t { no, relu, add, mul, div };

/// Normalisations that return their result, the mean and the inverse deviation.
enum class Norm : std::uint8_t { no, batch, layer };

/// Why an operator may give other bits when it runs again; on the CPU, for `by_threads` alone.
enum class Fickle : std::uint8_t {
  no,
  by_order,      ///< it adds up or writes in no fixed order, unless algorithms are deterministic
  by_threads,    ///< the same, also where threads of the CPU share its work
  by_algorithm,  ///< a convolution, for which each thread may choose another algorithm
  by_state,      ///< an RNN layer, whose dropout goes on from a state that no schema shows
};

/// What the schema, the tags and a short list of names say about an operator.
struct OpTraits {
  explicit OpTraits(const c10::OperatorHandle& op) : handle(op), name(op.schema().name()) {}

  c10::OperatorHandle handle;  ///< dangling once the operator has departed
  std::string name;
  /// Whether its library was unloaded. Another thread may set it.
  mutable std::atomic<bool> has_departed = false;
  /// How many calls of it were watched for draws that no tag speaks of, and in how many of them
  /// some generator went on.
  mutable std::atomic<std::int64_t> num_watched = 0;
  mutable std::atomic<std::int64_t> num_drew = 0;

  std::vector<std::uint8_t> writes;  ///< per argument: the schema says it is written in place
  std::vector<std::int16_t> running_statistics;  ///< arguments updated behind the schema's back
  std::size_t num_returns = 0;
  std::uint64_t name_hash = 0;          ///< of name and overload; the same in every process
  bool writes_any = false;              ///< some argument
  bool never_trains = false;            ///< it only reads those
  std::int16_t training_argument = -1;  ///< those are updated only where this argument is true
  Pointwise pointwise = Pointwise::no;
  Norm norm = Norm::no;
  Fickle fickle = Fickle::no;
  bool passive = false;        ///< changes no content and makes no storage: views, metadata
  bool factory = false;        ///< the torch:: version wraps its result in a variable
  bool shapes_only = false;    ///< reads nothing of its tensors but their shapes and types
  bool makes_nothing = false;  ///< writes nothing, and returns no tensor in memory of its own
  bool copies = false;         ///< makes nothing but a copy of what it reads, if anything
  bool uninitialized = false;  ///< its output holds garbage until it is written
  bool fills = false;          ///< writes all of its targets without reading them
  bool resizes = false;        ///< may give what it writes another size
  bool writes_shown = false;   ///< one tensor, and of its memory only what that shows
  bool bumps = false;          ///< autograd's part of it makes versions of its targets grow
  bool bumps_before = false;   ///< maybe before the call, as operators written in Python do
  bool foreign = false;        ///< not LibTorch's own, so that its tags may say too little
  bool overridden = false;     ///< another library's kernel has taken the place of LibTorch's
  bool one_kernel = false;     ///< whatever libraries and precisions the program chooses
  bool reads_beyond = false;   ///< maybe more of a storage than its arguments show
  bool seeded = false;         ///< may draw from a random generator
  bool writes_unsaid = false;  ///< maybe, whatever its tensors are: it returns nothing else
  bool replayable = true;      ///< false: nondeterministic, collective, or it changes storages

  /// Whether what its kernel does is not known from LibTorch's.
  [[nodiscard]] bool has_other_kernel() const { return foreign || overridden; }
  /// Whether the memory of what it reads may hold anything.
  [[nodiscard]] bool ignores_content() const { return shapes_only && !overridden; }
  [[nodiscard]] std::size_t num_arguments() const { return writes.size(); }
};

/// FNV-1a of `text`, which goes on from `hash`. Plans are saved to files, and std::hash may differ
/// between processes.
std::uint64_t hash_of(std::string_view text, std::uint64_t hash = 0xcbf29ce484222325u);

/// The operator that stands on a tape for a write that none made.
inline constexpr std::string_view kUnseenWrite = "gradrecomp::unseen_write";

/// Traits of `op`, computed once per operator and never destroyed.
/// Threads: safe; every thread has its own table.
const OpTraits& traits_of(const c10::OperatorHandle& op);

}  // namespace gradrecomp::tape
