/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport_gloo.cc - the connections of gloo, for callers in C
 *
 * Four things are worked around by deriving from gloo's classes. Gloo takes
 * whoever connects first for a rank: so it gets connections that were made
 * elsewhere, and the socket on which it listens is closed before anybody is
 * heard. A connection that breaks in the middle of a message does not wake the
 * one who waits for that message, and a wait that times out breaks all
 * connections: so a buffer waits on gloo's own condition variable, but in
 * slices, and a time-out is no failure. Gloo does not notice a host that goes
 * silent: so the sockets are told to. And its thread polls without a pause
 * while another one sends: so a connection that is in use makes it sleep.
 */
#include "config.h"

#include <chrono>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <gloo/transport/tcp/unbound_buffer.h>

#include "base/thread.h"
#include "comm/transport.h"

namespace tcp = gloo::transport::tcp;

enum {
    IN_USE_US = 50, /* about as long as a send to a socket takes */
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

/* Stops gloo's thread, by an event whose handler waits. handleEvents has the
 * parameters of this gloo: events and, since 2025, the loop.
 */
template <typename HandleEvents> class ParkOf;

template <typename... Parameters>
class ParkOf<void (tcp::Pair::*)(Parameters...)> : public tcp::Handler
{
  public:
    ParkOf() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        if (event_ < 0)
            throw std::runtime_error(std::string("eventfd: ") +
                                     strerror(errno));
    }

    ~ParkOf() override
    {
        ::close(event_);
    }

    int event() const
    {
        return event_;
    }

    void stop()
    {
        std::unique_lock<std::mutex> lock(m_);
        wanted_ = true;
        eventfd_write(event_, 1);
        changed_.wait(lock, [&] { return stopped_; });
    }

    void go()
    {
        std::unique_lock<std::mutex> lock(m_);
        wanted_ = false;
        changed_.notify_all();
        changed_.wait(lock, [&] { return !stopped_; });
    }

    void handleEvents(Parameters...) override
    {
        eventfd_t count;
        std::unique_lock<std::mutex> lock(m_);
        eventfd_read(event_, &count);
        stopped_ = true;
        changed_.notify_all();
        changed_.wait(lock, [&] { return !wanted_; });
        stopped_ = false;
        changed_.notify_all();
    }

  private:
    const int event_;
    std::mutex m_;
    std::condition_variable changed_;
    bool wanted_ = false, stopped_ = false;
};

using Park = ParkOf<decltype(&tcp::Pair::handleEvents)>;

/* Inside this scope gloo's thread handles nothing. */
class Parked
{
  public:
    explicit Parked(Park &park) : park_(park)
    {
        park_.stop();
    }
    ~Parked()
    {
        park_.go();
    }

  private:
    Park &park_;
};

/* Gloo's thread leaves the events of a pair that another thread has locked, and
 * finds them again at once. Where both share a CPU, that one cannot go on
 * meanwhile. To wait for the lock could be for ever: close waits, with the
 * lock, for gloo's thread.
 */
template <typename HandleEvents> class OwnPairOf;

template <typename... Parameters>
class OwnPairOf<void (tcp::Pair::*)(Parameters...)> : public tcp::Pair
{
  public:
    /* Before 2023 each pair listens. Gloo's thread has to be parked. */
    OwnPairOf(tcp::Context *context, tcp::Device *device, int peer,
              std::chrono::milliseconds timeout)
        : tcp::Pair(context, device, peer, timeout), listened_(fd_ >= 0)
    {
        if (listened_)
            ::close(fd_);
        fd_ = -1;
        state_ = INITIALIZING;
    }

    ~OwnPairOf() override
    {
        close(); /* as long as events are handled here */
    }

    void handleEvents(Parameters... parameters) override
    {
        if (!std::unique_lock<std::mutex>(m_, std::try_to_lock))
            usleep(IN_USE_US);
        tcp::Pair::handleEvents(parameters...);
    }

    bool has_listened() const
    {
        return listened_;
    }

    /* Becomes the owner of a connection. */
    void take(int fd)
    {
        std::lock_guard<std::mutex> lock(m_);
        sockaddr_storage address = {};
        socklen_t bytes = sizeof(address);
        getpeername(fd, reinterpret_cast<sockaddr *>(&address), &bytes);
        peer_ = tcp::Address(address, 0); /* for messages */
        device_->registerDescriptor(fd, EPOLLIN, this);
        fd_ = fd;
        changeState(CONNECTED);
    }

  private:
    const bool listened_;
};

using Pair = OwnPairOf<decltype(&tcp::Pair::handleEvents)>;

class Context : public tcp::Context
{
  public:
    using tcp::Context::Context;

    std::unique_ptr<Pair> make(int peer)
    {
        return std::make_unique<Pair>(this, device_.get(), peer, getTimeout());
    }

    std::unique_ptr<gloo::transport::Pair> &createPair(int peer) override
    {
        return pairs_[static_cast<size_t>(peer)] = make(peer);
    }
};

/* Is this descriptor the socket that listens at the address? */
bool listens_at(int fd, const sockaddr_storage &address)
{
    sockaddr_storage own = {};
    socklen_t bytes = sizeof(own), flag_bytes = sizeof(int);
    int listens = 0;
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &flag_bytes) ==
               0 &&
           listens &&
           getsockname(fd, reinterpret_cast<sockaddr *>(&own), &bytes) == 0 &&
           memcmp(&own, &address, bytes) == 0;
}

/* Since 2023 the device listens. Another socket takes the place of that one:
 * gloo's thread, which may be about to accept, finds nobody there, and the
 * destructor something that it can close.
 */
void stop_listening(tcp::Device &device, const tcp::Address &address,
                    Park *park)
{
    const sockaddr_un nameless = {AF_UNIX, ""};
    int nobody = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (nobody < 0 ||
        bind(nobody, reinterpret_cast<const sockaddr *>(&nameless),
             sizeof(nameless.sun_family)) < 0 ||
        listen(nobody, 0) < 0)
        throw std::runtime_error(std::string("socket: ") + strerror(errno));
    for (const auto &entry :
         std::filesystem::directory_iterator("/proc/self/fd")) {
        int fd = atoi(entry.path().filename().c_str());
        if (!listens_at(fd, address.getSockaddr()))
            continue;
        dup3(nobody, fd, O_CLOEXEC);
        device.registerDescriptor(fd, 0, park);
    }
    ::close(nobody);
}

/* Makes the kernel report a peer whose host is silent, whether or not data is
 * being sent. A host that answers is never given up, however late its process.
 */
void set_options(int fd, int outage_ms)
{
    const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
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

struct dt_transport {
    Park park; /* outlives the thread that it stops */
    std::shared_ptr<tcp::Device> device;
    std::shared_ptr<Context> context;
    int outage_ms;
};

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

struct dt_transport *dt_transport_create(int rank, int size, int outage_ms,
                                         struct dt_error *err)
{
    try {
        SignalsBlocked guard;
        auto transport = std::make_unique<dt_transport>();
        transport->device = std::dynamic_pointer_cast<tcp::Device>(
            tcp::CreateDevice(tcp::attr("127.0.0.1")));
        transport->device->registerDescriptor(transport->park.event(), EPOLLIN,
                                              &transport->park);
        transport->context =
            std::make_shared<Context>(transport->device, rank, size);
        transport->outage_ms = outage_ms;
        Parked parked(transport->park);
        auto pair = transport->context->make(rank);
        if (!pair->has_listened())
            stop_listening(*transport->device,
                           dynamic_cast<const tcp::Address &>(pair->address()),
                           &transport->park);
        return transport.release();
    } catch (const std::exception &e) {
        set_error(err, e.what());
        return nullptr;
    }
}

int dt_transport_add(struct dt_transport *transport, int peer, int fd,
                     struct dt_error *err)
{
    try {
        set_options(fd, transport->outage_ms);
        Parked parked(transport->park);
        transport->context->createPair(peer);
        dynamic_cast<Pair &>(*transport->context->getPair(peer)).take(fd);
        return 0;
    } catch (const std::exception &e) {
        ::close(fd);
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
