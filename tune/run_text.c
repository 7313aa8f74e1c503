/* Output of fovea-tune run (run_text.h). */
#include "run_text.h"

#include "dispatch/dispatch.h"
#include "output.h"
#include "plural.h"

#include <inttypes.h>
#include <stdio.h>

void run_text_class(const tune_class *c, const tune_result *r, double seconds) {
    char words[400], won[300];
    snprintf(words, sizeof words, "%s", tune_verdicts[r->verdict]);
    if (r->verdict == VERDICT_tuned)
        snprintf(words, sizeof words, "faster choice: %.3f times as fast (%.3f to %.3f): %s", r->gain.median,
                 r->gain.low, r->gain.high,
                 tune_choice_text(c->operation, r->choice.knob, r->choice.knob, won, sizeof won));
    if (r->verdict == VERDICT_unconfirmed && r->seen >= 1.01) /* what promised less was not proved */
        snprintf(words, sizeof words, "default kept (one choice looked %.1f%% faster, but not on unseen shapes)",
                 100 * (r->seen - 1));
    else if (r->verdict == VERDICT_unconfirmed)
        snprintf(words, sizeof words, "default kept (no choice looked 1%% faster)");
    printf("%-62s  %-52s", c->name, words);
    printf("  %d candidate%s, %.1f s\n", r->candidates, plural(r->candidates), seconds);
    fflush(stdout);
}

void run_text_busy(const tune_steadiness *s, const char *then) {
    printf("This machine is too busy to tune: the same work takes %.1f times as long on average as at best. %s.\n",
           1 + s->excess, then);
    fflush(stdout);
}

void run_text_hopeless(int classes, double seconds) {
    printf("Ended early, after %.0f s: the first %d classes were all too noisy to tell.\n", seconds, classes);
}

void run_text_outcome(const tune_outcome *o, int count, const char *path) {
    const int kept = o->counts[VERDICT_default] + o->counts[VERDICT_unconfirmed];
    const bool standard = tune_is_standard_output(path);
    if (o->counts[VERDICT_tuned] > 0)
        printf("%d of %d class%s %s a faster choice: %.3f times as fast as the default on average",
               o->counts[VERDICT_tuned], count, plural_es(count), o->counts[VERDICT_tuned] == 1 ? "has" : "have",
               o->gain);
    else if (kept == count)
        printf("The defaults serve this machine well: no faster choice was confirmed in %d class%s", count,
               plural_es(count));
    else if (kept > 0)
        printf("%d of %d class%s %s the default: no faster choice was confirmed there", kept, count, plural_es(count),
               kept == 1 ? "keeps" : "keep");
    else
        printf("No class could be measured");
    const struct {
        int count;
        const char *words;
    } others[] = {{o->counts[VERDICT_noisy], "too noisy to tell"},
                  {o->counts[VERDICT_no_time], "without enough time (--budget)"},
                  {o->counts[VERDICT_large], "larger than memory allows"}};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (others[i].count > 0)
            printf(", %d %s", others[i].count, others[i].words);
    if (o->store)
        printf(". Stored in %s.\n", standard ? "standard output" : path);
    else
        printf(".\nNothing was stored%s, and programs run as before. Try again %s.\n",
               standard ? ": the file on standard output has no rows" : "",
               o->counts[VERDICT_noisy] > 0 ? "when the machine is quieter" : "with a longer --budget");
}
