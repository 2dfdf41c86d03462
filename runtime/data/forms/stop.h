/* SPDX-License-Identifier: Apache-2.0 */
/* stop.h - whether reading files is to end before it is done */
#ifndef DT_DATA_FORMS_STOP_H
#define DT_DATA_FORMS_STOP_H

#include <stdbool.h>

#include "base/error.h"

/* Of one thread. Starts zeroed, except `asked`. */
struct dt_stop {
    bool (*asked)(void); /* from any thread; NULL: nobody stops it */
    double next;         /* when it is asked again */
};

/* Asks a few times a second, however often it is called. -1: EX_TEMPFAIL with
 * the path, it is to end.
 */
int dt_stop_check(struct dt_stop *stop, const char *path, struct dt_error *err);

#endif /* DT_DATA_FORMS_STOP_H */
