#include "tape/aten/rng_state.h"

#include <ATen/Context.h>

#include <chrono>
#include <cstring>
#include <thread>
#include <typeinfo>

#include "tape/aten/heap_blocks.h"
#include "tape/aten/polite_lock.h"

namespace gradrecomp::tape {
namespace {

bool same_engine(const at::mt19937& a, const at::mt19937& b) {
  const auto x = a.data();
  const auto y = b.data();
  return x.seed_ == y.seed_ && x.left_ == y.left_ && x.next_ == y.next_ && x.state_ == y.state_;
}

// Most draws of another thread take no longer.
bool is_held(std::mutex& mutex) {
  constexpr auto kPatience = std::chrono::milliseconds(1);
  const auto start = std::chrono::steady_clock::now();
  while (!mutex.try_lock()) {
    if (std::chrono::steady_clock::now() - start > kPatience) return true;
    std::this_thread::yield();
  }
  mutex.unlock();
  return false;
}

}  // namespace

std::unique_lock<std::recursive_mutex> turn_to_draw() {
  static auto* mutex = new std::recursive_mutex;  // for programs that end
  return lock_politely(*mutex);
}

RngState::RngState(const at::Generator& generator) : generator_(generator) {
  const std::lock_guard<std::mutex> lock(generator_.mutex());
  if (generator_.device().is_cpu()) {
    auto* cpu = generator_.get<at::CPUGeneratorImpl>();
    twister_ = std::make_unique<Twister>(
        Twister{cpu->engine(), cpu->next_float_normal_sample(), cpu->next_double_normal_sample()});
    return;
  }
  seed_ = generator_.current_seed();
  offset_ = generator_.get_offset();
}

std::unique_ptr<const RngState> RngState::of(const at::Generator& generator) {
  const c10::GeneratorImpl& impl = *generator.unsafeGetGeneratorImpl();
  if (generator.device().is_cpu() && typeid(impl) != typeid(at::CPUGeneratorImpl)) return nullptr;
  try {
    return std::make_unique<const RngState>(generator);
  } catch (const c10::Error&) {
    return nullptr;  // it has no seed or no offset
  }
}

std::unique_ptr<const RngState> RngState::of_default(c10::Device device, Lock lock) {
  try {
    at::Generator generator = at::globalContext().defaultGenerator(device);
    const bool gives_up = lock == Lock::gives_up && is_held(generator.mutex());
    return gives_up ? nullptr : of(generator);
  } catch (const c10::Error&) {
    return nullptr;
  }
}

std::int64_t RngState::bytes() const {
  return block_bytes(sizeof(RngState)) + (twister_ ? block_bytes(sizeof(Twister)) : 0);
}

bool RngState::is_locked() const {
  at::Generator generator = generator_;
  return is_held(generator.mutex());
}

bool RngState::is_current() const {
  const RngState current = now();
  if (!twister_) return seed_ == current.seed_ && offset_ == current.offset_;
  return twister_->next_float == current.twister_->next_float &&
         twister_->next_double == current.twister_->next_double &&
         same_engine(twister_->engine, current.twister_->engine);
}

void RngState::restore() const {
  auto generator = generator_;
  const std::lock_guard<std::mutex> lock(generator.mutex());
  if (twister_) {
    auto* cpu = generator.get<at::CPUGeneratorImpl>();
    cpu->set_engine(twister_->engine);
    cpu->set_next_float_normal_sample(twister_->next_float);
    cpu->set_next_double_normal_sample(twister_->next_double);
    return;
  }
  generator.set_current_seed(seed_);
  generator.set_offset(offset_);
}

at::Generator RngState::swap_in() const {
  if (twister_) return {};
  auto generator = generator_;
  const std::lock_guard<std::mutex> lock(generator.mutex());
  try {
    at::Generator other = generator.clone();
    other.set_current_seed(seed_);
    other.set_offset(offset_);
    at::Generator current = generator.graphsafe_get_state();
    generator.graphsafe_set_state(other);
    return current;
  } catch (const c10::Error&) {
    return {};
  }
}

void RngState::take_back(const at::Generator& before) const {
  auto generator = generator_;
  const std::lock_guard<std::mutex> lock(generator.mutex());
  generator.graphsafe_set_state(before);
}

RngRestore::RngRestore(const RngState& replayed)
    : replayed_(replayed), current_(replayed.swap_in()) {
  if (current_.defined()) return;
  state_to_restore_.emplace(replayed.now());
  replayed.restore();
}

RngRestore::~RngRestore() {
  if (state_to_restore_) {
    state_to_restore_->restore();
  } else {
    replayed_.take_back(current_);
  }
}

}  // namespace gradrecomp::tape
