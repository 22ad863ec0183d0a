#include "kernels/arithmetic/hash.h"

#include "gradrecomp/kernels/check.h"
#include "kernels/cpu/cpu.h"

namespace gradrecomp::kernels::cpu {

void hash_memory(const HashMemory& args, Stream /*stream*/) {
  check(args);
  for (const HashedMemory& memory : args.parts) {
    const bool aligned = reinterpret_cast<std::uintptr_t>(memory.bytes) % kHashWordBytes == 0;
    for (std::int64_t block = 0; block < num_hash_blocks(memory.num_bytes); ++block) {
      for (std::int64_t lane = 0; lane < kHashLanes; ++lane) {
        memory.hashes[block * kHashLanes + lane] = hash_of_lane(memory, block, lane, aligned);
      }
    }
  }
}

}  // namespace gradrecomp::kernels::cpu
