#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>

namespace gradrecomp::test::host_device {

class Queue;

/// A place in a queue: what was given before it has been done, or not.
struct Place {
  Queue* queue = nullptr;
  std::uint64_t count = 0;  ///< of items given until then

  [[nodiscard]] bool is_done() const;
};

/// What one stream has been given and has not done yet. Never destroyed: blocks and events name it.
class Queue {
 public:
  Queue(c10::Device device, c10::StreamId id) : device_(device), id_(id) {}
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] c10::Device device() const { return device_; }
  [[nodiscard]] c10::Stream stream() const {
    return c10::Stream(c10::Stream::UNSAFE, device_, id_);
  }
  [[nodiscard]] Place end() { return {this, num_done_ + items_.size()}; }
  [[nodiscard]] bool is_empty() const { return items_.empty(); }

 private:
  friend class Scheduler;
  friend struct Place;

  struct Item {
    std::function<void()> work;  ///< none: waits for `place`
    Place place;
  };

  c10::Device device_;
  c10::StreamId id_;
  double eagerness_ = 0;  ///< the chance to do something whenever the device is given something
  std::uint64_t num_done_ = 0;
  std::deque<Item> items_;
};

inline bool Place::is_done() const { return queue == nullptr || queue->num_done_ >= count; }

/// All that the device's functions do, they do under this lock. Recursive, as freeing a tensor
/// inside of them takes it again.
std::recursive_mutex& mutex();

/// Whether the device is asynchronous now.
bool is_asynchronous();

/// Streams of all devices. Call its functions under mutex().
///
/// Work is done in the order of its stream; apart from that as late as something waits for it, or
/// at moments that a seed chooses. What must not be seen until then is not there until then.
class Scheduler {
 public:
  static Scheduler& get();

  /// From now on work is queued. Seed 0: nothing is done until something waits for it.
  void begin(std::uint64_t seed);
  /// Does all that is queued; from now on work is done at once.
  void end();

  Queue& queue(const c10::Stream& stream);
  /// The queue of this thread's stream on `device`.
  Queue& current(c10::Device device);

  void enqueue(Queue& queue, std::function<void()> work);
  /// Lets what `queue` is given from now on wait for `place`.
  void enqueue_wait(Queue& queue, const Place& place);

  /// As a host does that waits. Throws: what work threw since the last time.
  void synchronize(const Place& place);
  void synchronize_all(std::optional<c10::DeviceIndex> device = std::nullopt);
  /// Whether the place is reached. If not, some work is done, so that who asks again gets there.
  bool query(const Place& place);

 private:
  void do_until(const Place& place);
  void advance(Queue& queue, std::uint64_t most);
  void do_next(Queue& queue);
  void do_some_by_chance();
  [[nodiscard]] double eagerness_of(const Queue& queue) const;
  std::uint64_t dice();
  bool chance(double probability);
  void throw_error();

  std::uint64_t seed_ = 0;
  std::uint64_t state_ = 0;
  std::deque<Queue> queues_;
  std::exception_ptr error_;
};

}  // namespace gradrecomp::test::host_device
