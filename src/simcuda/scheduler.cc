#include "src/simcuda/scheduler.h"

#include <atomic>
#include <deque>
#include <exception>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"

namespace pinring::simcuda {
namespace {

// What one thread waits on until it is handed the baton.
class Baton {
 public:
  void Give() {
    absl::MutexLock lock(&mu_);
    given_ = true;
  }
  void Take() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&given_));
    given_ = false;
  }

 private:
  absl::Mutex mu_;
  bool given_ ABSL_GUARDED_BY(mu_) = false;
};

struct Caller {
  Scheduler* scheduler = nullptr;
  uint64_t number = 0;
  std::string name;
  std::function<void()> body;
  std::thread thread;
  Baton baton;
  bool done = false;
  // Set while it waits in BlockUntil.
  const absl::FunctionRef<bool()>* ready = nullptr;
  std::string why;
};

struct ActorEntry {
  Actor* actor = nullptr;
  double weight = 1;
  int enabled = 0;
};

std::atomic<uint64_t> next_caller{1};

thread_local Caller* current_caller = nullptr;
// Above 0 while this thread, holding the baton, does work that is not its
// caller's own: an actor's step, a condition.
thread_local int foreign_work = 0;

class ForeignWork {
 public:
  ForeignWork() { ++foreign_work; }
  ~ForeignWork() { --foreign_work; }
};

}  // namespace

// Whoever holds the baton decides what runs next: a caller that yields and is
// chosen again goes on without a switch of threads, and actors' steps run on
// whatever thread holds the baton. All fields are read and written by the
// holder only; the baton carries them from thread to thread.
class Scheduler::Impl {
 public:
  Impl(Scheduler* self, uint64_t seed) : self_(self), random_(seed) {}

  ~Impl() { JoinAll(); }

  void AddCaller(std::string name, std::function<void()> body) {
    auto& caller = callers_.emplace_back(std::make_unique<Caller>());
    caller->scheduler = self_;
    caller->number = next_caller.fetch_add(1, std::memory_order_relaxed);
    caller->name = std::move(name);
    caller->body = std::move(body);
  }

  void AddActor(Actor* actor) { actors_.push_back({actor}); }

  void SetWeight(Actor* actor, double weight) {
    for (ActorEntry& entry : actors_) {
      if (entry.actor == actor) entry.weight = weight;
    }
  }

  Outcome Run(uint64_t max_steps) {
    max_steps_ = steps_ + max_steps;
    outcome_ = Outcome();
    ended_ = false;
    for (auto& caller : callers_) {
      if (!caller->done && !caller->thread.joinable()) {
        caller->thread = std::thread([this, c = caller.get()] { Main(c); });
      }
    }
    const uint64_t first_step = steps_;
    Pass(nullptr);
    // The run has ended, here or on a caller's thread. Callers that have not
    // finished unwind, one after the other.
    aborting_ = true;
    for (auto& caller : callers_) {
      if (caller->done) continue;
      caller->baton.Give();
      run_baton_.Take();
    }
    JoinAll();
    aborting_ = false;
    callers_.clear();
    outcome_.steps = steps_ - first_step;
    outcome_.trace = trace_;
    if (error_ != nullptr)
      std::rethrow_exception(std::exchange(error_, nullptr));
    return outcome_;
  }

  void Yield(Caller* caller) {
    if (aborting_) {
      if (std::uncaught_exceptions() == 0) throw ScheduleAborted();
      return;
    }
    Pass(caller);
    if (aborting_) throw ScheduleAborted();
  }

  void BlockUntil(Caller* caller, std::string_view why,
                  const absl::FunctionRef<bool()>& ready) {
    if (aborting_) {
      if (std::uncaught_exceptions() == 0) throw ScheduleAborted();
      return;
    }
    caller->ready = &ready;
    caller->why = why;
    Pass(caller);
    caller->ready = nullptr;
    caller->why.clear();
    if (aborting_) throw ScheduleAborted();
  }

  bool IsBlocked(std::string_view name) const {
    for (const auto& caller : callers_) {
      if (caller->name == name)
        return !caller->done && caller->ready != nullptr && !Ready(*caller);
    }
    return false;
  }

  uint64_t Random() {  // splitmix64
    uint64_t x = random_ += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  bool aborting() const { return aborting_; }
  void Fruitless() { fruitless_ = true; }
  uint64_t epoch() const { return epoch_; }

 private:
  // One thing that could run next: a caller, or a step of an actor.
  struct Choice {
    Caller* caller = nullptr;
    Actor* actor = nullptr;
    int step = 0;
  };

  static bool Ready(const Caller& caller) {
    if (caller.done) return false;
    if (caller.ready == nullptr) return true;
    ForeignWork mark;
    return (*caller.ready)();
  }

  // What a caller's thread does.
  void Main(Caller* caller) {
    caller->baton.Take();
    current_caller = caller;
    if (!aborting_) {
      try {
        caller->body();
      } catch (const ScheduleAborted&) {
      } catch (...) {
        if (error_ == nullptr) error_ = std::current_exception();
      }
    }
    current_caller = nullptr;
    caller->done = true;
    caller->body = nullptr;
    if (aborting_) {
      run_baton_.Give();
    } else {
      Pass(caller);
    }
  }

  // Runs steps until it is this caller's turn again (null: until the run ends),
  // or it is done and has handed the baton on.
  void Pass(Caller* caller) {
    for (;;) {
      Choice choice;
      if (ended_ || !Choose(&choice)) {
        ended_ = true;
        if (caller == nullptr) return;
        run_baton_.Give();
        if (!caller->done) caller->baton.Take();
        return;
      }
      if (choice.actor != nullptr) {
        Step(choice);
        continue;
      }
      ++epoch_;
      if (choice.caller == caller) return;
      choice.caller->baton.Give();
      if (caller == nullptr) {
        run_baton_.Take();
        return;  // only the end of the run gives it back
      }
      if (!caller->done) caller->baton.Take();
      return;
    }
  }

  void Step(const Choice& choice) {
    fruitless_ = false;
    try {
      ForeignWork mark;
      choice.actor->Step(choice.step);
    } catch (...) {
      if (error_ == nullptr) error_ = std::current_exception();
    }
    if (!fruitless_) ++epoch_;
  }

  // Picks what runs next, or says in outcome_ why nothing does.
  bool Choose(Choice* choice) {
    if (error_ != nullptr) return false;
    size_t unfinished = 0;
    size_t options = 0;
    double total = 0;
    ready_.clear();
    for (auto& caller : callers_) {
      if (caller->done) continue;
      ++unfinished;
      if (!Ready(*caller)) continue;
      ready_.push_back(caller.get());
    }
    options = ready_.size();
    total = static_cast<double>(options);
    for (ActorEntry& entry : actors_) {
      ForeignWork mark;
      entry.enabled = entry.actor->EnabledSteps();
      options += static_cast<size_t>(entry.enabled);
      total += entry.enabled * entry.weight;
    }
    if (options == 0) {
      if (unfinished != 0) End(Outcome::kDeadlock);
      return false;
    }
    if (steps_ >= max_steps_) {
      End(Outcome::kStepLimit);
      return false;
    }
    ++steps_;
    Pick(options, total, choice);
    return true;
  }

  void Pick(size_t options, double total, Choice* choice) {
    size_t index = 0;
    if (options == 1) {
      // Nothing to choose; the generator stays where it is.
    } else if (total <= 0) {
      index = Random() % options;
    } else {
      double at = static_cast<double>(Random() >> 11) * 0x1p-53 * total;
      if (at < static_cast<double>(ready_.size())) {
        index = static_cast<size_t>(at);
      } else {
        at -= static_cast<double>(ready_.size());
        index = ready_.size();
        size_t last = index;  // for a rounding error at the very end
        for (const ActorEntry& entry : actors_) {
          const double width = entry.enabled * entry.weight;
          if (width > 0) {
            if (at < width) {
              last = index + static_cast<size_t>(at / entry.weight);
              break;
            }
            last = index + static_cast<size_t>(entry.enabled) - 1;
          }
          at -= width;
          index += static_cast<size_t>(entry.enabled);
        }
        index = last;
      }
    }
    trace_ = (trace_ ^ (index + options * 64)) * 0x100000001b3u;
    if (index < ready_.size()) {
      choice->caller = ready_[index];
      return;
    }
    index -= ready_.size();
    for (const ActorEntry& entry : actors_) {
      if (index < static_cast<size_t>(entry.enabled)) {
        choice->actor = entry.actor;
        choice->step = static_cast<int>(index);
        return;
      }
      index -= static_cast<size_t>(entry.enabled);
    }
  }

  void End(Outcome::Kind kind) {
    outcome_.kind = kind;
    for (const auto& caller : callers_) {
      if (caller->done) continue;
      absl::StrAppend(&outcome_.detail, caller->name, ": ",
                      caller->ready == nullptr ? "can run" : caller->why, "\n");
    }
  }

  void JoinAll() {
    for (auto& caller : callers_) {
      if (caller->thread.joinable()) caller->thread.join();
    }
  }

  Scheduler* const self_;
  uint64_t random_;
  std::deque<std::unique_ptr<Caller>> callers_;
  std::vector<ActorEntry> actors_;
  std::vector<Caller*> ready_;  // of the latest Choose
  Baton run_baton_;
  Outcome outcome_;
  std::exception_ptr error_;
  uint64_t steps_ = 0;
  uint64_t max_steps_ = 0;
  uint64_t epoch_ = 0;
  uint64_t trace_ = 0xcbf29ce484222325u;
  bool fruitless_ = false;
  bool ended_ = false;
  bool aborting_ = false;
};

Scheduler::Scheduler(uint64_t seed)
    : impl_(std::make_unique<Impl>(this, seed)) {}
Scheduler::~Scheduler() = default;

void Scheduler::AddCaller(std::string name, std::function<void()> body) {
  impl_->AddCaller(std::move(name), std::move(body));
}
void Scheduler::AddActor(Actor* actor) { impl_->AddActor(actor); }
void Scheduler::SetWeight(Actor* actor, double weight) {
  impl_->SetWeight(actor, weight);
}
Scheduler::Outcome Scheduler::Run(uint64_t max_steps) {
  return impl_->Run(max_steps);
}

void Scheduler::Yield() {
  if (Scheduler* scheduler = Current()) scheduler->impl_->Yield(current_caller);
}

void Scheduler::BlockUntil(std::string_view why,
                           absl::FunctionRef<bool()> ready) {
  if (Current() == this) impl_->BlockUntil(current_caller, why, ready);
}

Scheduler* Scheduler::Current() {
  return current_caller != nullptr && foreign_work == 0
             ? current_caller->scheduler
             : nullptr;
}
bool Scheduler::InStep() { return foreign_work != 0; }
uint64_t Scheduler::CurrentCaller() {
  return Current() == nullptr ? 0 : current_caller->number;
}
bool Scheduler::Aborting() const { return impl_->aborting(); }
void Scheduler::Fruitless() { impl_->Fruitless(); }
uint64_t Scheduler::Epoch() const { return impl_->epoch(); }
bool Scheduler::IsBlocked(std::string_view caller) const {
  return impl_->IsBlocked(caller);
}
uint64_t Scheduler::Random() { return impl_->Random(); }

}  // namespace pinring::simcuda
