# SPDX-License-Identifier: Apache-2.0
"""jax_train.py - data-parallel JAX that knows nothing of its launcher."""
import jax
import jax.numpy as jnp
from jax.experimental import multihost_utils

jax.distributed.initialize()


@jax.jit
def gradient(weights, x):
    def loss(w):
        return jnp.mean((x @ w - x.sum(1)) ** 2)

    return jax.value_and_grad(loss)(weights)


weights = jnp.zeros(16)
key = jax.random.key(jax.process_index())
for step in range(1, 101):
    key, draw = jax.random.split(key)
    loss, grad = gradient(weights, jax.random.normal(draw, (32, 16)))
    loss, grad = (
        part.mean(0) for part in multihost_utils.process_allgather((loss, grad))
    )
    weights -= 0.1 * grad
    if jax.process_index() == 0 and step % 20 == 0:
        print(f"step {step} loss {loss:.4f}", flush=True)
