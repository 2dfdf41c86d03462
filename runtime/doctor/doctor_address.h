/* SPDX-License-Identifier: Apache-2.0 */
/*
 * doctor_address.h - finds the address and the interface by which a node is
 * reached
 */
#ifndef DT_DOCTOR_DOCTOR_ADDRESS_H
#define DT_DOCTOR_DOCTOR_ADDRESS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/net.h"
#include "doctor/doctor_notes.h"

/* Name of the interface that has this address. False: none here does. */
bool dt_doctor_interface(const union dt_net_address *address, char *name,
                         size_t size);

/* Resolves the host `name`, preferring IPv4, and of several addresses the one
 * with the largest reach. False, with the reason in *why, if there is no
 * address within the time.
 */
bool dt_doctor_resolve(const char *name, int timeout_ms,
                       union dt_net_address *address, const char **why);

/* Finds the address by which the other nodes will look for this one: what
 * `name`, its own name, resolves to. If that cannot be right (a problem in the
 * column interface), uses the source address towards the host `launcher`
 * (numeric, or NULL), or else loopback.
 */
void dt_doctor_own_address(const struct dt_doctor_notes *notes,
                           const char *name, const char *launcher,
                           char text[DT_NET_ADDRESS_BYTES]);

#endif /* DT_DOCTOR_DOCTOR_ADDRESS_H */
