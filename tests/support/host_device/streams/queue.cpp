#include "streams/queue.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "streams/streams.h"
#include "streams/worker.h"

namespace gradrecomp::test::host_device {
namespace {

std::atomic<bool> asynchronous = false;

}  // namespace

std::recursive_mutex& mutex() {
  static auto* mutex = new std::recursive_mutex;  // for programs that end
  return *mutex;
}

bool is_asynchronous() { return asynchronous; }

Scheduler& Scheduler::get() {
  static auto* scheduler = new Scheduler;  // blocks are freed when statics are gone
  return *scheduler;
}

void Scheduler::begin(std::uint64_t seed) {
  seed_ = seed;
  state_ = seed;
  for (auto& queue : queues_) queue.eagerness_ = eagerness_of(queue);
  asynchronous = true;
}

void Scheduler::end() {
  for (auto& queue : queues_) do_until(queue.end());
  asynchronous = false;
  throw_error();
}

Queue& Scheduler::queue(const c10::Stream& stream) {
  const auto known =
      std::ranges::find_if(queues_, [&](const Queue& queue) { return queue.stream() == stream; });
  if (known != queues_.end()) return *known;
  auto& queue = queues_.emplace_back(stream.device(), stream.id());
  queue.eagerness_ = eagerness_of(queue);
  return queue;
}

Queue& Scheduler::current(c10::Device device) { return queue(current_stream(device)); }

void Scheduler::enqueue(Queue& queue, std::function<void()> work) {
  if (!is_asynchronous()) return work();
  queue.items_.push_back({std::move(work), {}});
  do_some_by_chance();
}

void Scheduler::enqueue_wait(Queue& queue, const Place& place) {
  if (!place.is_done()) queue.items_.push_back({nullptr, place});
}

void Scheduler::synchronize(const Place& place) {
  do_until(place);
  throw_error();
}

void Scheduler::synchronize_all(std::optional<c10::DeviceIndex> device) {
  for (auto& queue : queues_) {
    if (!device || queue.device().index() == *device) do_until(queue.end());
  }
  throw_error();
}

bool Scheduler::query(const Place& place) {
  if (place.is_done()) return true;
  run_on_processor([&] { do_next(*place.queue); });
  return false;
}

void Scheduler::do_until(const Place& place) {
  if (place.is_done()) return;
  run_on_processor([&] {
    while (!place.is_done()) do_next(*place.queue);
  });
}

// On the processor's thread. Whom the queue waits for comes first, and no further than it must: a
// place is in the queue that it names before anyone can wait for it, so this comes to an end.
void Scheduler::do_next(Queue& queue) {
  const Queue::Item item = std::move(queue.items_.front());
  while (!item.place.is_done()) do_next(*item.place.queue);
  queue.items_.pop_front();
  try {
    if (item.work) item.work();
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
  ++queue.num_done_;
}

// Unlike a host that waits, it makes no other queue hurry.
void Scheduler::advance(Queue& queue, std::uint64_t most) {
  for (; most > 0 && !queue.is_empty() && queue.items_.front().place.is_done(); --most) {
    do_next(queue);
  }
}

void Scheduler::do_some_by_chance() {
  if (seed_ == 0) return;
  std::vector<Queue*> chosen;
  for (auto& queue : queues_) {
    if (!queue.is_empty() && chance(queue.eagerness_)) chosen.push_back(&queue);
  }
  if (chosen.empty()) return;
  std::swap(chosen.front(), chosen[dice() % chosen.size()]);
  run_on_processor([&] {
    for (Queue* queue : chosen) advance(*queue, 1 + dice() % 8);
  });
}

// Streams differ in it, so that now one is ahead and now another. Which streams the process has
// used before makes no difference.
double Scheduler::eagerness_of(const Queue& queue) const {
  constexpr std::array kKinds = {0.0, 0.02, 0.2, 0.6, 1.0};
  const auto stream = static_cast<std::uint64_t>(queue.id_) * 2 + queue.device_.index();
  const std::uint64_t mixed = (seed_ ^ (stream + 1) * 0x94d049bb133111ebu) * 0xbf58476d1ce4e5b9u;
  return kKinds[(mixed >> 32) % kKinds.size()];
}

std::uint64_t Scheduler::dice() {
  std::uint64_t z = state_ += 0x9e3779b97f4a7c15u;  // splitmix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

bool Scheduler::chance(double probability) {
  return static_cast<double>(dice() >> 11) * 0x1.0p-53 < probability;
}

void Scheduler::throw_error() {
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

}  // namespace gradrecomp::test::host_device
