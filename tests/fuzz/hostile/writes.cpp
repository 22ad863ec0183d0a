#include <cstring>
#include <utility>

#include "fuzz/hostile/operations.h"
#include "fuzz/program/machine.h"
#include "fuzz/world/raw_write.h"
#include "fuzz/world/silence.h"
#include "gradrecomp/region.h"

namespace gradrecomp::fuzzing {
namespace {

using torch::Tensor;

// With the shape of what may hang on parameters.
Tensor of_some_shape(Machine& machine, at::IntArrayRef shape) {
  const auto x = machine.pick_shaped(shape);
  switch (machine.dice().below(6)) {
    case 0:
      return torch::ones_like(x).contiguous();
    case 1:
      return torch::full_like(x, 0.3).contiguous();
    case 2:
      return x.new_full(shape, 0.6);
    case 3:
      return torch::empty_like(x).fill_(0.9).contiguous();
    case 4:
      return torch::rand_like(x).contiguous();
    default:
      return torch::eye(4).sum() * torch::ones(shape);
  }
}

// By operators that read something else.
Tensor written_into_empty(Machine& machine, at::IntArrayRef shape) {
  auto made = torch::empty(shape);
  auto none = torch::empty({0});
  const auto ones = torch::ones(shape);
  switch (machine.dice().below(5)) {
    case 0:
      return made.copy_(ones * 0.4);
    case 1:
      return at::mul_out(made, ones, ones * 0.3);
    case 2:
      return made.bernoulli_(ones * 0.5);
    case 3:
      return at::where_out(none, ones > 0.5, ones * 0.7, ones);
    default: {
      machine.world().may_refuse = true;
      const auto half = made.numel() / 2;
      made.flatten().narrow(0, 0, half).fill_(0.2);
      made.flatten()
          .narrow(0, half, made.numel() - half)
          .copy_(ones.flatten().narrow(0, half, made.numel() - half));
      return made;
    }
  }
}

// What autograd takes for a constant and a tape for what it can make again.
Tensor manufactured(Machine& machine, at::IntArrayRef shape) {
  switch (machine.dice().below(17)) {
    case 0:
      return torch::zeros(shape);
    case 1:
      return torch::ones(shape);
    case 2:
      return torch::full(shape, 0.5);
    case 3:
      return torch::rand(shape);
    case 4:
      return torch::randn(shape);
    case 5:
      return (torch::arange(c10::multiply_integers(shape), torch::kFloat) * 0.1).view(shape);
    case 6:
      return torch::empty(shape).fill_(0.75);
    case 7:
      return torch::empty(shape).uniform_();
    case 8:
      return torch::ones(shape).clone();
    case 9:
      return torch::zeros(shape, torch::kInt).to(torch::kFloat);
    case 10:
      return torch::empty(shape).normal_(0, 1, machine.world().generator);
    case 11:
      return torch::linspace(-1, 1, c10::multiply_integers(shape)).view(shape);
    case 12:
      return torch::zeros_like(machine.pick_shaped(shape).detach()).contiguous();
    case 13:
      return of_some_shape(machine, shape);
    default:
      return written_into_empty(machine, shape);
  }
}

// Some writes happen with some numbers only, so that the step that is verified may miss them.
bool happens(Machine& machine) {
  const auto quirk = machine.world().quirk;
  switch (machine.dice().below(4)) {
    case 0:
      return quirk % 2 == 1;
    case 1:
      return quirk >= 2;
    case 2:
      return quirk != 0;
    default:
      return true;
  }
}

void write_past(Machine& machine, const Tensor& tensor) {
  machine.world().writes_unseen = true;
  raw_write(machine.dice(), tensor);
}

Tensor read(Machine& machine, const Tensor& made) {
  const auto x = machine.pick_shaped(made.sizes());
  switch (machine.dice().below(5)) {
    case 0:
      return x + made.exp();
    case 1:
      return x * made.sin();
    case 2:
      return torch::tanh(x) * made.view(made.sizes()).neg();
    case 3:
      return x.masked_fill(made > 0.4, 0.2);
    default:
      return x * made;
  }
}

void filled_factory(Machine& machine) {
  const auto shape = machine.pick_float().sizes().vec();
  auto made = manufactured(machine, shape);
  if (happens(machine)) write_past(machine, made);
  if (machine.dice().chance(0.2)) made.mul_(0.5).add_(0.1);
  machine.push(read(machine, made));
  if (machine.dice().chance(0.3)) machine.push(made);
  if (machine.dice().chance(0.5)) machine.world().made.push_back(made);
}

// A mask of rows by how long they are.
void padding_mask(Machine& machine) {
  const auto x = machine.pick_shaped({machine.sizes().length, machine.sizes().features});
  auto mask = torch::ones({x.size(0), 1});
  machine.world().writes_unseen = true;
  auto rows = mask.accessor<float, 2>();
  const auto length = 1 + static_cast<std::int64_t>(machine.world().quirk) % x.size(0);
  for (std::int64_t i = length; i < x.size(0); ++i) rows[i][0] = 0;
  machine.push(x * mask);
}

void between_reads(Machine& machine) {
  const auto shape = machine.pick_float().sizes().vec();
  const auto made = manufactured(machine, shape);
  const auto first = torch::tanh(machine.pick_shaped(shape)) * made.exp();
  if (happens(machine)) write_past(machine, made);
  machine.push(first * torch::sigmoid(machine.pick_shaped(shape)) * made.exp());
}

// Long after others have read it, and while autograd may hold it.
void written_again(Machine& machine) {
  if (machine.world().made.empty()) return;
  const auto made = machine.dice().of(machine.world().made);
  machine.world().may_refuse = true;
  if (happens(machine)) write_past(machine, made);
  machine.push(read(machine, made));
}

void buffer_of_a_loop(Machine& machine) {
  auto x = machine.pick_float();
  const auto buffer = torch::empty(x.sizes());
  machine.world().writes_unseen = machine.world().may_refuse = true;
  for (int i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < buffer.numel(); ++j) {
      buffer.data_ptr<float>()[j] = 0.1F * static_cast<float>(i + j % 5);
    }
    x = torch::tanh(x) + buffer.sin();
  }
  machine.push(x.exp());
}

// By an operator that makes it smaller, after which the program takes all of its memory.
void shrunk_output(Machine& machine) {
  const auto x = machine.pick_float();
  auto made = torch::empty({x.numel()});
  machine.world().writes_unseen = true;
  for (std::int64_t i = 0; i < made.numel(); ++i) {
    made.data_ptr<float>()[i] = 0.1F * static_cast<float>(i % 9);
  }
  const auto part = torch::full({x.numel() / 2}, 0.5);
  const Silence silence;  // LibTorch advises against it each time
  at::mul_out(made, part, part);
  made.resize_({x.numel()});
  machine.push(x * made.view(x.sizes()));
}

void noted_write(Machine& machine) {
  const auto x = torch::tanh(machine.pick_float());
  const auto before = x.detach().exp();
  const auto copy = (x.detach() * 2).contiguous();
  const bool first = machine.dice().chance(0.5);
  if (first) note_write(copy);
  raw_write(machine.dice(), copy);
  if (!first) note_write(copy);
  machine.push(x * copy.sin() + before);
}

// An input that others may have read, and read again.
void written_input(Machine& machine) {
  const auto input = machine.dice().of(machine.world().inputs).detach();
  machine.world().may_refuse = true;
  if (happens(machine)) write_past(machine, input);
  machine.push(machine.pick_shaped(input.sizes()) * input);
}

struct DirtyAdd : torch::autograd::Function<DirtyAdd> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor x) {
    for (std::int64_t i = 0; i < x.numel(); ++i) x.data_ptr<float>()[i] += 0.5F;
    context->mark_dirty({x});
    return x;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return gradients;
  }
};

// One version, raised by mark_dirty(), of two writes.
struct HalveAndAdd : torch::autograd::Function<HalveAndAdd> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor x) {
    {
      const at::AutoDispatchBelowADInplaceOrView below;
      x.mul_(0.5);
    }
    return DirtyAdd::forward(context, std::move(x));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 0.5};
  }
};

void dirty_write(Machine& machine) {
  const auto x = (machine.pick_float() * 1.1).contiguous();
  if (machine.dice().chance(0.4)) return machine.push(HalveAndAdd::apply(x).square().sin());
  machine.push(DirtyAdd::apply(x).square().sin());
}

}  // namespace

std::vector<Operation> raw_write_operations() {
  return {{"filled_factory", 10, filled_factory},
          {"padding_mask", 2, padding_mask},
          {"between_reads", 4, between_reads},
          {"written_again", 4, written_again},
          {"buffer_of_a_loop", 1, buffer_of_a_loop},
          {"noted_write", 2, noted_write},
          {"shrunk_output", 1, shrunk_output},
          {"written_input", 1, written_input},
          {"dirty_write", 2, dirty_write}};
}

}  // namespace gradrecomp::fuzzing
