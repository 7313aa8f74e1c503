/* The rank of each position of an axis: ranks get stripes back and forth. */
#include "layout.h"

static int64_t stripes_of(const fv_mpi_layout *l) { return fv_mpi_ceil(l->total, l->width); }

static int rank_of_stripe(const fv_mpi_layout *l, int64_t stripe) {
    const int place = (int)(stripe % l->ranks);
    return stripe / l->ranks % 2 == 0 ? place : l->ranks - 1 - place;
}

int fv_mpi_owner(const fv_mpi_layout *l, int64_t position) { return rank_of_stripe(l, position / l->width); }

/* Each round deals one stripe to each rank, and only the last stripe of all can be short. */
int64_t fv_mpi_local(const fv_mpi_layout *l, int64_t position) {
    return position / l->width / l->ranks * l->width + position % l->width;
}

int64_t fv_mpi_global(const fv_mpi_layout *l, int rank, int64_t local) {
    const int64_t round = local / l->width, place = round % 2 == 0 ? rank : l->ranks - 1 - rank;
    return (round * l->ranks + place) * l->width + local % l->width;
}

int64_t fv_mpi_held(const fv_mpi_layout *l, int rank) {
    if (rank < 0 || rank >= l->ranks || l->total == 0)
        return 0;
    const int64_t stripes = stripes_of(l), rounds = stripes / l->ranks;
    int64_t held = rounds * l->width;
    for (int64_t s = rounds * l->ranks; s < stripes; s++)
        held += rank_of_stripe(l, s) == rank ? l->width : 0;
    return rank_of_stripe(l, stripes - 1) == rank ? held - (stripes * l->width - l->total) : held;
}

/* The last stripe of a round and the first of the next one are one rank's. */
int64_t fv_mpi_run(const fv_mpi_layout *l, int64_t position) {
    const int64_t next = position / l->width + 1;
    const int64_t stripes = l->ranks == 1 ? stripes_of(l) : next + (next % l->ranks == 0);
    return (stripes >= stripes_of(l) ? l->total : stripes * l->width) - position;
}

int64_t fv_mpi_stripe(const fv_mpi_layout *l, int rank, int64_t index, int64_t *first) {
    if (rank < 0 || rank >= l->ranks || index < 0)
        return 0;
    for (int64_t at = 0; at < l->total;) {
        const int64_t count = fv_mpi_run(l, at);
        if (fv_mpi_owner(l, at) == rank && index-- == 0) {
            *first = at;
            return count;
        }
        at += count;
    }
    return 0;
}
