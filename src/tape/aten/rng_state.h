#pragma once

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Generator.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

#include "gradrecomp/version.h"

namespace gradrecomp::tape {

// Note [ Drawing by turns ]
// ~~~~~~~~~~~~~~~~~~~~~~~~~
// Replays set a generator back and then forward again. Another thread that drew from it in between
// would get the wrong numbers, and its draws would be forgotten. So a thread that draws for a tape,
// in the forward pass, in a replay or to verify, holds one lock of the process meanwhile. It comes
// before the lock of any tape: an op that draws may allocate, which a profiled tape takes its lock
// to note. A replay that may draw therefore takes it before its tape's.

/// Waits until no other thread draws, or replays what drew, for a tape.
[[nodiscard]] std::unique_lock<std::recursive_mutex> turn_to_draw();

/// State of one random generator at one moment, kept outside the tensor allocators.
///
/// On the CPU the whole Mersenne twister (2.5 KB); on other devices seed and offset, two host
/// integers that are read without a synchronisation.
class RngState {
 public:
  explicit RngState(const at::Generator& generator);
  /// Null for a generator that is not LibTorch's own: its state cannot be read.
  static std::unique_ptr<const RngState> of(const at::Generator& generator);

  enum class Lock : std::uint8_t { waits, gives_up };
  /// The state of the default generator, which operators use when given none. Null if the device
  /// has none or, where a held lock makes it give up, if that is held for long: the program may
  /// hold it, as one that draws by hand does, and wait for this call.
  static std::unique_ptr<const RngState> of_default(c10::Device device, Lock lock = Lock::gives_up);

  /// Whether the generator's lock is held for long.
  [[nodiscard]] bool is_locked() const;
  /// True if nothing was drawn since.
  [[nodiscard]] bool is_current() const;
  [[nodiscard]] bool has_generator_of(const RngState& other) const {
    return generator_ == other.generator_;
  }
  /// Sets the generator back to this state.
  void restore() const;
  /// The state the same generator is in now.
  [[nodiscard]] RngState now() const { return RngState(generator_); }
  /// Of heap that it takes.
  [[nodiscard]] std::int64_t bytes() const;
  /// Has the generator go on from this state, with a state of its own beside the current one, which
  /// is returned. Undefined where a generator can have only one, as on the CPU.
  [[nodiscard]] at::Generator swap_in() const;
  /// Has it go on from what swap_in() returned.
  void take_back(const at::Generator& before) const;

 private:
  struct Twister {
    at::mt19937 engine;
    std::optional<float> next_float;
    std::optional<double> next_double;
  };
  at::Generator generator_;
  std::unique_ptr<Twister> twister_;  // CPU only
  std::uint64_t seed_ = 0;
  std::uint64_t offset_ = 0;
};

/// Puts a generator back, when the scope ends, to the state it had when the scope began.
///
/// Setting the seed of CUDA's generator counts as a restart, after which cuDNN's RNN layers lose
/// their dropout state. So it draws from another state meanwhile, where it can.
class RngRestore {
 public:
  explicit RngRestore(const RngState& replayed);
  ~RngRestore();
  RngRestore(const RngRestore&) = delete;
  RngRestore& operator=(const RngRestore&) = delete;

 private:
  std::unique_lock<std::recursive_mutex> turn_ = turn_to_draw();  // given back last
  const RngState& replayed_;
  at::Generator current_;                     // what it had, where it can have several
  std::optional<RngState> state_to_restore_;  // else
};

}  // namespace gradrecomp::tape
