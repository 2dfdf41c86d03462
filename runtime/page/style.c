/* SPDX-License-Identifier: Apache-2.0 */
/* style.c - colors, lines and layout of the page */
#include "config.h"

#include <string.h>

#include "page/page_impl.h"

#define LIGHT                                                                  \
    "--paper:#fff;--card:#f6f7f9;--ink:#1b1f24;--dim:#57606a;--rule:#d5dae0;"  \
    "--grid:#e7eaee;--c1:#0072b2;--c2:#c04e00;--c3:#00805c;--c4:#a4477d;"      \
    "--c5:#94630a;--c6:#2478a8;--c7:#3c4148;--c8:#6f6a00;--ok:#00734f;"        \
    "--warn:#8a5a00;--bad:#b53a00;--turn:#0067a3;--h1:#9fc8ee;--h2:#f3c98b;"   \
    "--h3:#e79a3c;--h4:#cf5f11;--h5:#8f2d00;--on:#fff;"

#define DARK                                                                   \
    "--paper:#14171b;--card:#1d2228;--ink:#e8eaed;--dim:#a5adb8;"              \
    "--rule:#39414b;--grid:#262c34;--c1:#56b4e9;--c2:#f5894a;--c3:#2fc39a;"    \
    "--c4:#e19bc4;--c5:#e69f00;--c6:#7fb2e5;--c7:#c5cbd3;--c8:#f0e442;"        \
    "--ok:#3ccf9f;--warn:#f0b93a;--bad:#ff8a55;--turn:#6cc0f5;--h1:#2c5f8c;"   \
    "--h2:#6b4a15;--h3:#a3651a;--h4:#dd7a2c;--h5:#ffb077;--on:#14171b;"

const char dt_style_colors[] =
    ":root{color-scheme:light dark;" LIGHT "}"
    "@media(prefers-color-scheme:dark){:root{" DARK "}}"
    "@media print{:root{color-scheme:light;" LIGHT "}}";

/* Lines also differ in their dashes. */
const char dt_style_plot[] =
    ".plot{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',"
    "'DejaVu Sans',sans-serif;font-variant-numeric:tabular-nums}"
    ".plot text{fill:var(--dim);stroke:var(--paper);stroke-width:3px;"
    "stroke-linejoin:round;paint-order:stroke}.plot "
    ".title{fill:var(--ink);font-size:15px;"
    "font-weight:600}.paper{fill:var(--paper)}"
    ".plot .end{text-anchor:end}.plot .mid{text-anchor:middle}"
    ".plot path{fill:none;stroke-linejoin:round}"
    ".plot .grid{stroke:var(--grid)}.plot .axis{stroke:var(--dim)}"
    ".plot .thin{stroke-width:1;stroke-opacity:.45;stroke-dasharray:none}"
    ".plot .bold{stroke-width:2}.plot .solid{stroke-dasharray:none}"
    ".plot .limit{stroke:var(--bad);stroke-dasharray:2 3}"
    ".plot .note{fill:var(--bad)}"
    ".plot .bad{stroke:var(--bad);stroke-width:1.6}"
    ".l1{stroke:var(--c1)}.l2{stroke:var(--c2);stroke-dasharray:7 3}"
    ".l3{stroke:var(--c3);stroke-dasharray:2 2.5}"
    ".l4{stroke:var(--c4);stroke-dasharray:9 3 2 3}"
    ".l5{stroke:var(--c5);stroke-dasharray:4 4}"
    ".l6{stroke:var(--c6);stroke-dasharray:12 4}"
    ".l7{stroke:var(--c7);stroke-dasharray:1 3}"
    ".l8{stroke:var(--c8);stroke-dasharray:6 2 1 2 1 2}"
    ".f1{fill:var(--c1)}.f2{fill:var(--c2)}.f3{fill:var(--c3)}"
    ".f4{fill:var(--c4)}.f5{fill:var(--c5)}.f6{fill:var(--c6)}"
    ".f7{fill:var(--c7)}.f8{fill:var(--c8)}"
    ".plot .t1{fill:var(--c1)}.plot .t2{fill:var(--c2)}"
    ".plot .t3{fill:var(--c3)}.plot .t4{fill:var(--c4)}"
    ".plot .t5{fill:var(--c5)}.plot .t6{fill:var(--c6)}"
    ".plot .t7{fill:var(--c7)}.plot .t8{fill:var(--c8)}"
    ".plot .s1{fill:var(--c1)}.plot .s2{fill:var(--c2)}"
    ".plot .s3{fill:var(--c3)}.plot .s4{fill:var(--c4)}"
    ".plot .s5{fill:var(--c5)}.plot .s6{fill:var(--c6)}"
    ".plot .s7{fill:var(--c7)}.plot .s8{fill:var(--c8)}"
    ".plot [class^=s]{stroke:var(--paper);stroke-width:.6}"
    ".plot .h1{fill:var(--h1)}.plot .h2{fill:var(--h2)}"
    ".plot .h3{fill:var(--h3)}.plot .h4{fill:var(--h4)}"
    ".plot .h5{fill:var(--h5)}.plot .h0{fill:var(--card);stroke:var(--rule)}"
    ".plot [class^=k] path{stroke-dasharray:1 3;stroke-opacity:.7}"
    ".plot .kb path{stroke:var(--bad)}.plot .kw path{stroke:var(--warn)}"
    ".plot .kt path{stroke:var(--turn)}.plot .kd path{stroke:var(--dim)}"
    ".plot .kb .sign{fill:var(--bad)}.plot .kw circle{fill:var(--warn)}"
    ".plot .kt circle{fill:var(--turn)}.plot .kd rect{fill:var(--dim)}"
    ".plot [class^=k] "
    "text{fill:var(--on);stroke:none;font-size:10px;font-weight:600;"
    "text-anchor:middle}";

const char dt_style_page[] =
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--paper);color:var(--ink);"
    "font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans',"
    "'DejaVu Sans',sans-serif}"
    "main{max-width:1080px;margin:0 auto;padding:28px 24px 48px}"
    "h1{font-size:2.1rem;line-height:1.15;margin:.1em 0 .35em;"
    "overflow-wrap:anywhere}"
    "h2{font-size:1.3rem;margin:2.2em 0 .7em;padding-bottom:.25em;"
    "border-bottom:1px solid var(--rule)}"
    "h3{font-size:1rem;margin:0 0 .2em}"
    ".kicker{margin:0;color:var(--dim);font-size:.9rem}"
    ".unit{color:var(--dim);font-weight:400}"
    ".verdict{display:flex;flex-wrap:wrap;align-items:baseline;gap:.3em .7em;"
    "margin:.2em 0 .6em;font-size:1.15rem;overflow-wrap:anywhere}"
    ".badge{font-size:.85em;font-weight:650;padding:.12em .7em;"
    "border-radius:99px;background:var(--k);color:var(--on);"
    "white-space:nowrap}"
    ".kb{--k:var(--bad)}.kw{--k:var(--warn)}.kt{--k:var(--turn)}"
    ".kd{--k:var(--dim)}"
    ".ok{--k:var(--ok)}.warn{--k:var(--warn)}.fail{--k:var(--bad)}"
    ".busy{--k:var(--turn)}"
    "header{border-left:5px solid var(--k);padding-left:18px}"
    ".about{color:var(--dim);margin:.2em 0;overflow-wrap:anywhere}"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fill,"
    "minmax(148px,1fr));gap:12px;margin:1.4em 0}"
    ".tiles div{background:var(--card);border-radius:8px;padding:10px 14px}"
    ".tiles dt{color:var(--dim);font-size:.82rem}"
    ".tiles dd{margin:0;font-size:1.28rem;font-weight:600;line-height:1.3;"
    "font-variant-numeric:tabular-nums}"
    ".tiles small{display:block;color:var(--dim);font-size:.78rem;"
    "font-weight:400}"
    "pre{background:var(--card);border-radius:8px;padding:10px 14px;margin:0;"
    "white-space:pre-wrap;overflow-wrap:anywhere;font-size:.88rem}"
    ".plots{display:grid;grid-template-columns:1fr 1fr;gap:26px 32px}"
    "figure{margin:0;min-width:0}.wide{grid-column:1/-1}"
    "svg{display:block;width:100%;height:auto}"
    ".scroll{overflow-x:auto}"
    "details{font-size:.85rem;margin-top:.2em}"
    "summary{cursor:pointer;color:var(--dim)}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums;"
    "font-size:.88rem}"
    "th,td{text-align:left;padding:.28em 1.1em .28em 0;vertical-align:top;"
    "border-bottom:1px solid var(--grid)}"
    "th{font-weight:600}thead th{color:var(--dim);white-space:nowrap}"
    "td.n,th.n,.numbers td{text-align:right;white-space:nowrap}"
    "td.w{white-space:nowrap}"
    "td.x{overflow-wrap:anywhere;min-width:12em}"
    "td,bdi{unicode-bidi:isolate}"
    "code{font-size:.92em;overflow-wrap:anywhere}"
    "th code{white-space:nowrap}"
    ".banner{border:1px solid var(--warn);border-left-width:5px;"
    "border-radius:6px;padding:8px 14px;margin:1em 0}"
    ".bar{display:flex;height:22px;border-radius:6px;overflow:hidden;"
    "margin:.6em 0 .4em;background:var(--card)}"
    ".key{display:flex;flex-wrap:wrap;gap:.2em 1.4em;list-style:none;"
    "padding:0;margin:0;font-size:.88rem}"
    ".key svg,.run "
    "svg{display:inline-block;width:26px;height:12px;margin-right:.4em;"
    "vertical-align:baseline}"
    ".run{white-space:nowrap}"
    ".num{display:inline-block;min-width:1.7em;text-align:center;"
    "border-radius:9px;background:var(--k);color:var(--on);font-size:.82em;"
    "font-weight:600}"
    "footer{margin-top:3em;color:var(--dim);font-size:.82rem;"
    "overflow-wrap:anywhere}"
    ".sr{position:absolute;width:1px;height:1px;overflow:hidden;"
    "clip-path:inset(50%)}"
    "@media screen and (max-width:760px){main{padding:18px 14px 36px}"
    ".plots{grid-template-columns:1fr}h1{font-size:1.6rem}"
    ".plots .wide svg{min-width:620px}.plot{font-size:13px}"
    ".tiles{grid-template-columns:repeat(auto-fill,minmax(124px,1fr))}}"
    "@media print{main{max-width:none;padding:0}body{font-size:10pt}"
    ".plots{gap:14px 20px}"
    "figure,.tiles div,tr{break-inside:avoid}h2,h3{break-after:avoid}"
    "details:not([open]){display:none}.scroll{overflow:visible}"
    "*{print-color-adjust:exact;-webkit-print-color-adjust:exact}}";

const char *const dt_style_marks[] = {[DT_MARK_BAD] = "kb",
                                      [DT_MARK_WARN] = "kw",
                                      [DT_MARK_TURN] = "kt",
                                      [DT_MARK_DONE] = "kd"};

/* The value of a variable in a list; it ends at a semicolon. */
static const char *value_of(const char *variables, const char *name, size_t n)
{
    for (const char *at = variables; at; at = strchr(at, ';')) {
        at += *at == ';';
        if (strncmp(at, name, n) == 0 && at[n] == ':')
            return at + n + 1;
    }
    return "none;";
}

/* Writes rules with the values of variables in place of their names. */
static void put_rules(FILE *out, const char *rules, const char *variables)
{
    const char *use;
    for (; (use = strstr(rules, "var(")) != NULL;
         rules = strchr(use, ')') + 1) {
        const char *name = use + 4;
        const char *value =
            value_of(variables, name, (size_t)(strchr(name, ')') - name));
        fwrite(rules, 1, (size_t)(use - rules), out);
        fwrite(value, 1, strcspn(value, ";"), out);
    }
    fputs(rules, out);
}

void dt_style_write_plain(FILE *out)
{
    put_rules(out, dt_style_plot, LIGHT);
    fputs("\n@media(prefers-color-scheme:dark){", out);
    put_rules(out, dt_style_plot, DARK);
    fputs("}", out);
}
