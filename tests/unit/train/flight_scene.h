/* SPDX-License-Identifier: Apache-2.0 */
/* flight_scene.h - steps of a run while a save is written */
#ifndef TESTS_UNIT_TRAIN_FLIGHT_SCENE_H
#define TESTS_UNIT_TRAIN_FLIGHT_SCENE_H

#include "base/clock.h"
#include "tests/unit/small_run.h"
#include "train/resume/resume_impl.h"

static inline int take_steps(struct dt_run *run, int count)
{
    struct dt_report_step line;
    struct dt_error err = {0};
    for (int i = 0; i < count; i++)
        TRY(small_step(run, &line, &err) == 0);
    return 0;
}

/* Takes steps until the save in flight can go on, goes on with it, and so until
 * it is done: every rank takes as many.
 */
static inline int take_steps_until_saved(struct dt_run *run)
{
    struct dt_error err = {0};
    while (run->saves.flight > 0) {
        TRY(take_steps(run, 1) == 0);
        if (dt_flight_ready(run))
            TRY(dt_run_save_advance(run, &err) == 0);
        dt_clock_sleep(0.001);
    }
    return 0;
}

#endif /* TESTS_UNIT_TRAIN_FLIGHT_SCENE_H */
