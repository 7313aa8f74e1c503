#!/usr/bin/env bash
# scaling.sh BUILD: how speed grows with threads: a few cases of fovea-bench on 1, 2, 4 ... threads up to the CPUs that this process
# may use, each as times one thread; then, with several nodes of memory, what placement gains (fovea-nodes). What was not measured for
# lack of CPUs or nodes is said in a line.
# Environment: THREADS, in place of "1 2 4 ..."; CASES, lines in place of those below; REPETITIONS.
set -euo pipefail
build=$1
cpus=$(nproc)
threads=${THREADS:-}
if [ -z "$threads" ]; then
    for ((n = 1; n < cpus; n *= 2)); do threads+="$n "; done
    threads+=$cpus
fi
cases=${CASES:-$'attention q_heads=16 q_len=2048 head_dim=64
attention q_heads=32 kv_heads=8 q_len=512 head_dim=128 causal=top_left
decode dtype=bf16 batch=1 q_heads=32 kv_heads=8 kv_len=8192 head_dim=128
linear m=512 n=4096 k=4096
linear m=1 n=4096 k=4096 weight_dtype=q4_k from=memory
mha batch=1 tokens=512 d_model=1024 heads=16'}

arguments=()
while read -r line; do
    for n in $threads; do arguments+=(--case "$line threads=$n"); done
done <<<"$cases"
sockets=$(LC_ALL=C lscpu 2>/dev/null | sed -n 's/^Socket(s): *//p')
echo "Scaling: milliseconds of one thread, then times as fast on more ($cpus CPUs; sockets: ${sockets:-unknown})"
"$build/bench/fovea-bench" --repetitions "${REPETITIONS:-3}" "${arguments[@]}" | awk -v threads="$threads" '
    BEGIN { split("ns us ms s", unit); split("1e-6 1e-3 1 1e3", scale); for (i in unit) milliseconds[unit[i]] = scale[i] }
    /threads:/ && /_median|SKIPPED/ || /threads:[0-9]+ / {
        name = $1; sub(/_median$/, "", name); n = name; sub(/.*threads:/, "", n); sub(/\/.*/, "", n); sub(/\/threads:.*/, "", name)
        if (!(name in seen)) { seen[name] = 1; order[++count] = name }
        if ($3 in milliseconds) time[name, n] = $2 * milliseconds[$3]
    }
    END {
        columns = split(threads, wanted, " ")
        printf "%12s", "1"; for (i = 1; i <= columns; i++) if (wanted[i] != 1) printf "%8s", wanted[i]; print "  threads"
        for (c = 1; c <= count; c++) {
            one = time[order[c], 1]; printf "%9.3f ms", one
            for (i = 1; i <= columns; i++) if (wanted[i] != 1) {
                if (time[order[c], wanted[i]] > 0) printf "%8.2f", one / time[order[c], wanted[i]]; else printf "%8s", "-"
            }
            print "  " order[c]
        }
        exit count == 0
    }'
[ "$cpus" -gt 2 ] || echo "Scaling beyond $cpus threads was not measured: it needs more than 2 CPUs, and this process may use $cpus"
nodes=$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' 2>/dev/null | wc -l)
if [ "$nodes" -le 1 ]; then
    echo "Placement over nodes of memory was not measured: it needs several nodes, and this machine has one"
elif [ -x "$build/bench/fovea-nodes" ]; then
    echo
    "$build/bench/fovea-nodes"
fi
