#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
# make_preference_reference.py - what TRL's trainers make of log-probabilities
#
# Writes preferences.json beside this script: pairs with the log-probabilities
# of the tokens of their completions, and for each setting of DPOTrainer the
# loss, its derivatives by the policy's log-probabilities, and the metrics; the
# same of RewardTrainer with scores. The trainers' own functions compute them,
# in double precision, with stubs in place of models. Made with TRL 1.16.0,
# transformers 5.23 and torch 2.15.
import collections
import inspect
import json
import pathlib
import textwrap
from types import SimpleNamespace

import torch
import torch.nn.functional as F
import trl
from trl.trainer import dpo_trainer
from trl.trainer.reward_trainer import RewardTrainer

HERE = pathlib.Path(__file__).resolve().parent
LENGTHS = [(5, 3), (1, 1), (7, 7), (4, 6), (2, 9)]  # chosen, rejected
NEAR, ALL = 4, 5  # the last pair's policy is far from the reference
PROMPT = 2
DIVERGENT = ["sigmoid", "sigmoid_norm", "hinge", "ipo", "exo_pair", "robust",
             "sft"]
OTHERS = ["nca_pair", "bco_pair", "sppo_hard", "apo_zero", "apo_down"]
DEFAULTS = {"losses": {}, "beta": 0.1, "label_smoothing": 0.0,
            "f_divergence": "reverse_kl", "f_alpha": 0.5, "ld_alpha": None,
            "use_weighting": False, "pairs": NEAR}


def compute_loss():
    """DPOTrainer._compute_loss without what stops it here: the alpha divergence
    is computed in single precision, and a hinge loss with weights fails in
    backward, because it is multiplied in place."""
    source = textwrap.dedent(
        inspect.getsource(dpo_trainer.DPOTrainer._compute_loss))
    assert source.count(".float()") == 3 and "torch.float32: 80.0" in source
    source = source.replace("_float = torch.clamp(t_chosen.float()",
                            "_float = torch.clamp(t_chosen.double()")
    source = source.replace("_float = torch.clamp(t_rejected.float()",
                            "_float = torch.clamp(t_rejected.double()")
    source = source.replace("torch.float32: 80.0", "torch.float64: 80.0")
    in_place = "per_sequence_loss *= "
    assert source.count(in_place) == 1
    source = source.replace(in_place,
                            "per_sequence_loss = per_sequence_loss * ")
    scope = dict(vars(dpo_trainer))
    exec(source, scope)
    return scope["_compute_loss"]


COMPUTE_LOSS = compute_loss()
IDENTITY = SimpleNamespace(gather=lambda x: x, gather_for_metrics=lambda x: x)


def make_pairs():
    """Numbers that are floats, too."""
    def tokens(length, low):
        return (torch.rand(length) * low).float().tolist()

    def side(length, far):
        logp = tokens(length, -4.0)
        ref = [float(torch.tensor(x - far / length).float()) for x in
               tokens(length, -4.0)]
        return {"logp": logp, "ref": ref, "collision": tokens(length, -1.5)}

    return [{"chosen": side(c, 200.0 * (i >= NEAR)),
             "rejected": side(r, -200.0 * (i >= NEAR))}
            for i, (c, r) in enumerate(LENGTHS)]


def batch_of(pairs, key):
    """(2 B, T - 1): what a token is predicted with stands one place before."""
    sides = [p["chosen"] for p in pairs] + [p["rejected"] for p in pairs]
    longest = PROMPT + max(len(s["logp"]) for s in sides)
    rows = torch.zeros(len(sides), longest - 1, dtype=torch.float64)
    for i, s in enumerate(sides):
        rows[i, PROMPT - 1:PROMPT - 1 + len(s[key])] = torch.tensor(
            s[key], dtype=torch.float64)
    return rows


def masks_of(pairs):
    sides = [p["chosen"] for p in pairs] + [p["rejected"] for p in pairs]
    longest = PROMPT + max(len(s["logp"]) for s in sides)
    mask = torch.zeros(len(sides), longest, dtype=torch.long)
    for i, s in enumerate(sides):
        mask[i, PROMPT:PROMPT + len(s["logp"])] = 1
    return mask


class Model:
    """What a trainer asks of a model in training mode."""
    training, is_gradient_checkpointing = True, False

    def __init__(self, **outputs):
        self.outputs = SimpleNamespace(**outputs)

    def __call__(self, **_):
        return self.outputs


def model_of(logp, collision):
    return Model(
        log_probs=logp, log_sum_sq_probs=collision,
        entropy=torch.zeros_like(collision),
        mean_logits=torch.zeros_like(collision),
        is_top1=torch.zeros_like(collision, dtype=torch.bool))


def dpo_of_trl(case, pairs, logp):
    mask, ref = masks_of(pairs), batch_of(pairs, "ref")
    collision = batch_of(pairs, "collision")
    policy = model_of(logp, collision)
    trainer = SimpleNamespace(
        model=policy, ref_model=model_of(ref, collision),
        accelerator=SimpleNamespace(device="cpu", **vars(IDENTITY)),
        aux_loss_enabled=False, precompute_ref_logps=False,
        args=SimpleNamespace(gradient_checkpointing_kwargs=None),
        beta=case["beta"], label_smoothing=case["label_smoothing"],
        f_divergence_type=case["f_divergence"],
        f_alpha_divergence_coef=case["f_alpha"], ld_alpha=case["ld_alpha"],
        use_weighting=case["use_weighting"], loss_types=list(case["losses"]),
        loss_weights=list(case["losses"].values()),
        _metrics={"train": collections.defaultdict(list)}, _tp_size=1,
        _total_train_tokens=0)
    inputs = {"input_ids": mask.clone(), "attention_mask": mask.clone(),
              "completion_mask": mask}
    loss = COMPUTE_LOSS(trainer, policy, inputs, False)
    return loss, {k: v[0] for k, v in trainer._metrics["train"].items()
                  if k.startswith(("rewards/", "logps/"))}


def cdpo(case, pairs, logp):
    """Not in TRL any more: the formula of OpenRLHF's DPOLoss."""
    ratios = (logp - batch_of(pairs, "ref")).sum(1)
    chosen, rejected = ratios.chunk(2)
    x, eps = case["beta"] * (chosen - rejected), case["label_smoothing"]
    loss = -F.logsigmoid(x) * (1 - eps) - F.logsigmoid(-x) * eps
    return loss.mean(), {}


def run(case, pairs):
    """The loss is a mean over pairs, derivatives are those of the sum."""
    pairs = pairs[:case["pairs"]]
    logp = batch_of(pairs, "logp").requires_grad_()
    f = cdpo if "cdpo" in case["losses"] else dpo_of_trl
    loss, metrics = f(case, pairs, logp)
    loss.backward()
    grad = logp.grad * len(pairs)
    rows = [grad[i, PROMPT - 1:PROMPT - 1 + n].tolist() for i, n in enumerate(
        [len(p["chosen"]["logp"]) for p in pairs] +
        [len(p["rejected"]["logp"]) for p in pairs])]
    return dict(case, loss=loss.item(), metrics=metrics,
                chosen=rows[:len(pairs)], rejected=rows[len(pairs):])


def make_cases():
    def case(losses, **options):
        if isinstance(losses, str):
            losses = {losses: 1.0}
        if set(losses) & {"robust", "exo_pair", "cdpo"}:
            options.setdefault("label_smoothing", 0.1)
        return dict(DEFAULTS, losses=losses, **options)

    for loss in DIVERGENT + OTHERS + ["cdpo"]:
        yield case(loss)
        yield case(loss, beta=0.5)
    for loss in DIVERGENT:
        yield case(loss, f_divergence="forward_kl")
        yield case(loss, f_divergence="js_divergence")
        yield case(loss, f_divergence="alpha_divergence", f_alpha=0.3)
        yield case(loss, f_divergence="alpha_divergence", f_alpha=1.4)
    yield case("sigmoid", f_divergence="alpha_divergence", f_alpha=1.0)
    yield case("exo_pair", label_smoothing=1e-3)
    yield case("robust", label_smoothing=0.0)
    for loss in DIVERGENT[:-1] + OTHERS:
        yield case(loss, ld_alpha=0.4)
        yield case(loss, use_weighting=True)
    yield case("sigmoid", ld_alpha=0.0)
    for loss in DIVERGENT + OTHERS + ["cdpo"]:
        yield case(loss, pairs=ALL)
    for alpha in 0.3, 1.4:  # where exponents end
        yield case("robust", f_divergence="alpha_divergence", f_alpha=alpha,
                   pairs=ALL)
    # TRL multiplies the mean of all chosen tokens by the mean weight of all
    # pairs; of one pair that is the same.
    yield case("sft", use_weighting=True, pairs=1)
    yield case("sft", ld_alpha=0.4)
    yield case({"sigmoid": 0.8, "bco_pair": 0.2, "sft": 1.0})  # MPO
    yield case({"sft": 0.3, "ipo": 2.0, "apo_zero": 0.5, "hinge": 0.0},
               ld_alpha=0.7, beta=0.3)


def reward(case):
    chosen = torch.tensor(case["chosen"], dtype=torch.float64)
    rejected = torch.tensor(case["rejected"], dtype=torch.float64)
    scores = torch.cat([chosen, rejected]).requires_grad_()
    model = Model(logits=scores.unsqueeze(1))
    trainer = SimpleNamespace(
        model=model, accelerator=IDENTITY, _total_train_tokens=0, _tp_size=1,
        _metrics={"train": collections.defaultdict(list)},
        args=SimpleNamespace(center_rewards_coefficient=case["center"]))
    inputs = {"attention_mask": torch.ones(1)}
    if case["margin"]:
        inputs["margin"] = torch.tensor(case["margin"], dtype=torch.float64)
    loss = RewardTrainer.compute_loss(trainer, model, inputs)
    loss.backward()
    d_chosen, d_rejected = (scores.grad * len(chosen)).chunk(2)
    metrics = {k: v[0] for k, v in trainer._metrics["train"].items()
               if k != "num_tokens"}
    return dict(case, loss=loss.item(), d_chosen=d_chosen.tolist(),
                d_rejected=d_rejected.tolist(), metrics=metrics)


def make_rewards():
    chosen, rejected = (torch.randn(6) * 2).tolist(), torch.randn(6).tolist()
    chosen[4], rejected[5] = rejected[4], 90.0
    margin = torch.rand(6).tolist()
    for center in None, 0.01, 0.5:
        for m in None, margin:
            yield {"chosen": chosen, "rejected": rejected, "margin": m,
                   "center": center}


def main():
    torch.manual_seed(1)
    pairs = make_pairs()
    lines = [f'"trl": "{trl.__version__}"',
             '"pairs": [\n' + ",\n".join(map(json.dumps, pairs)) + "\n]",
             '"dpo": [\n' + ",\n".join(
                 json.dumps(run(c, pairs)) for c in make_cases()) + "\n]",
             '"rm": [\n' + ",\n".join(
                 json.dumps(reward(c)) for c in make_rewards()) + "\n]"]
    (HERE / "preferences.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")


main()
