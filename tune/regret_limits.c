/* The limits of fovea-tune-regret (regret.h). */
#include "regret.h"

#include <math.h>
#include <stdio.h>

typedef enum limit { LIMIT_holds, LIMIT_unsure, LIMIT_missed } limit;

static const char *const words[] = {"holds", "too noisy to tell", "MISSED"};

static limit worse(limit a, limit b) { return a > b ? a : b; }

/* The sum of independent intervals, normal enough. */
static tune_interval total(tune_interval sum, tune_interval one) {
    const double half = (sum.high - sum.low) / 2, more = (one.high - one.low) / 2;
    const double median = sum.median + one.median, both = sqrt(half * half + more * more);
    return (tune_interval){median, median - both, median + both};
}

/* Is the median at most that? */
static limit at_most(tune_interval t, double most) {
    return t.median <= most ? LIMIT_holds : t.low <= most ? LIMIT_unsure : LIMIT_missed;
}

/* Are at least 95 % at most that? */
static limit mostly(const tune_interval *t, int n, double most, double *percent) {
    int holds = 0, unsure = 0;
    for (int i = 0; i < n; i++) {
        holds += at_most(t[i], most) == LIMIT_holds;
        unsure += at_most(t[i], most) == LIMIT_unsure;
    }
    *percent = 100.0 * holds / n;
    return *percent >= 95 ? LIMIT_holds : 100.0 * (holds + unsure) / n >= 95 ? LIMIT_unsure : LIMIT_missed;
}

/* Over the shapes that are known to lose more by the handicap than the least gain that is stored. Where there is none,
 * nothing had to be won back, unless many may be such. */
static limit summarise_handicap(const regret_row *rows, int n) {
    const double least = log(1.02);
    tune_interval left = {0, 0, 0};
    double loss = 0, won = 0;
    int lost = 0, unsure = 0;
    for (int i = 0; i < n; i++)
        if (rows[i].whole.high < -least) {
            left = total(left, rows[i].left);
            loss -= rows[i].whole.median;
            won -= rows[i].tuned.median;
            lost++;
        } else
            unsure += rows[i].whole.low < -least;
    printf("won back of the loss  ");
    if (lost == 0) {
        const limit l = 20 * unsure > n ? LIMIT_unsure : LIMIT_holds;
        printf("nothing: no shape of %d is known to be 2 %% slower by this handicap, %d may be: %s\n", n, unsure,
               words[l]);
        return l;
    }
    const limit l = left.median >= 0 ? LIMIT_holds : left.high >= 0 ? LIMIT_unsure : LIMIT_missed;
    printf("%.0f %% (at least 90 %%; %d of %d shapes are known to lose more than 2 %%, %.1f %% on average): %s\n",
           100 * won / loss, lost, n, 100 * (exp(loss / lost) - 1), words[l]);
    return l;
}

int regret_summarise(const regret_row *rows, int n, const regret_options *o) {
    tune_interval tuned = {0, 0, 0}, regrets[MOST_SHAPES], defaults[MOST_SHAPES];
    double worst = -INFINITY, twice = 0, apart = 0, chosen, within;
    limit no_worse = LIMIT_holds, same = LIMIT_holds, all;
    for (int i = 0; i < n; i++) {
        const tune_interval *a = &rows[i].tuned, *best = &rows[i].best, *t = &rows[i].twice;
        tuned = total(tuned, *a);
        const tune_interval slower = *t, faster = {-t->median, -t->high, -t->low};
        same = worse(same, worse(at_most(slower, log(1.02)), at_most(faster, log(1.02))));
        twice += t->median;
        apart = fmax(apart, fabs(t->median));
        worst = fmax(worst, a->median);
        no_worse = worse(no_worse, at_most(*a, log(1.02)));
        regrets[i] = rows[i].regret;
        defaults[i] = (tune_interval){-best->median, -best->high, -best->low};
    }
    const limit mean = at_most(tuned, 0.0005 * n), best = mostly(regrets, n, log(1.03), &chosen),
                alone = mostly(defaults, n, log(1.10), &within);
    printf("\ntuned / default       geometric mean %.4f (%.4f to %.4f; at most 1.00): %s\n", exp(tuned.median / n),
           exp(tuned.low / n), exp(tuned.high / n), words[mean]);
    printf("                      worst %.3f (at most 1.02): %s\n", exp(worst), words[no_worse]);
    printf("tuned / best          within 3 %% for %.0f %% of %d shapes (95 %%): %s\n", chosen, n, words[best]);
    all = worse(mean, worse(no_worse, best));
    if (o->handicap > 1)
        all = worse(all, summarise_handicap(rows, n));
    else {
        printf("default / best        within 10 %% for %.0f %% (95 %%): %s\n", within, words[alone]);
        all = worse(all, alone);
    }
    if (o->again) {
        printf("tuned twice           second / first %.3f on average, at most %.1f %% apart (2 %%): %s\n",
               exp(twice / n), 100 * (exp(apart) - 1), words[same]);
        all = worse(all, same);
    }
    if (10 * n < 9 * o->shapes)
        all = worse(all, LIMIT_unsure);
    printf("%s\n", all == LIMIT_holds    ? "all limits hold"
                   : all == LIMIT_unsure ? "the machine is too noisy to tell whether all limits hold"
                                         : "NOT all limits hold");
    return all == LIMIT_holds ? TUNE_GOOD : all == LIMIT_unsure ? TUNE_NOISY : TUNE_DRIFT;
}
