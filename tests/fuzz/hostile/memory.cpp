#include <memory>

#include "fuzz/hostile/operations.h"
#include "fuzz/program/machine.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

std::size_t count_of(const Tensor& tensor) { return static_cast<std::size_t>(tensor.numel()); }

template <typename Number>
void fill(Machine& machine, std::vector<Number>& numbers) {
  const auto seed = static_cast<std::size_t>(machine.dice().below(5)) + machine.world().quirk;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = Number(0.25) + Number(0.125) * static_cast<Number>((i * (seed + 1)) % 7);
  }
}

// Whoever asks for memory next gets what was given back last.
void churn(std::size_t count) {
  std::vector<std::vector<float>> rubbish;
  for (int i = 0; i < 8; ++i) rubbish.emplace_back(count, 1e6F);
}

// What an operator makes of memory that is gone when it has run.
Tensor made_of(Machine& machine, const Tensor& borrowed) {
  switch (machine.dice().below(7)) {
    case 0:
      return borrowed.exp();
    case 1:
      return borrowed + 1;
    case 2:
      return borrowed.to(torch::kDouble).to(torch::kFloat);
    case 3:
      return torch::stack({borrowed, borrowed}).mean(0);
    case 4:
      return borrowed.view({-1}).flip(0).view(borrowed.sizes());
    case 5:
      return torch::empty_like(borrowed).copy_(borrowed);
    default:
      return borrowed.clone();
  }
}

void dying_memory(Machine& machine) {
  const auto x = machine.pick_float();
  Tensor made;
  {
    std::vector<float> numbers(count_of(x));
    fill(machine, numbers);
    const auto borrowed = machine.dice().chance(0.3)
                              ? torch::from_blob(numbers.data(), x.sizes(), [](void*) {})
                              : torch::from_blob(numbers.data(), x.sizes());
    made = made_of(machine, borrowed);
  }
  churn(count_of(x));
  machine.push(machine.dice().chance(0.5) ? x * made : (x + made.sin()).tanh());
}

// A loader's numbers in another type.
void converted_memory(Machine& machine) {
  const auto x = machine.pick_float();
  Tensor made;
  {
    std::vector<double> numbers(count_of(x));
    fill(machine, numbers);
    made = torch::from_blob(numbers.data(), x.sizes(), torch::kDouble).to(torch::kFloat);
  }
  churn(2 * count_of(x));
  machine.push(x * made.sin());
}

// The node of `product` saves borrowed memory. Where the graph lets go of that node before
// backward, what was made of that memory can be made again no longer.
void push_saved(Machine& machine, const Tensor& product) {
  if (product.numel() % 2 == 0) {
    machine.world().may_refuse = true;
  } else {
    machine.world().held.push_back(product);
  }
  machine.push(product);
}

// A buffer that every batch is put into. What was read of it before may be asked for again.
void refilled_memory(Machine& machine) {
  auto& borrowed = machine.world().borrowed;
  const bool again = !borrowed.empty() && machine.dice().chance(0.6);
  if (!again) {
    borrowed.push_back(std::make_shared<std::vector<float>>(machine.dice().between(1, 40)));
  }
  machine.world().may_refuse |= again;
  auto& numbers = *(again ? machine.dice().of(borrowed) : borrowed.back());
  fill(machine, numbers);
  const auto size = static_cast<std::int64_t>(numbers.size());
  const auto loan = torch::from_blob(numbers.data(), {size});
  const auto x = machine.pick_shaped({size});
  switch (machine.dice().below(3)) {
    case 0:
      return push_saved(machine, x * loan);
    case 1:
      return machine.push(x * loan.clone());
    default:
      return machine.push(x * loan.sin().exp());
  }
}

}  // namespace

std::vector<Operation> borrowing_operations() {
  return {{"dying_memory", 5, dying_memory},
          {"converted_memory", 2, converted_memory},
          {"refilled_memory", 3, refilled_memory}};
}

}  // namespace gradrecomp::fuzzing
