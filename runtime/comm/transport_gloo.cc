/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport_gloo.cc - the connections of gloo, for callers in C
 *
 * Three things are worked around by deriving from gloo's classes. A connection
 * that breaks in the middle of a message does not wake the one who waits for
 * that message, and a wait that times out breaks all connections: so a buffer
 * waits on gloo's own condition variable, but in slices, and a time-out is no
 * failure. Gloo does not notice a host that goes silent: so the sockets are
 * taught to. And its thread polls without a pause while another one sends: so a
 * connection that is in use makes it sleep.
 */
#include "config.h"

#include <algorithm>
#include <chrono>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include "base/limits.h"
#include "base/thread.h"
#include "comm/transport.h"

namespace tcp = gloo::transport::tcp;

enum {
    SPARE_FILES = 32, /* for what else the process opens */
    IN_USE_US = 50,   /* about what a send to a socket takes */
};

/* Where one rank listens for one other. */
struct dt_transport_address {
    int32_t peer; /* the rank that is to connect */
    char socket[sizeof(sockaddr_in6)];
    int64_t sequence;
};

static_assert(sizeof(dt_transport_address) == DT_TRANSPORT_ADDRESS_BYTES);

struct dt_transport {
    std::shared_ptr<gloo::transport::Device> device;
    std::shared_ptr<tcp::Context> context;
    std::vector<dt_transport_address> addresses; /* of the last listen */
    int outage_ms;
};

namespace
{

/* The message of an exception without gloo's source file and line. */
int set_error(dt_error *err, const char *text)
{
    const char *end = text[0] == '[' ? strstr(text, "] ") : nullptr;
    return dt_error_set(err, EX_UNAVAILABLE, "%s", end ? end + 2 : text);
}

/* Threads that gloo starts inside this scope take no signals. */
class SignalsBlocked
{
  public:
    SignalsBlocked()
    {
        dt_thread_block_signals(&before);
    }
    ~SignalsBlocked()
    {
        pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }

  private:
    sigset_t before;
};

/* Gloo's thread leaves the events of a pair that another thread has locked, and
 * finds them again at once. Where both share a CPU, that one cannot go on
 * meanwhile. To wait for the lock could be for ever: close waits, with the
 * lock, for gloo's thread. handleEvents has the parameters of this gloo: events
 * and, since 2025, the loop.
 */
template <typename HandleEvents> class PatientPair;

template <typename... Parameters>
class PatientPair<void (tcp::Pair::*)(Parameters...)> : public tcp::Pair
{
  public:
    using tcp::Pair::Pair;

    ~PatientPair() override
    {
        close(); /* as long as events are handled here */
    }

    void handleEvents(Parameters... parameters) override
    {
        if (!std::unique_lock<std::mutex>(m_, std::try_to_lock))
            usleep(IN_USE_US);
        tcp::Pair::handleEvents(parameters...);
    }

    int socket() const
    {
        return fd_;
    }
};

using Pair = PatientPair<decltype(&tcp::Pair::handleEvents)>;

class Context : public tcp::Context
{
  public:
    using tcp::Context::Context;

    std::unique_ptr<gloo::transport::Pair> &createPair(int peer) override
    {
        pairs_[static_cast<size_t>(peer)] =
            std::make_unique<Pair>(this, device_.get(), peer, getTimeout());
        return pairs_[static_cast<size_t>(peer)];
    }
};

/* Shorter than gloo's own bytes, which hold any address of any family. */
dt_transport_address pack(int peer, const gloo::transport::Address &address)
{
    const auto &own = dynamic_cast<const tcp::Address &>(address);
    dt_transport_address packed = {};
    packed.peer = peer;
    memcpy(packed.socket, &own.getSockaddr(), sizeof(packed.socket));
    packed.sequence = own.getSeq();
    return packed;
}

std::vector<char> unpack(const dt_transport_address &packed)
{
    sockaddr_storage socket = {};
    memcpy(&socket, packed.socket, sizeof(packed.socket));
    return tcp::Address(socket, packed.sequence).bytes();
}

/* Makes the kernel report a peer whose host is silent, whether or not data is
 * being sent. A host that answers is never given up, however late its process.
 */
void notice_silence(gloo::transport::Pair &pair, int outage_ms)
{
    int fd = dynamic_cast<Pair &>(pair).socket();
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_KEEPIDLE, 1},
        {IPPROTO_TCP, TCP_KEEPINTVL, 1},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, outage_ms},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
    };
    for (const auto &o : options)
        if (setsockopt(fd, o.level, o.name, &o.value, sizeof(o.value)) < 0)
            throw std::runtime_error(std::string("setsockopt: ") +
                                     strerror(errno));
}

} // namespace

/* Counts the messages that ended, as gloo does, but waits in its own way. */
struct dt_transport_buffer : public tcp::UnboundBuffer {
    using tcp::UnboundBuffer::UnboundBuffer;

    bool is_connected(int peer)
    {
        return context_->getPair(peer) != nullptr;
    }

    bool wait(dt_direction direction, std::chrono::milliseconds timeout)
    {
        std::unique_lock<std::mutex> lock(m_);
        int &ended = direction == DT_SEND ? sendCompletions_ : recvCompletions_;
        auto &changed = direction == DT_SEND ? sendCv_ : recvCv_;
        changed.wait_for(lock, timeout, [&] { return ended > 0 || ex_; });
        if (ended > 0) {
            ended--;
            return true;
        }
        throwIfException();
        return false;
    }
};

struct dt_transport *dt_transport_create(int rank, int size,
                                         const char *address,
                                         const struct dt_transport_times *times,
                                         struct dt_error *err)
{
    try {
        SignalsBlocked guard;
        auto transport = std::make_unique<dt_transport>();
        transport->device = tcp::CreateDevice(tcp::attr(address));
        transport->context = std::make_shared<Context>(
            std::dynamic_pointer_cast<tcp::Device>(transport->device), rank,
            size);
        /* gloo waits five times as long for a connection */
        transport->context->setTimeout(
            std::chrono::milliseconds(std::max(times->connect_ms / 5, 1)));
        transport->outage_ms = times->outage_ms;
        return transport.release();
    } catch (const std::exception &e) {
        set_error(err, e.what());
        dt_error_prefix(err, "address %s", address);
        return nullptr;
    }
}

const void *dt_transport_listen(struct dt_transport *transport,
                                const int *peers, int count,
                                struct dt_error *err)
{
    /* a socket listens until it is replaced by the connection */
    if (dt_limits_open_files(static_cast<size_t>(count) + SPARE_FILES, err) <
        0) {
        dt_error_prefix(err, "connections to %d ranks", count);
        return nullptr;
    }
    try {
        SignalsBlocked guard;
        transport->addresses.clear();
        for (int i = 0; i < count; i++)
            transport->addresses.push_back(pack(
                peers[i], transport->context->createPair(peers[i])->address()));
        return transport->addresses.data();
    } catch (const std::exception &e) {
        set_error(err, e.what());
        dt_error_prefix(err, "listening for %d ranks", count);
        return nullptr;
    }
}

int dt_transport_connect(struct dt_transport *transport, int peer,
                         const void *addresses, size_t bytes,
                         struct dt_error *err)
{
    std::vector<dt_transport_address> theirs(bytes /
                                             sizeof(dt_transport_address));
    memcpy(theirs.data(), addresses, theirs.size() * sizeof(theirs[0]));
    auto ours = std::find_if(theirs.begin(), theirs.end(), [&](auto &address) {
        return address.peer == transport->context->rank;
    });
    if (ours == theirs.end())
        return set_error(err, "it does not listen for this rank");
    try {
        SignalsBlocked guard;
        auto &pair = transport->context->getPair(peer);
        pair->connect(unpack(*ours));
        notice_silence(*pair, transport->outage_ms);
        return 0;
    } catch (const std::exception &e) {
        return set_error(err, e.what());
    }
}

void dt_transport_close(struct dt_transport *transport)
{
    for (int r = 0; r < transport->context->size; r++)
        transport->context->getPair(r).reset();
}

void dt_transport_destroy(struct dt_transport *transport)
{
    delete transport;
}

struct dt_transport_buffer *dt_transport_buffer_create(
    struct dt_transport *transport, void *data, size_t bytes,
    struct dt_error *err)
{
    try {
        return new dt_transport_buffer(transport->context, data, bytes);
    } catch (const std::exception &e) {
        dt_error_set(err, EX_OSERR, "%s", e.what());
        return nullptr;
    }
}

void dt_transport_buffer_destroy(struct dt_transport_buffer *buffer)
{
    delete buffer;
}

int dt_transport_buffer_post(struct dt_transport_buffer *buffer,
                             enum dt_direction direction, int peer,
                             uint64_t slot, size_t offset, size_t bytes,
                             struct dt_error *err)
{
    if (!buffer->is_connected(peer))
        return set_error(err, "there is no connection to it");
    try {
        if (direction == DT_SEND)
            buffer->send(peer, slot, offset, bytes);
        else
            buffer->recv(peer, slot, offset, bytes);
        return 0;
    } catch (const std::exception &e) {
        return set_error(err, e.what());
    }
}

int dt_transport_buffer_wait(struct dt_transport_buffer *buffer,
                             enum dt_direction direction, int timeout_ms,
                             struct dt_error *err)
{
    try {
        return buffer->wait(direction, std::chrono::milliseconds(timeout_ms));
    } catch (const std::exception &e) {
        return set_error(err, e.what());
    }
}
