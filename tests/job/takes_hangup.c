/* SPDX-License-Identifier: Apache-2.0 */
/* takes_hangup.c - a library that takes SIGHUP before main, as UCX does */
#include "config.h"

#include <signal.h>

static void ignore(int number)
{
    (void)number;
}

__attribute__((constructor)) static void take_hangup(void)
{
    signal(SIGHUP, ignore);
}
