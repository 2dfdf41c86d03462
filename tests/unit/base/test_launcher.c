/* SPDX-License-Identifier: Apache-2.0 */
/* test_launcher.c - which commands start ranks by themselves, and of what */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/launcher.h"

enum { WORDS_MAX = 16 };

/* "NAME: PROGRAM" of a line, or "none". */
static void describe(const char *line, char *text, size_t size)
{
    char copy[256];
    const char *words[WORDS_MAX];
    size_t count = 0;
    struct dt_launcher found;
    snprintf(copy, sizeof(copy), "%s", line);
    for (char *w = strtok(copy, " "); w; w = strtok(NULL, " "))
        words[count++] = w;
    if (!dt_launcher_find(words, count, &found)) {
        snprintf(text, size, "none");
        return;
    }
    size_t used =
        (size_t)snprintf(text, size, "%s:%s%s", found.name,
                         found.program < count ? " " : "", found.python);
    for (size_t i = found.program; i < count; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s",
                                 i > found.program ? " " : "", words[i]);
}

static const struct {
    const char *line, *want;
} cases[] = {
    {"torchrun --nproc-per-node 4 t.py --lr 1",
     "torchrun: python3 t.py --lr 1"},
    {"/v/bin/torchrun t.py", "torchrun: python3 t.py"},
    {"python3 /v/bin/torchrun t.py", "torchrun: python3 t.py"},
    {"torchrun -m pkg.train a", "torchrun: python3 -m pkg.train a"},
    {"torchrun --no-python ./run.sh", "torchrun:"},
    {"torchrun", "torchrun:"},
    {"torchrun -m", "torchrun:"},
    {"torchruns t.py", "none"},
    {"torchrun.py t.py", "none"},
    {"env A=1 B=2 torchrun t.py", "torchrun: python3 t.py"},
    {"env", "none"},
    {"env A=1", "none"},
    {"python -m torch.distributed.run t.py", "torchrun: python3 t.py"},
    {"python3.11 -u -X dev -m torch.distributed.run t.py",
     "torchrun: python3 t.py"},
    {"python3 -m torch.distributed.launch --use_env t.py",
     "torch.distributed.launch: python3 t.py"},
    {"python3 -m torch.distributed", "none"},
    {"python3 -m", "none"},
    {"python3", "none"},
    {"python3 -X", "none"},
    {"python3 -X torchrun t.py", "none"},
    {"python3 -W torchrun t.py", "none"},
    {"python3x -m torch.distributed.run t.py", "none"},
    {"python3 t.py -m torch.distributed.run", "none"},
    {"accelerate launch --num_processes 8 t.py 1",
     "accelerate: python3 t.py 1"},
    {"accelerate config", "none"},
    {"accelerate", "none"},
    {"python3 -m accelerate.commands.launch --module p.t",
     "accelerate: python3 -m p.t"},
    {"deepspeed --hostfile h t.py --deepspeed d.json",
     "deepspeed: python3 t.py --deepspeed d.json"},
    {"python -m deepspeed.launcher.runner t.py", "deepspeed: python3 t.py"},
    {"composer -n 8 t.py", "composer: python3 t.py"},
    {"python -m composer.cli.launcher t.py", "composer: python3 t.py"},
    {"colossalai run --nproc_per_node 4 t.py", "colossalai: python3 t.py"},
    {"colossalai check -i", "none"},
    {"horovodrun -np 4 python t.py", "horovodrun: python t.py"},
    {"python -m horovod.runner.launch -np 4 python t.py",
     "horovodrun: python t.py"},
    {"mpirun -np 4 -x A python3 -u t.py", "mpirun: python3 -u t.py"},
    {"mpiexec -n 4 ./a.out", "mpiexec: ./a.out"},
    {"mpiexec ./a.out /data", "mpiexec: ./a.out /data"},
    {"mpirun --hostfile ./h -n 2 a.out", "mpirun:"},
    {"mpirun.openmpi -np 2 /opt/a.out -x", "mpirun: /opt/a.out -x"},
    {"/opt/bin/mpiexec.hydra -n 2 python3 t.py", "mpiexec: python3 t.py"},
    {"mpiruns ./a.out", "none"},
    {"orterun -np 2 ./a.out", "orterun: ./a.out"},
    {"prterun -np 2 ./a.out", "prterun: ./a.out"},
    {"torchrun ./train", "torchrun:"},
    {"accelerate-launch t.py", "accelerate-launch: python3 t.py"},
    {"python3 -mtorch.distributed.run t.py", "torchrun: python3 t.py"},
    {"python3 -um torch.distributed.run t.py", "torchrun: python3 t.py"},
    {"python3 -Xdev -W error t.py", "none"},
    {"python3 -c torchrun", "none"},
    {"python3 -u torchrun", "torchrun:"},
    {"env -u A -i B=1 torchrun t.py", "torchrun: python3 t.py"},
    {"env -u", "none"},
    {"nohup nice -n 5 torchrun t.py", "torchrun: python3 t.py"},
    {"nice -5 torchrun t.py", "torchrun: python3 t.py"},
    {"uv run --frozen -p 3.11 torchrun t.py", "torchrun: python3 t.py"},
    {"uv run python -m torch.distributed.run t.py", "torchrun: python3 t.py"},
    {"uv pip torchrun", "none"},
    {"uv", "none"},
    {"srun hostname", "srun:"},
    {"python3 train.py", "none"},
    {"", "none"},
};

static void launchers_are_found_with_their_programs(void **state)
{
    char text[512];
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        describe(cases[i].line, text, sizeof(text));
        assert_string_equal(text, cases[i].want);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_are_found_with_their_programs)};
    return cmocka_run_group_tests_name("launcher", tests, NULL, NULL);
}
