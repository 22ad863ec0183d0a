#include "tape/dispatch/op_traits.h"

#include <c10/util/flat_hash_map.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "tape/dispatch/fickle.h"

namespace gradrecomp::tape {
namespace {

struct BatchNorm {
  std::string_view name;
  Norm norm;
};

constexpr std::string_view kUpdatesNothing = "aten::_batch_norm_no_update";

// These, but for that one, update running_mean and running_var, though the schemas of most deny it.
// Their outputs do not depend on those buffers while training, so replay runs without them.
constexpr std::array<BatchNorm, 12> kBatchNorms = {
    {{"aten::native_batch_norm", Norm::batch},
     {"aten::cudnn_batch_norm", Norm::batch},
     {"aten::miopen_batch_norm", Norm::no},
     {"aten::_native_batch_norm_legit", Norm::batch},
     {"aten::_batch_norm_with_update", Norm::batch},
     {kUpdatesNothing, Norm::no},
     {"aten::batch_norm_update_stats", Norm::no},
     {"aten::batch_norm_gather_stats", Norm::no},
     {"aten::batch_norm_gather_stats_with_counts", Norm::no},
     {"aten::batch_norm", Norm::no},  // this and those below arrive whole when autograd is bypassed
     {"aten::_batch_norm_impl_index", Norm::no},
     {"aten::instance_norm", Norm::no}}};

constexpr std::array<std::string_view, 7> kUninitialized = {
    "aten::empty",          "aten::empty_like",        "aten::empty_strided",  "aten::new_empty",
    "aten::empty_permuted", "aten::new_empty_strided", "aten::empty_quantized"};

// These write all of their target and do not read it. What writes some of it goes on from the rest.
constexpr std::array<std::string_view, 11> kFills = {
    "aten::copy_",   "aten::fill_",       "aten::zero_",     "aten::bernoulli_",
    "aten::normal_", "aten::uniform_",    "aten::random_",   "aten::exponential_",
    "aten::cauchy_", "aten::log_normal_", "aten::geometric_"};

// These give a tensor another storage or a storage another size.
constexpr std::array<std::string_view, 4> kStorageChanging = {"aten::set_", "aten::resize_",
                                                              "aten::resize_as_", "aten::set_data"};

// These return views, though their schemas do not say so.
constexpr std::array<std::string_view, 3> kUnsaidViews = {
    "aten::_unsafe_view", "aten::unsafe_split", "aten::unsafe_split_with_sizes"};

constexpr std::string_view kWorkspaceWriter = "aten::mkldnn_rnn_layer_backward";

// These reach through a view to its whole storage. Scatters copy more than the view shows, though
// only that counts.
bool reads_beyond(std::string_view name) {
  return name.starts_with("aten::as_strided") || name.ends_with("_scatter") ||
         name == "aten::_lazy_clone";
}

// LibTorch computes these by kernels of its own alone, into memory of their own or in place.
constexpr std::array<std::string_view, 45> kOneKernel = {
    "abs",   "add",        "addcdiv", "addcmul",   "bernoulli",   "cat",        "clamp", "clone",
    "copy_", "cos",        "div",     "eq",        "exp",         "fill_",      "ge",    "gt",
    "le",    "leaky_relu", "log",     "lt",        "masked_fill", "maximum",    "mean",  "minimum",
    "mul",   "ne",         "neg",     "ones_like", "pow",         "reciprocal", "relu",  "rsqrt",
    "rsub",  "sigmoid",    "silu",    "sin",       "sqrt",        "stack",      "sub",   "sum",
    "tanh",  "where",      "zero_",   "zeros",     "zeros_like",
};
static_assert(std::ranges::is_sorted(kOneKernel));

bool has_one_kernel(std::string_view name) {
  constexpr std::string_view kNamespace = "aten::";
  if (!name.starts_with(kNamespace)) return false;
  name.remove_prefix(kNamespace.size());
  if (std::ranges::binary_search(kOneKernel, name)) return true;
  if (!name.ends_with('_')) return false;
  return std::ranges::binary_search(kOneKernel, name.substr(0, name.size() - 1));
}

template <std::size_t n>
bool contains(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Into memory of their own or in place.
Pointwise pointwise_kind(std::string_view name, std::string_view overload) {
  const bool is_relu = name == "aten::relu" || name == "aten::relu_";
  if (is_relu && overload.empty()) return Pointwise::relu;
  if (overload != "Tensor" && overload != "Scalar") return Pointwise::no;
  if (name == "aten::add" || name == "aten::add_") return Pointwise::add;
  if (name == "aten::mul" || name == "aten::mul_") return Pointwise::mul;
  if (name == "aten::div" || name == "aten::div_") return Pointwise::div;
  return Pointwise::no;
}

// Their results depend on other processes.
bool is_collective(std::string_view name) {
  return name.starts_with("c10d::") || name.starts_with("_c10d_functional::") ||
         name.starts_with("_c10d_functional_autograd::") || name.starts_with("symm_mem::");
}

bool can_hold_tensors(const c10::Type& type) {
  return type.isSubtypeOf(*c10::TensorType::get()) ||
         type.isSubtypeOf(*c10::ListType::ofTensors()) || type.str().starts_with("Tensor[");
}

bool holds_tensors(const c10::Argument& argument) { return can_hold_tensors(*argument.type()); }

// These work in place, though their schemas do not say so: collectives on all that is not called an
// input, oneDNN on what its forward pass left it to work in.
bool writes_undeclared(std::string_view name, const c10::Argument& argument) {
  if (name == kWorkspaceWriter) return argument.name() == "workspace";
  return name.starts_with("c10d::") && !argument.name().starts_with("input") &&
         can_hold_tensors(*argument.type());
}

bool returns_tensors(const c10::FunctionSchema& schema) {
  return std::ranges::any_of(schema.returns(), holds_tensors);
}

// A schema in which every return is an unwritten alias makes no storage of its own.
bool returns_only_views(const c10::FunctionSchema& schema) {
  if (schema.returns().empty()) return false;
  for (const auto& result : schema.returns()) {
    const auto* alias = result.alias_info();
    if (alias == nullptr || alias->isWrite()) return false;
  }
  return true;
}

// Called below autograd, such an operator is not taken apart, and may have copied what its schema
// says it returns a view of, as contiguous() does.
bool may_copy_instead(const c10::OperatorHandle& op) {
  return returns_only_views(op.schema()) &&
         op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd);
}

// randint_like() may read its bounds from tensors.
bool reads_shapes_only(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  const bool has_such_a_name =
      name.starts_with("aten::new_") || (name.starts_with("aten::") && name.ends_with("_like"));
  const auto is_read = [](const c10::Argument& argument) {
    return holds_tensors(argument) && !argument.is_out();
  };
  return has_such_a_name && std::ranges::count_if(schema.arguments(), is_read) == 1;
}

// As LibTorch's generator of torch/csrc/autograd/generated/variable_factories.h has it.
bool is_factory(const c10::FunctionSchema& schema) {
  return schema.argumentIndexWithName("layout").has_value() || schema.name().ends_with("_like");
}

void find_running_statistics(const c10::FunctionSchema& schema, OpTraits& traits) {
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const auto& name = schema.arguments()[i].name();
    const auto position = static_cast<std::int16_t>(i);
    if (name == "running_mean" || name == "running_var") {
      traits.running_statistics.push_back(position);
    }
    if (name == "training" || name == "use_input_stats") traits.training_argument = position;
  }
}

/// Whether the dispatcher keeps a kernel of it back, which another has taken the place of.
bool is_overridden(const c10::OperatorHandle& op) {
  return op.dumpState().find("(inactive)") != std::string::npos;
}

/// For an operator whose other traits are known.
bool writes_shown(const OpTraits& traits) {
  const auto& arguments = traits.handle.schema().arguments();
  const auto num_written = std::ranges::count_if(traits.writes, [](auto w) { return w != 0; });
  if (num_written != 1 || !traits.running_statistics.empty()) return false;
  const auto written = std::ranges::find_if(traits.writes, [](auto w) { return w != 0; });
  const auto& target = arguments[static_cast<std::size_t>(written - traits.writes.begin())];
  const bool is_tensor = target.type()->kind() == c10::TypeKind::TensorType;
  return is_tensor && !target.is_out() && !traits.resizes && !traits.reads_beyond &&
         !traits.has_other_kernel();
}

std::unique_ptr<const OpTraits> read_traits(const c10::OperatorHandle& op) {
  auto traits = std::make_unique<OpTraits>(op);
  const auto& schema = op.schema();
  const std::string_view name = traits->name;
  bool any_write = false;
  bool writes_only_out = true;
  for (const auto& argument : schema.arguments()) {
    const auto* alias = argument.alias_info();
    traits->writes.push_back((alias != nullptr && alias->isWrite()) ||
                             writes_undeclared(name, argument));
    any_write |= traits->writes.back() != 0;
    writes_only_out &= traits->writes.back() == 0 || argument.is_out();
  }
  traits->num_returns = schema.returns().size();
  traits->name_hash = hash_of(schema.overload_name(), hash_of(name));
  traits->writes_any = any_write;
  traits->resizes = name == "aten::resize_" || name == "aten::resize_as_";
  const bool changes_storage = contains(kStorageChanging, name) && !traits->resizes;
  const bool may_copy = !any_write && may_copy_instead(op);
  traits->passive = (!any_write && !may_copy && returns_only_views(schema)) ||
                    (op.hasTag(at::Tag::inplace_view) && !contains(kStorageChanging, name));
  traits->pointwise = pointwise_kind(name, schema.overload_name());
  traits->makes_nothing = !any_write && (!returns_tensors(schema) || contains(kUnsaidViews, name));
  traits->fickle = fickle_kind(name);
  traits->factory = is_factory(schema);
  traits->shapes_only = reads_shapes_only(schema);
  traits->copies =
      name == "aten::clone" || name == "aten::_to_copy" || name == "aten::copy_" || may_copy;
  traits->uninitialized = contains(kUninitialized, name);
  traits->foreign = !name.starts_with("aten::");
  traits->overridden = !traits->foreign && is_overridden(op);
  // An empty-like op leaves its out argument as it is, and another library's may add to it.
  traits->fills = (any_write && writes_only_out && !traits->uninitialized && !traits->foreign) ||
                  contains(kFills, name);
  traits->bumps = !traits->foreign || op.hasKernelForDispatchKey(c10::DispatchKey::ADInplaceOrView);
  traits->bumps = traits->bumps && name != kWorkspaceWriter;
  traits->bumps_before = traits->foreign && traits->bumps;
  traits->reads_beyond = traits->foreign || reads_beyond(name);
  traits->writes_unsaid = traits->foreign && schema.returns().empty() && !any_write &&
                          std::ranges::any_of(schema.arguments(), holds_tensors);
  traits->seeded = op.hasTag(at::Tag::nondeterministic_seeded);
  traits->replayable = !op.hasTag(at::Tag::nondeterministic_bitwise) && !is_collective(name) &&
                       !changes_storage && name != kUnseenWrite;
  if (const auto* found = std::ranges::find(kBatchNorms, name, &BatchNorm::name);
      found != kBatchNorms.end()) {
    traits->norm = found->norm;
    find_running_statistics(schema, *traits);
    traits->never_trains = name == kUpdatesNothing;
  }
  if (name == "aten::native_layer_norm") traits->norm = Norm::layer;
  traits->one_kernel = has_one_kernel(name) && !traits->overridden;
  traits->writes_shown = writes_shown(*traits);
  return traits;
}

// Grows with each operator that is taken away, after which another may have its place.
constinit std::atomic<std::uint64_t> num_departures{0};

// Tells the traits of operators that their operators have departed.
class Departures final : public c10::OpRegistrationListener {
 public:
  void watch(const OpTraits& traits) {
    const std::lock_guard lock(mutex_);
    watched_[traits.name].push_back(&traits);
  }

  void onOperatorRegistered(const c10::OperatorHandle& /*op*/) override {}
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    const std::lock_guard lock(mutex_);
    const auto found = watched_.find(op.operator_name().name);
    if (found == watched_.end()) return;
    std::erase_if(found->second, [&](const OpTraits* traits) {
      if (!(traits->handle == op)) return false;  // of another overload
      traits->has_departed.store(true, std::memory_order_release);
      return true;
    });
    num_departures.fetch_add(1, std::memory_order_release);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::vector<const OpTraits*>> watched_;
};

// Never destroyed, as the dispatcher is not, which owns what listens.
Departures& departures() {
  struct Watch {
    Departures* listener;
    c10::RegistrationHandleRAII registered;
  };
  static const Watch* watch = [] {
    auto made = std::make_unique<Departures>();
    Departures* listener = made.get();
    return new Watch{listener,
                     c10::Dispatcher::singleton().addRegistrationListener(std::move(made))};
  }();
  return *watch->listener;
}

class TraitsTable {
 public:
  const OpTraits& of(const c10::OperatorHandle& op) {
    if (const auto now = num_departures.load(std::memory_order_acquire); now != seen_departures_) {
      seen_departures_ = now;
      forget_departed();
    }
    auto& entry = entries_[&op.schema()];
    if (!entry) {
      entry = read_traits(op);
      departures().watch(*entry);
    }
    return *entry;
  }

 private:
  // What is forgotten may still be in use, by tapes and by calls that are under way.
  void forget_departed() {
    for (auto& [schema, traits] : entries_) {
      if (traits && traits->has_departed.load(std::memory_order_acquire)) {
        forgotten_.push_back(std::move(traits));
      }
    }
  }

  ska::flat_hash_map<const c10::FunctionSchema*, std::unique_ptr<const OpTraits>> entries_;
  std::vector<std::unique_ptr<const OpTraits>> forgotten_;
  std::uint64_t seen_departures_ = 0;
};

/// Tables for threads. Never destroyed: a program that ends runs operators when what belonged to
/// its main thread is gone.
class TraitsTables {
 public:
  TraitsTable* take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return all_.emplace_back(std::make_unique<TraitsTable>()).get();
    TraitsTable* table = free_.back();
    free_.pop_back();
    return table;
  }
  void give_back(TraitsTable* table) {
    const std::lock_guard lock(mutex_);
    free_.push_back(table);
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<TraitsTable>> all_;
  std::vector<TraitsTable*> free_;
};

TraitsTables& tables() {
  static auto* tables = new TraitsTables;
  return *tables;
}

constinit thread_local TraitsTable* table_of_thread = nullptr;

struct EndOfThread {
  ~EndOfThread() { tables().give_back(std::exchange(table_of_thread, nullptr)); }
};

}  // namespace

std::uint64_t hash_of(std::string_view text, std::uint64_t hash) {
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

const OpTraits& traits_of(const c10::OperatorHandle& op) {
  if (table_of_thread == nullptr) {
    table_of_thread = tables().take();
    [[maybe_unused]] thread_local const EndOfThread end_of_thread;
  }
  return table_of_thread->of(op);
}

}  // namespace gradrecomp::tape
