/* SPDX-License-Identifier: Apache-2.0 */
/* pmix_ring.c - every rank gets a value that its neighbor put */

#include "config.h"

#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>

static void try(const char *call, pmix_status_t status)
{
    if (status != PMIX_SUCCESS) {
        fprintf(stderr, "%s: %s\n", call, PMIx_Error_string(status));
        exit(1);
    }
}

static uint32_t job_size(const pmix_proc_t *self)
{
    pmix_proc_t job = *self;
    pmix_value_t *value;
    uint32_t size;

    job.rank = PMIX_RANK_WILDCARD;
    try("PMIx_Get(size)", PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value));
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return size;
}

int main(void)
{
    pmix_proc_t self, peer;
    pmix_value_t mine = {.type = PMIX_UINT32}, *theirs;
    pmix_info_t collect;
    bool yes = true;
    uint32_t size;

    try("PMIx_Init", PMIx_Init(&self, NULL, 0));
    size = job_size(&self);
    mine.data.uint32 = 1000 + self.rank;
    try("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "ring", &mine));
    try("PMIx_Commit", PMIx_Commit());
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    try("PMIx_Fence", PMIx_Fence(NULL, 0, &collect, 1));

    peer = self;
    peer.rank = (self.rank + 1) % size;
    try("PMIx_Get(ring)", PMIx_Get(&peer, "ring", NULL, 0, &theirs));
    printf("%u of %u got %u\n", self.rank, size, theirs->data.uint32);
    PMIX_VALUE_RELEASE(theirs);
    try("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
