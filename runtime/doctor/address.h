/* SPDX-License-Identifier: Apache-2.0 */
/* address.h - by which address and interface a node is reached */
#ifndef DT_DOCTOR_ADDRESS_H
#define DT_DOCTOR_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

#include "doctor/notes.h"

enum {
    DT_DOCTOR_ADDRESS_BYTES = INET6_ADDRSTRLEN,
};

union dt_doctor_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
};

/* From text and port. Returns its length, or 0 if text is not numeric. */
socklen_t dt_doctor_address_parse(union dt_doctor_address *address,
                                  const char *text, unsigned port);

/* The numeric address without the port. */
void dt_doctor_address_print(const union dt_doctor_address *address,
                             char text[DT_DOCTOR_ADDRESS_BYTES]);

/* Name of the interface that has this address. False: none here does. */
bool dt_doctor_interface(const union dt_doctor_address *address, char *name,
                         size_t size);

/* The address of the host `name`; IPv4 is preferred. False, with the reason in
 * why, if there is none within the time.
 */
bool dt_doctor_resolve(const char *name, int timeout_ms,
                       union dt_doctor_address *address, const char **why);

/* The address under which the other nodes are going to look for this one: what
 * `name`, its own, resolves to. Where that cannot be it (a problem in column
 * interface), the one that is used towards the host `launcher` (numeric, or
 * NULL), or else loopback.
 */
void dt_doctor_own_address(const struct dt_doctor_notes *notes,
                           const char *name, const char *launcher,
                           char text[DT_DOCTOR_ADDRESS_BYTES]);

#endif /* DT_DOCTOR_ADDRESS_H */
