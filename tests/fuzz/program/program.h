#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gradrecomp::fuzzing {

class Machine;

/// One kind of step, and how often it is drawn.
struct Operation {
  const char* name;
  int weight;
  void (*run)(Machine&);
};

/// All operations that generate() draws from.
const std::vector<Operation>& operations();

/// What generate_hostile() draws from besides: what inconsiderate programs do.
const std::vector<Operation>& hostile_operations();

struct Step {
  const Operation* operation;
  std::uint64_t seed;
  bool operator==(const Step&) const = default;
};

/// What autocast computes in, if it is on.
enum class Precision : std::uint8_t { full, bfloat16, half };

/// A tensor program: a list of steps, and the seed of the world it finds.
struct Program {
  std::uint64_t seed = 0;
  std::vector<Step> steps;
  bool careless = false;                  ///< writes in place where autograd may object
  bool throws = false;                    ///< ends with an error instead of outputs
  Precision precision = Precision::full;  ///< of the autocast scope it runs in
  bool casts_backward = false;            ///< that scope ends after backward
  bool hostile = false;                   ///< may do what no dispatcher sees
  bool operator==(const Program&) const = default;
};

/// The program of `seed`, always the same.
Program generate(std::uint64_t seed);

/// A program that also takes hostile steps, always the same for the same `seed`.
Program generate_hostile(std::uint64_t seed);

/// What the program does, one line a step. Runs it once.
std::string listing(const Program& program);

}  // namespace gradrecomp::fuzzing
