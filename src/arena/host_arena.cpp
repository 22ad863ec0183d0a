#include "arena/host_arena.h"

#include <pthread.h>
#include <unistd.h>

namespace gradrecomp::arena {
namespace {

// More blocks than the machine has memory for are not alive at once.
std::size_t physical_bytes() {
  return static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace

HostArena::HostArena() : arena_(physical_bytes()), placer_(physical_bytes()) {}

HostArena& HostArena::of_process() {
  static auto* arena = [] {
    auto* made = new HostArena;
    pthread_atfork(before_fork, after_fork, after_fork);
    return made;
  }();
  return *arena;
}

// Whatever thread forks, the child's copy is not one that another was about to change.
void HostArena::before_fork() {
  HostArena& arena = of_process();
  arena.placer_.mutex().lock();
  arena.placer_.arena().mutex().lock();
  arena.arena_.mutex().lock();
}

void HostArena::after_fork() {
  HostArena& arena = of_process();
  arena.arena_.mutex().unlock();
  arena.placer_.arena().mutex().unlock();
  arena.placer_.mutex().unlock();
}

void* HostArena::allocate(std::size_t bytes) {
  if (bytes < least_bytes_) return nullptr;
  if (void* block = placer_.allocate(bytes)) return block;
  void* block = arena_.allocate(bytes);
  if (block != nullptr) placer_.got_elsewhere(block, bytes);
  return block;
}

bool HostArena::owns(const void* block) const {
  return arena_.owns(block) || placer_.arena().owns(block);
}

void HostArena::free(void* block) {
  placer_.freed(block);
  (arena_.owns(block) ? arena_ : placer_.arena()).free(block);
}

std::size_t HostArena::bytes_in_use() const {
  return arena_.bytes_in_use() + placer_.arena().bytes_in_use();
}

void HostArena::give_back_free() {
  arena_.give_back_free();
  placer_.arena().give_back_free();
}

}  // namespace gradrecomp::arena
