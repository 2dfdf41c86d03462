/* SPDX-License-Identifier: Apache-2.0 */
/* keys_preference.h - rows of the schema, for schema.c: rm, dpo */
/* clang-format off */

    /* rm */
    {"rm.center_rewards_coefficient", DT_CONF_FLOAT,
     AT(rm.center_rewards_coefficient), .fallback = "0", .min = 0,
     .max = INFINITY, .result = true,
     .aliases = ALSO("center_rewards_coefficient"),
     .help = "weight of the square of the sum of both scores of a pair, which "
             "keeps scores near 0; 0.01 is usual"},
    {"rm.last_token", DT_CONF_ENUM, AT(rm.last_token), .fallback = "auto",
     .result = true,
     .words = WORDS({"auto", DT_CONF_LAST_TOKEN_AUTO, NULL},
                    {"end", DT_CONF_LAST_TOKEN_END, NULL}),
     .help = "where a sequence is scored: auto is its last token that is not "
             "padding, as in transformers, which skips the end of a text if "
             "that has the id of padding; end is always the last one, and a "
             "model without another id of padding is then saved without one, "
             "so that transformers takes one sequence at a time"},

    /* dpo */
    {"dpo.loss", DT_CONF_STRINGS, AT(dpo.loss), .fallback = "[sigmoid]",
     .result = true,
     .words = CHOICES(DT_DPO_LOSSES),
     .aliases = ALSO("loss_type", "pref_loss"),
     .help = "loss of a pair, or a list of losses that are added, as in TRL"
             DT_DPO_LOSSES(DPO_HELP)},
    {"dpo.loss_weights", DT_CONF_STRINGS, AT(dpo.loss_weights),
     .result = true, .aliases = ALSO("loss_weights"),
     .help = "list of numbers by which the losses of dpo.loss are multiplied; "
             "the default is 1 each"},
    {"dpo.beta", DT_CONF_FLOAT, AT(dpo.beta), .fallback = "0.1", .min = 0,
     .max = INFINITY, .above_min = true, .result = true,
     .aliases = ALSO("beta", "pref_beta"),
     .help = "how much a change of log-probabilities counts: with more of it "
             "the model stays closer to the reference"},
    {"dpo.label_smoothing", DT_CONF_FLOAT, AT(dpo.label_smoothing),
     .fallback = "0", .min = 0, .max = 0.5, .below_max = true, .result = true,
     .help = "share of the pairs whose sides are presumed swapped, for the "
             "losses cdpo, robust and exo_pair"},
    {"dpo.f_divergence", DT_CONF_ENUM, AT(dpo.f_divergence),
     .fallback = "reverse_kl", .result = true,
     .words = CHOICES(DT_F_DIVERGENCES),
     .aliases = ALSO("f_divergence_type"),
     .help = "f-divergence that defines the implicit reward by the ratio of "
             "the probabilities in the model and the reference"
             DT_F_DIVERGENCES(HELP)},
    {"dpo.f_alpha", DT_CONF_FLOAT, AT(dpo.f_alpha), .fallback = "0.5",
     .result = true, .aliases = ALSO("f_alpha_divergence_coef"),
     .help = "the alpha of alpha_divergence"},
    {"dpo.ld_alpha", DT_CONF_FLOAT, AT(dpo.ld_alpha), .fallback = "1",
     .min = 0, .max = 1, .result = true, .aliases = ALSO("ld_alpha"),
     .help = "what tokens count beyond the length of the shorter completion; "
             "below 1 long completions are preferred less for their length"},
    {"dpo.use_weighting", DT_CONF_BOOL, AT(dpo.use_weighting),
     .fallback = "false", .result = true, .aliases = ALSO("use_weighting"),
     .help = "multiply the loss of a pair by the probability that the model "
             "gives its completions (WPO)"},
    {"dpo.reference.mode", DT_CONF_ENUM, AT(dpo.reference.mode),
     .fallback = "live", .result = true,
     .words = WORDS({"live", DT_CONF_REFERENCE_LIVE, NULL},
                    {"none", DT_CONF_REFERENCE_NONE, NULL},
                    {"precompute", DT_CONF_REFERENCE_PRECOMPUTE, NULL}),
     .help = "where log-probabilities of the reference come from: live "
             "computes them with a second, frozen model; precompute does so "
             "once for all pairs before the first step, and keeps them beside "
             "the data for later runs; none counts all completions as equally "
             "likely"},
    {"dpo.sync_ref.enabled", DT_CONF_BOOL, AT(dpo.sync_ref.enabled),
     .fallback = "false", .result = true, .aliases = ALSO("sync_ref_model"),
     .help = "move a live reference towards the model every few steps; it is "
             "then saved in checkpoints"},
    {"dpo.sync_ref.alpha", DT_CONF_FLOAT, AT(dpo.sync_ref.alpha),
     .fallback = "0.6", .min = 0, .max = 1, .above_min = true, .result = true,
     .aliases = ALSO("ref_model_mixup_alpha"),
     .help = "share of the model in the reference after such a move; 1 makes "
             "them equal"},
    {"dpo.sync_ref.steps", DT_CONF_INT, AT(dpo.sync_ref.steps),
     .fallback = "512", .min = 1, .max = 1e12,
     .result = true,
     .aliases = ALSO("ref_model_sync_steps"),
     .help = "steps from one move to the next"},
