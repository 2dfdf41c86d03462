/* SPDX-License-Identifier: Apache-2.0 */
/* gloo_ring.cc - gloo::allreduce with its ring, connected as ours is */
#include "config.h"

#include <gloo/allreduce.h>
#include <gloo/context.h>
#include <gloo/math.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>

#include "gloo_ring.h"

namespace
{

class Mesh : public gloo::Context
{
  public:
    std::vector<char> doors;

    Mesh(int own_rank, int own_size, const char *address)
        : gloo::Context(own_rank, own_size)
    {
        device_ = gloo::transport::tcp::CreateDevice(address);
        transportContext_ = device_->createContext(own_rank, own_size);
        for (int r = 0; r < own_size; r++) {
            if (r == own_rank)
                continue;
            auto door = transportContext_->createPair(r)->address().bytes();
            doors.insert(doors.end(), door.begin(), door.end());
        }
    }

    void connect(int peer, const char *theirs)
    {
        const char *door =
            theirs + doors.size() / (size - 1) * (rank - (rank > peer));
        transportContext_->getPair(peer)->connect(
            std::vector<char>(door, door + doors.size() / (size - 1)));
    }
};

} // namespace

struct gloo_ring {
    std::shared_ptr<Mesh> mesh;
    uint32_t tag = 0;
};

struct gloo_ring *gloo_ring_create(int rank, int size, const char *address)
{
    return new gloo_ring{std::make_shared<Mesh>(rank, size, address)};
}

const void *gloo_ring_doors(struct gloo_ring *ring, size_t *bytes)
{
    *bytes = ring->mesh->doors.size();
    return ring->mesh->doors.data();
}

void gloo_ring_connect(struct gloo_ring *ring, int peer, const void *doors,
                       size_t)
{
    ring->mesh->connect(peer, static_cast<const char *>(doors));
}

void gloo_ring_all_reduce(struct gloo_ring *ring, float *data, size_t count)
{
    gloo::AllreduceOptions options(ring->mesh);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setOutput(data, count);
    options.setReduceFunction([](void *out, const void *a, const void *b,
                                 size_t n) { gloo::sum<float>(out, a, b, n); });
    options.setTag(ring->tag++);
    gloo::allreduce(options);
}

void gloo_ring_destroy(struct gloo_ring *ring)
{
    delete ring;
}
