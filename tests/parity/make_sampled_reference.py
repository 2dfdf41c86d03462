#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_sampled_reference.py - what TRL's trainers make of sampled completions
#
#   make_sampled_reference.py PPO_TRAINER.PY
#
# Writes sampled.json beside this script: completions with the log-probabilities
# of their tokens, and for settings of GRPOTrainer the loss, its derivatives and
# the metrics; advantages from rewards, of RLOOTrainer too; and for PPOTrainer
# rewards of tokens, advantages, returns and both losses. The trainers' own
# lines compute them, in double precision. Made with TRL 1.16.0 and torch 2.15.
# That version has no PPOTrainer any more: the argument is
# trl/experimental/ppo/ppo_trainer.py of TRL 1.10.0.
import collections
import functools
import inspect
import json
import pathlib
import sys
import textwrap
from types import SimpleNamespace

import torch
import trl
from trl.trainer import grpo_trainer, rloo_trainer

HERE = pathlib.Path(__file__).resolve().parent
LENGTHS = [3, 1, 7, 5, 2, 6]
ADVANTAGES = [0.9, -0.4, -1.2, 0.0, 1.7, -0.3]
MAX_LENGTH = 16
DEFAULTS = {
    "type": "dapo", "level": "token", "epsilon": 0.2, "epsilon_high": 0.28,
    "delta": None, "beta": 0.0, "kl_unbiased": False, "entropy_coef": 0.0,
    "off_policy_mask": None, "correction": "none", "cap": 2.0,
    "top_entropy_quantile": 1.0, "aligned": False, "masked": [],
}


def lines_between(source, first, after):
    """The lines of a text from the one with `first` up to the one with
    `after`."""
    start, end = source.index(first), source.index(after)
    return textwrap.dedent(source[source.rindex("\n", 0, start) + 1:
                                  source.rindex("\n", 0, end) + 1])


GENERATE = inspect.getsource(
    grpo_trainer.GRPOTrainer._generate_and_score_completions)
CORRECT = lines_between(
    GENERATE, "per_token_logps_diff = (old_per_token_logps - sampling",
    "# Compute the per-token log probabilities for the reference model")
COMPARE = lines_between(GENERATE, "unscorable_mask = torch.isnan",
                        "# Slice to keep only the local part")
COMPARE_LOO = lines_between(
    inspect.getsource(rloo_trainer.RLOOTrainer), "scorable_counts = (",
    "is_std_zero = torch.isclose")


def execute(source, scope, module=grpo_trainer):
    scope = dict(vars(module), **scope)
    exec(source, scope)
    return scope


# --- GRPO ---


def make_rows():
    """Numbers that are floats, too."""
    def near(values, spread):
        moved = torch.tensor(values) + (torch.rand(len(values)) - 0.5) * spread
        return moved.float().tolist()

    rows = []
    for length, advantage in zip(LENGTHS, ADVANTAGES):
        logp = (torch.rand(length) * -3).float().tolist()
        rows.append({"logp": logp, "old": near(logp, 1.0),
                     "sampled": near(logp, 1.5), "ref": near(logp, 2.0),
                     "entropy": (torch.rand(length) * 2).float().tolist(),
                     "advantage": advantage})
    return rows


def padded(rows, key):
    table = torch.zeros(len(rows), max(LENGTHS), dtype=torch.float64)
    for i, row in enumerate(rows):
        table[i, :len(row[key])] = torch.tensor(row[key], dtype=torch.float64)
    return table


def denominator(case, mask):
    if case["type"] in ("dapo", "bnpo", "cispo"):
        return mask.sum().item()
    if case["type"] == "dr_grpo":
        return len(LENGTHS) * MAX_LENGTH
    return len(LENGTHS)


def trainer_of(case, logp, entropy):
    args = SimpleNamespace(
        use_bias_correction_kl=case["kl_unbiased"], delta=case["delta"],
        sapo_temperature_pos=1.0, sapo_temperature_neg=1.05,
        steps_per_generation=1)
    trainer = SimpleNamespace(
        args=args, aux_loss_enabled=False,
        top_entropy_quantile=case["top_entropy_quantile"],
        off_policy_mask_threshold=case["off_policy_mask"],
        get_off_policy_mask=grpo_trainer.GRPOTrainer.get_off_policy_mask,
        importance_sampling_level=case["level"], beta=case["beta"],
        loss_type=case["type"], epsilon_low=case["epsilon"],
        epsilon_high=case["epsilon_high"], use_vllm=True,
        vllm_importance_sampling_correction=case["correction"] != "none",
        vllm_importance_sampling_mode=case["correction"],
        vllm_importance_sampling_clip_min=None,
        vllm_importance_sampling_clip_max=case["cap"],
        model=SimpleNamespace(training=True),
        current_gradient_accumulation_steps=1,
        max_completion_length=MAX_LENGTH,
        accelerator=SimpleNamespace(
            num_processes=1, sync_gradients=True, gather=lambda x: x,
            reduce=lambda x, reduction: x,
            pad_across_processes=lambda x, dim, pad_index: x),
        _entropy_bonus_enabled=case["entropy_coef"] > 0,
        use_adaptive_entropy=False, entropy_coef=case["entropy_coef"],
        _metrics={"train": collections.defaultdict(list)},
        _get_per_token_logps_and_entropies=lambda *_, **__: (
            logp, entropy, None))
    trainer.get_high_entropy_mask = functools.partial(
        grpo_trainer.GRPOTrainer.get_high_entropy_mask, trainer)
    return trainer


def run(case, rows):
    logp = padded(rows, "logp").requires_grad_()
    entropy = padded(rows, "entropy").requires_grad_()
    mask = torch.zeros(len(rows), max(LENGTHS), dtype=torch.float64)
    for i, length in enumerate(LENGTHS):
        mask[i, :0 if i in case["masked"] else length] = 1
    trainer = trainer_of(case, logp, entropy)
    empty = torch.zeros(len(rows), 0, dtype=torch.long)
    inputs = {"prompt_ids": empty, "prompt_mask": empty,
              "completion_ids": mask.long(), "completion_mask": mask,
              "advantages": torch.tensor(ADVANTAGES, dtype=torch.float64),
              "ref_per_token_logps": padded(rows, "ref"),
              "num_items_in_batch": mask.sum()}
    old = logp.detach() if case["aligned"] else padded(rows, "old")
    if not case["aligned"]:
        inputs["old_per_token_logps"] = old
    if case["correction"] != "none":
        sampled = padded(rows, "sampled")
        inputs["sampling_per_token_logps"] = sampled
        inputs["importance_sampling_ratio"] = execute(CORRECT, {
            "self": trainer, "old_per_token_logps": old, "mask": mask,
            "sampling_per_token_logps": sampled,
        })["vllm_importance_sampling_ratio"]
    loss = grpo_trainer.GRPOTrainer._compute_loss(trainer, None, inputs)
    loss.backward()
    whole = denominator(case, mask)
    of_entropy = entropy.grad
    return dict(
        case, loss=loss.item(), denominator=whole,
        weights=[(logp.grad[i, :n] * whole).tolist()
                 for i, n in enumerate(LENGTHS)],
        entropy_weights=None if of_entropy is None else
        [(of_entropy[i, :n] * whole).tolist()
         for i, n in enumerate(LENGTHS)],
        metrics={k: v[0] for k, v in trainer._metrics["train"].items()
                 if k not in ("policy_loss", "entropy_coef")})


def make_cases():
    def case(**options):
        if options.get("type") == "cispo":
            options.setdefault("epsilon_high", 1.1)
        return dict(DEFAULTS, **options)

    types = ["dapo", "grpo", "dr_grpo", "bnpo", "cispo", "sapo"]
    for t in types:
        for level in "token", "sequence":
            yield case(type=t, level=level)
            yield case(type=t, level=level, aligned=True)
            yield case(type=t, level=level, beta=0.3)
            yield case(type=t, level=level, beta=0.3, kl_unbiased=True)
            yield case(type=t, level=level, off_policy_mask=0.01)
            for correction in "token_truncate", "token_mask", "sequence_mask":
                yield case(type=t, level=level, correction=correction,
                           cap=1.3)
                yield case(type=t, level=level, correction=correction,
                           aligned=True, beta=0.1)
        yield case(type=t, masked=[1, 4], beta=0.1)
        yield case(type=t, entropy_coef=0.4)
        for level in "token", "sequence":
            yield case(type=t, level=level, top_entropy_quantile=0.3)
            yield case(type=t, level=level, top_entropy_quantile=0.2, beta=0.3,
                       entropy_coef=0.4, masked=[2])
            yield case(type=t, level=level, top_entropy_quantile=0.5, cap=1.3,
                       correction="token_truncate")
    for options in ({}, {"beta": 0.3}, {"beta": 0.3, "kl_unbiased": True},
                    {"correction": "token_truncate", "cap": 1.1}):
        yield case(type="luspo", level="sequence", **options)
    for t in "dapo", "grpo", "dr_grpo", "bnpo":
        # TRL counts what is clipped after delta, which a larger one does not
        # change.
        yield case(type=t, delta=1.35)
        yield case(type=t, delta=3.0)
        yield case(type=t, level="sequence", delta=1.05, epsilon=3e-4,
                   epsilon_high=4e-4)


# --- advantages ---


def make_rewards():
    equal = [[1.0]] * 4
    nan = float("nan")
    two = torch.randn(8, 2).tolist()
    holes = torch.randn(12, 2).tolist()
    holes[1][0] = holes[2][1] = holes[6] = holes[7] = nan
    holes[6] = holes[7] = holes[8] = holes[9] = [nan, nan]
    holes[5][1] = nan
    return [
        [[x] for x in (1.0, 0.0, 0.0, 1.0)],
        equal + [[x] for x in (0.0, 1.0, 0.5, 0.25)],
        [[x] for x in torch.randn(16).tolist()],
        [[x] for x in (1.0, nan, 3.0, nan, nan, nan, 5.0, nan)],
        two, holes,
    ]


def compare(values, scale, aggregation):
    table = torch.tensor(values, dtype=torch.float64)
    weights = torch.tensor([1.0, 0.7][:table.shape[1]], dtype=torch.float64)
    scope = {"rewards_per_func": table, "num_generations": 4,
             "device": "cpu", "self": SimpleNamespace(
                 reward_weights=weights, scale_rewards=scale,
                 multi_objective_aggregation=aggregation,
                 reward_funcs=weights.tolist())}
    advantages = execute(COMPARE, scope)["advantages"]
    return {"values": values, "weights": weights.tolist(), "scale": scale,
            "aggregation": aggregation, "baseline": "group",
            "advantages": advantages.tolist()}


def compare_loo(values):
    rewards = torch.tensor(values, dtype=torch.float64).view(-1)
    scope = {"rewards": rewards, "grouped_rewards": rewards.view(-1, 4),
             "num_generations": 4,
             "self": SimpleNamespace(normalize_advantages=False)}
    advantages = execute(COMPARE_LOO, scope, rloo_trainer)["advantages"]
    return {"values": values, "weights": [1.0], "scale": "none",
            "aggregation": "sum_then_normalize", "baseline": "loo",
            "advantages": advantages.tolist()}


def make_advantages():
    for values in make_rewards():
        for scale in "group", "batch", "none":
            yield compare(values, scale, "sum_then_normalize")
        yield compare(values, "group", "normalize_then_sum")
        if len(values[0]) == 1:
            yield compare_loo(values)


# --- PPO ---


def ppo(source, estimator, whiten, long, lengths=(6, 6, 6, 6)):
    """A batch of responses: TRL puts the score of one that is shorter than
    others after its last token."""
    B, T = 4, 6
    lengths = torch.tensor(lengths)
    masks = [torch.arange(T) > (lengths + i).unsqueeze(1) for i in (-1, 0)]
    logp = (torch.rand(B, T) * -3).float().double()
    ref = (logp + (torch.rand(B, T) - 0.5) * 2).float().double()
    values = torch.randn(B, T).float().double()
    scores = torch.randn(B).double()
    names = {}
    for name in "masked_mean", "masked_var", "masked_whiten":
        start = source.index(f"def {name}(")
        exec(source[start:source.index("\n\n\n", start)],
             dict(torch=torch), names)
    scope = dict(names, torch=torch, logprobs=logp.masked_fill(masks[0], 1),
                 ref_logprobs=ref.masked_fill(masks[0], 1),
                 values=values.masked_fill(masks[1], 0), scores=scores,
                 responses=torch.zeros(B, T),
                 sequence_lengths=lengths - 1, sequence_lengths_p1=lengths,
                 padding_mask=masks[0], padding_mask_p1=masks[1],
                 empty_cache=lambda: None,
                 args=SimpleNamespace(
                     kl_estimator=estimator, kl_coef=0.1,
                     whiten_rewards=whiten, gamma=1.0 if long else 0.9,
                     lam=0.95))
    names.update(torch=torch)  # they call each other
    for f in "masked_var", "masked_whiten":
        scope[f].__globals__.update(names)
    exec(lines_between(source, "logr = ref_logprobs - logprobs",
                       "# Do multiple epochs of PPO training"), scope)
    return {"estimator": estimator, "whiten": whiten,
            "gamma": scope["args"].gamma, "logp": logp.tolist(),
            "ref": ref.tolist(), "values": values.tolist(),
            "scores": scores.tolist(), "kl": scope["kl"].sum(1).tolist(),
            "rewards": scope["rewards"].tolist(),
            "returns": scope["returns"].tolist(),
            "advantages": scope["advantages"].tolist()}, scope


def cut_short(scope):
    mask = torch.zeros_like(scope["padding_mask"])
    mask[1, 4:] = mask[3, 1:] = True
    return mask, mask


def ppo_losses(source, scope, masks):
    """Both losses of the batch, with masks of padding, for the policy and for
    the critic."""
    B, T = scope["logprobs"].shape
    new = (scope["logprobs"] + (torch.rand(B, T) - 0.5)).float().double()
    vpred = (scope["values"] + (torch.rand(B, T) - 0.5)).float().double()
    new.requires_grad_()
    vpred.requires_grad_()
    inner = dict(scope, micro_batch_inds=torch.arange(B),
                 padding_mask=masks[0], padding_mask_p1=masks[1], vpred=vpred, new_logprobs=new,
                 mb_return=scope["returns"], mb_values=scope["values"],
                 mb_advantage=scope["advantages"],
                 mb_logprobs=scope["logprobs"],
                 args=SimpleNamespace(cliprange=0.2, cliprange_value=0.2,
                                      vf_coef=0.3))
    first = "vpredclipped = torch.clamp("
    exec(lines_between(source, first, "accelerator.backward(loss)"), inner)
    exec(lines_between(source, "pg_clipfrac = masked_mean(",
                       "prob_dist = torch.nn"), inner)
    inner["loss"].backward()
    counts = [(~mask).sum().item() for mask in masks]
    return {"lengths": (~masks[0]).sum(1).tolist(), "new": new.tolist(),
            "vpred": vpred.tolist(), "vf_coef": 0.3,
            "policy_loss": inner["pg_loss"].item(),
            "value_loss": inner["vf_loss"].item(),
            "clipfrac": inner["pg_clipfrac"].item(),
            "value_clipfrac": inner["vf_clipfrac"].item(),
            "weights": (new.grad * counts[0]).tolist(),
            "value_weights": (vpred.grad * counts[1]).tolist()}


def make_ppo(source):
    for estimator in "k1", "k3":
        for whiten in False, True:
            case, scope = ppo(source, estimator, whiten, estimator == "k1")
            yield dict(case, losses=ppo_losses(source, scope,
                                               cut_short(scope)))


def make_ppo_next(source):
    for estimator in "k1", "k3":
        for whiten in False, True:
            case, scope = ppo(source, estimator, whiten, estimator == "k1",
                              (6, 4, 5, 1))
            masks = scope["padding_mask"], scope["padding_mask_p1"]
            yield dict(case, losses=ppo_losses(source, scope, masks))


def listed(name, values):
    return f'"{name}": [\n' + ",\n".join(map(json.dumps, values)) + "\n]"


def main():
    torch.manual_seed(1)
    rows = make_rows()
    source = pathlib.Path(sys.argv[1]).read_text()
    lines = [f'"trl": "{trl.__version__}"', listed("rows", rows),
             listed("grpo", [run(c, rows) for c in make_cases()]),
             listed("advantages", make_advantages()),
             listed("ppo", make_ppo(source)),
             listed("ppo_next", make_ppo_next(source))]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (HERE / "sampled.json").write_text(text.replace("NaN", "null"))


main()
