#include "egress/resolver.h"

#include "egress/dns_answer.h"

#include <algorithm>
#include <utility>

#include <ares.h>
#include <arpa/nameser.h>
#include <sys/epoll.h>

namespace sandboxkit::egress {
namespace {

// Two rounds, the second twice as long: c-ares has given up before our own limit ends the call.
constexpr double kFirstTry = 0.3;
constexpr int kTries = 2;
constexpr int kEdnsBytes = 1'232;

struct Library {
  Library() : status(ares_library_init(ARES_LIB_INIT_ALL)) {}
  const int status;
};

class AresResolver final : public Resolver {
 public:
  AresResolver(io::EventLoop& loop, io::EventLoop::Duration timeout)
      : loop_(loop), timeout_(timeout) {}

  ~AresResolver() override {
    loop_.cancel(timer_);
    if (channel_ != nullptr) {
      closing_ = true;
      ares_destroy(channel_);  // ends every query: on_answer with ARES_EDESTRUCTION
    }
  }

  Status open(const std::vector<std::string>& servers) {
    static const Library kLibrary;
    ares_options options{};
    options.flags = ARES_FLAG_NOSEARCH | ARES_FLAG_NOALIASES | ARES_FLAG_EDNS;
    options.timeout = static_cast<int>(kFirstTry * static_cast<double>(timeout_.count()));
    options.tries = kTries;
    options.ednspsz = kEdnsBytes;
    options.sock_state_cb = &AresResolver::on_socket_state;
    options.sock_state_cb_data = this;
    const int mask = ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_EDNSPSZ |
                     ARES_OPT_SOCK_STATE_CB;
    if (kLibrary.status != ARES_SUCCESS ||
        ares_init_options(&channel_, &options, mask) != ARES_SUCCESS) {
      channel_ = nullptr;
      return Error{ErrorCode::kUnavailable, "the DNS resolver cannot be set up"};
    }
    std::string list;
    for (const std::string& server : servers) {
      list += (list.empty() ? "" : ",") + server;
    }
    if (!list.empty() && ares_set_servers_ports_csv(channel_, list.c_str()) != ARES_SUCCESS) {
      return Error{ErrorCode::kInvalidArgument, "the DNS servers `" + list + "` cannot be used"};
    }
    return {};
  }

  void resolve(const std::string& name, Callback callback) override {
    if (pending_ >= kMaxPending) {
      loop_.post([callback = std::move(callback)] {
        callback(Error{ErrorCode::kResourceExhausted, "too many names are being resolved"});
      });
      return;
    }
    ++pending_;
    auto* query = new Query{*this, name, std::make_shared<Answer>(std::move(callback)), true};
    query->answer->timer = loop_.run_after(
        timeout_, [answer = query->answer, name] { answer->give(dns_error(ARES_ETIMEOUT, name)); });
    send(query);
  }

 private:
  /// The one answer to a call, whoever gives it first.
  struct Answer {
    explicit Answer(Callback the_callback) : callback(std::move(the_callback)) {}
    void give(Result<Addresses> result) {
      if (const auto once = std::exchange(callback, nullptr)) {
        once(std::move(result));
      }
    }
    Callback callback;
    io::EventLoop::TimerId timer = 0;
  };

  /// Lives until c-ares has called back, which may be after the answer was given.
  struct Query {
    AresResolver& owner;
    std::string name;
    std::shared_ptr<Answer> answer;
    bool asks_v4;
  };

  void send(Query* query) {
    // The final dot says that the name is whole.
    const std::string whole = query->name + ".";
    ares_query(channel_, whole.c_str(), ns_c_in, query->asks_v4 ? ns_t_a : ns_t_aaaa,
               &AresResolver::on_answer, query);
    rearm();
  }

  static void on_answer(void* argument, int status, int, unsigned char* bytes, int length) {
    std::unique_ptr<Query> query(static_cast<Query*>(argument));
    AresResolver& self = query->owner;
    if (self.closing_) {
      self.loop_.cancel(query->answer->timer);
      return;
    }
    Result<Addresses> result = dns_error(status, query->name);
    if (status == ARES_SUCCESS) {
      result = addresses_in({bytes, static_cast<std::size_t>(length)},
                            query->asks_v4 ? AddressKind::kV4 : AddressKind::kV6, query->name);
    }
    const bool no_v4 = query->asks_v4 && status != ARES_ENOTFOUND && !result &&
                       result.error().code == ErrorCode::kNotFound;
    if (no_v4) {
      // Sent from the loop: c-ares is in the middle of its own bookkeeping here.
      query->asks_v4 = false;
      self.loop_.post([weak = std::weak_ptr(self.alive_), raw = query.release()] {
        if (weak.expired()) {
          delete raw;
          return;
        }
        raw->owner.send(raw);
      });
      return;
    }
    --self.pending_;
    self.loop_.cancel(query->answer->timer);
    // From the loop, so that a callback may do anything, this resolver's end included.
    self.loop_.post([answer = query->answer, result = std::move(result)] { answer->give(result); });
  }

  static void on_socket_state(void* argument, ares_socket_t fd, int readable, int writable) {
    static_cast<AresResolver*>(argument)->watch(fd, readable != 0, writable != 0);
  }

  void watch(ares_socket_t fd, bool readable, bool writable) {
    const std::uint32_t events = (readable ? EPOLLIN : 0U) | (writable ? EPOLLOUT : 0U);
    const bool watched = std::ranges::find(watched_, fd) != watched_.end();
    if (events == 0) {
      if (watched) {
        std::erase(watched_, fd);
        loop_.remove(fd);
      }
      return;
    }
    if (watched) {
      loop_.modify(fd, events);
      return;
    }
    watched_.push_back(fd);
    loop_.add(fd, events, [this, fd](std::uint32_t got) {
      const bool broken = (got & (EPOLLERR | EPOLLHUP)) != 0;
      ares_process_fd(channel_, broken || (got & EPOLLIN) != 0 ? fd : ARES_SOCKET_BAD,
                      (got & EPOLLOUT) != 0 ? fd : ARES_SOCKET_BAD);
      rearm();
    });
  }

  /// One timer for the next deadline inside of c-ares.
  void rearm() {
    loop_.cancel(timer_);
    timer_ = 0;
    timeval storage{};
    const timeval* next = ares_timeout(channel_, nullptr, &storage);
    if (next == nullptr) {
      return;
    }
    const io::EventLoop::Duration delay{next->tv_sec * 1000 + next->tv_usec / 1000 + 1};
    timer_ = loop_.run_after(delay, [this] {
      timer_ = 0;
      ares_process_fd(channel_, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
      rearm();
    });
  }

  io::EventLoop& loop_;
  const io::EventLoop::Duration timeout_;
  ares_channel channel_ = nullptr;
  std::vector<ares_socket_t> watched_;
  std::size_t pending_ = 0;
  io::EventLoop::TimerId timer_ = 0;
  bool closing_ = false;
  // Lets posted work see that the resolver is gone.
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace

Result<std::unique_ptr<Resolver>> Resolver::create(io::EventLoop& loop,
                                                   const std::vector<std::string>& servers,
                                                   io::EventLoop::Duration timeout) {
  auto resolver = std::make_unique<AresResolver>(loop, timeout);
  if (auto status = resolver->open(servers); !status) {
    return status.error();
  }
  return std::unique_ptr<Resolver>(std::move(resolver));
}

}  // namespace sandboxkit::egress
