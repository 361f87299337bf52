#include "net/tunnel_session.h"

#include <algorithm>

namespace sandboxkit::net {

namespace {

/// Small writes are gathered up to this size.
constexpr std::size_t kPieceBytes = 16 * 1024;

/// HTTP/2's CANCEL: the stream is not wanted any more.
constexpr std::uint32_t kCancelCode = 8;

}  // namespace

void ByteQueue::append(std::string_view bytes) {
  if (bytes.empty()) {
    return;
  }
  if (!pieces_.empty() && pieces_.back().size() + bytes.size() <= kPieceBytes) {
    pieces_.back().append(bytes);
  } else {
    pieces_.emplace_back(bytes);
  }
  size_ += bytes.size();
}

void ByteQueue::take(std::size_t count, std::string& out) {
  SANDBOXKIT_CHECK(count <= size_, "only bytes that wait are taken");
  size_ -= count;
  while (count > 0) {
    auto& front = pieces_.front();
    const std::size_t here = std::min(count, front.size() - front_offset_);
    out.append(front, front_offset_, here);
    front_offset_ += here;
    count -= here;
    if (front_offset_ == front.size()) {
      pieces_.pop_front();
      front_offset_ = 0;
    }
  }
}

void ByteQueue::clear() {
  pieces_.clear();
  front_offset_ = 0;
  size_ = 0;
}

void TunnelFlow::send(std::string_view bytes) {
  const auto owner = session();
  if (!owner || out_ended_ || transport_closed_ || bytes.empty()) {
    return;
  }
  out_.append(bytes);
  wants_room_ = wants_room_ || out_.size() >= io::Socket::kHighWater;
  owner->resume_output(*this);
}

void TunnelFlow::send_end() {
  const auto owner = session();
  if (!owner || out_ended_) {
    return;
  }
  out_ended_ = true;
  owner->resume_output(*this);
}

void TunnelFlow::hold() { paused_ = true; }

void TunnelFlow::release() {
  if (!std::exchange(paused_, false)) {
    return;
  }
  const auto owner = session();
  if (!owner) {
    return;
  }
  if (held_.empty() && (!in_ended_ || end_told_)) {
    give_credit(0);
    return;
  }
  owner->loop().post([weak = weak_from_this()] {
    if (const auto flow = weak.lock()) {
      flow->give_held();
    }
  });
}

void TunnelFlow::release_now() {
  paused_ = false;
  give_held();
}

void TunnelFlow::receive(std::string_view bytes) {
  if (over_) {
    return;
  }
  if (paused_ || !held_.empty()) {
    held_.append(bytes);
    return;
  }
  on_bytes(bytes);
  give_credit(bytes.size());
}

void TunnelFlow::receive_end() {
  in_ended_ = true;
  if (held_.empty()) {
    give_held();
  }
}

void TunnelFlow::give_held() {
  while (!over_ && !paused_ && !held_.empty()) {
    const std::string bytes = std::exchange(held_, {});
    on_bytes(bytes);
    give_credit(bytes.size());
  }
  if (over_ || paused_ || !in_ended_ || end_told_) {
    return;
  }
  end_told_ = true;
  const auto self = shared_from_this();
  on_ended();
  if (transport_closed_) {
    if (const auto owner = session()) {
      over_ = true;
      owner->forget(id_);
    }
  }
}

/// Credit for what the owner took, unless it has paused since: then no more than one window can be
/// under way.
void TunnelFlow::give_credit(std::size_t bytes) {
  uncredited_ += bytes;
  const auto owner = session();
  if (owner && !paused_ && uncredited_ > 0) {
    owner->credit(id_, std::exchange(uncredited_, 0));
  }
}

void TunnelFlow::cut() {
  const auto owner = session();
  over_ = true;
  out_.clear();
  held_.clear();
  if (owner) {
    owner->reset_stream(id_, kCancelCode);
    owner->forget(id_);
  }
}

void TunnelFlow::lose(const Error& error) {
  if (over_) {
    return;
  }
  const auto self = shared_from_this();
  over_ = true;
  out_.clear();
  held_.clear();
  on_lost(error);
}

}  // namespace sandboxkit::net
