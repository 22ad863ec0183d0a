#include "fuzz/program/machine.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "fuzz/program/inner_regions.h"
#include "fuzz/world/device.h"
#include "fuzz/world/error_text.h"
#include "gradrecomp/checkpoint.h"

namespace gradrecomp::fuzzing {
namespace {

constexpr std::int64_t kMaxNumel = 2048;

std::int64_t numel_of(at::IntArrayRef shape) {
  std::int64_t numel = 1;
  for (const auto size : shape) numel *= size;
  return numel;
}

torch::Tensor brought_to(const torch::Tensor& tensor, at::IntArrayRef shape) {
  if (tensor.sizes() == shape) return tensor;
  const std::int64_t numel = numel_of(shape);
  if (tensor.numel() == 0) return torch::zeros(shape, device()) + tensor.sum();
  auto flat = tensor.reshape({-1});
  if (flat.numel() < numel) flat = flat.repeat({(numel + flat.numel() - 1) / flat.numel()});
  return flat.narrow(0, 0, numel).view(shape);
}

const c10::StorageImpl* memory_of(const torch::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

// Of what was written in place before a backward pass of the program autograd has several texts. An
// operator that the device lacks is told with all dispatch keys that have it, of which regions take
// one.
std::string told(const std::string& text) {
  const bool varies =
      text.find("inplace") != std::string::npos || text.starts_with("Could not run");
  return varies ? kind_of_error(text) : text;
}

std::string described(const torch::Tensor& tensor) {
  std::ostringstream out;
  out << c10::toString(tensor.scalar_type()) << tensor.sizes();
  if (!tensor.is_contiguous()) out << " strides " << tensor.strides();
  if (tensor.requires_grad()) out << " grad";
  return out.str();
}

}  // namespace

Machine::Machine(const Program& program, World& world)
    : program_(program), world_(world), dice_(program.seed) {
  pool_ = world.inputs;
  for (const auto& input : world.inputs) {
    if (input.requires_grad() && !input.is_leaf()) writable_.insert(memory_of(input));
  }
}

std::vector<torch::Tensor> Machine::run() {
  run_next(static_cast<std::int64_t>(program_.steps.size()));
  TORCH_CHECK(!program_.throws, "the program ends here");
  return choose_outputs();
}

void Machine::run_next(std::int64_t count) {
  for (; count > 0 && position_ < program_.steps.size(); --count) run_step();
}

void Machine::run_step() {
  const std::size_t position = position_++;
  const Step& step = program_.steps[position];
  const std::size_t first = pool_.size();
  const std::string outer_line = std::exchange(line_, step.operation->name);
  dice_ = Dice(step.seed);
  try {
    step.operation->run(*this);
  } catch (const std::exception& error) {
    errors_ += std::to_string(position) + ": " + told(first_line(error)) + "\n";
    caught_ += first_line(error) + "\n";
    say("THROWS " + first_line(error));
  }
  const std::string line = std::exchange(line_, outer_line);
  if (!keeps_listing) return;
  listing_ += line;
  for (std::size_t i = first; i < pool_.size(); ++i) {
    listing_ += " -> %" + std::to_string(i) + " " + described(pool_[i]);
  }
  listing_ += "\n";
}

void Machine::say(const std::string& word) {
  if (keeps_listing) line_ += " " + word;
}

torch::Tensor Machine::take(std::int64_t min_dim) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    if (pool_[i].is_floating_point() && pool_[i].dim() >= min_dim) candidates.push_back(i);
  }
  const auto count = static_cast<std::int64_t>(candidates.size());
  // Inputs are candidates for every operation, so there is always one; the latest are preferred.
  const auto choice = dice_.chance(0.6) ? count - 1 - dice_.below(std::min<std::int64_t>(count, 4))
                                        : dice_.below(count);
  say("%" + std::to_string(candidates[choice]));
  return pool_[candidates[choice]];
}

torch::Tensor Machine::pick(std::int64_t min_dim) {
  auto tensor = take(min_dim);
  freeze(tensor);
  return tensor;
}

torch::Tensor Machine::pick_float(std::int64_t min_dim) { return pick(min_dim).to(torch::kFloat); }

torch::Tensor Machine::pick_shaped(at::IntArrayRef shape) {
  return brought_to(pick_float(static_cast<std::int64_t>(shape.size())), shape);
}

torch::Tensor Machine::pick_like(const torch::Tensor& tensor) {
  return brought_to(pick_float(), tensor.sizes()).to(tensor.scalar_type());
}

torch::Tensor Machine::pick_for_view(std::int64_t min_dim) { return take(min_dim); }

torch::Tensor Machine::pick_writable() {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < pool_.size(); ++i) {
    const auto& tensor = pool_[i];
    if (!tensor.is_floating_point() || (tensor.is_leaf() && tensor.requires_grad())) continue;
    const bool is_own = i >= world_.inputs.size();
    if (writable_.contains(memory_of(tensor)) || (program_.careless && is_own)) {
      candidates.push_back(i);
    }
  }
  if (candidates.empty()) return {};
  const auto choice = dice_.of(candidates);
  say("%" + std::to_string(choice));
  return pool_[choice];
}

void Machine::push(torch::Tensor tensor) {
  if (tensor.numel() > kMaxNumel) tensor = tensor.reshape({-1}).narrow(0, 0, kMaxNumel / 2);
  pool_.push_back(std::move(tensor));
}

void Machine::push_writable(torch::Tensor tensor) {
  if (tensor.numel() <= kMaxNumel) writable_.insert(memory_of(tensor));
  push(std::move(tensor));
}

void Machine::freeze(const torch::Tensor& tensor) { writable_.erase(memory_of(tensor)); }

void Machine::run_next_in_checkpoint(std::int64_t count) {
  const torch::Tensor input = pool_.back();  // not a reference: the pool grows
  run_next_wrapped(count, [&](const Inside& inside) {
    const auto body = [&](const torch::Tensor& /*input*/) { return inside(); };
    return world_.inner_regions ? checkpoint(body, input) : body(input);
  });
}

void Machine::run_next_in_region(std::int64_t count) {
  const std::size_t position = position_;
  run_next_wrapped(count, [&](const Inside& inside) {
    return world_.inner_regions ? world_.inner_regions->at(position).run(inside) : inside();
  });
}

// All that crosses from one stream to the other is recorded there, as LibTorch asks for.
void Machine::run_next_on_side_stream(std::int64_t count) {
  world_.uses_streams = true;
  const std::size_t first = pool_.size();
  const SideStream side(dice_.below(2));
  for (const auto& tensor : pool_) side.reads(tensor);
  run_next(count);
  for (std::size_t i = first; i < pool_.size(); ++i) side.gives(pool_[i]);
}

void Machine::run_next_wrapped(
    std::int64_t count, const std::function<std::vector<torch::Tensor>(const Inside&)>& wrap) {
  world_.has_inner = true;
  const std::size_t first = pool_.size();
  const auto made = wrap([&] {
    run_next(count);
    return std::vector<torch::Tensor>(pool_.begin() + static_cast<std::ptrdiff_t>(first),
                                      pool_.end());
  });
  std::copy(made.begin(), made.end(), pool_.begin() + static_cast<std::ptrdiff_t>(first));
}

void Machine::skip_next(std::int64_t count) {
  position_ = std::min(position_ + static_cast<std::size_t>(count), program_.steps.size());
}

std::vector<torch::Tensor> Machine::choose_outputs() {
  dice_ = Dice(program_.seed + 1);
  std::vector<torch::Tensor> outputs;
  for (auto tensor = pool_.rbegin(); tensor != pool_.rend() && outputs.empty(); ++tensor) {
    if (tensor->requires_grad()) outputs.push_back(*tensor);
  }
  const auto more = dice_.below(4);
  for (std::int64_t i = 0; i < more; ++i) {
    const auto& tensor = dice_.of(pool_);
    outputs.push_back(dice_.chance(0.1) ? tensor.detach() : tensor);
  }
  if (dice_.chance(0.1)) world_.leaked.push_back(dice_.of(pool_));
  return outputs;
}

}  // namespace gradrecomp::fuzzing
