#!/usr/bin/env bash
# test.sh STEP: one test of fovea-tune as a program. Run by ctest, which sets TUNE (the program), SIMULATED (the program on a
# machine that is made up: simulated.c), FOVEA_TUNE_MACHINE (its description, which it reads, as FOVEA_TUNE_WEATHER), SCRATCH (a
# folder of the step's own) and, for log and decode, LOGGER (a program that runs attention). What is said of speed, kernels and
# sizes is looked at in SIMULATED alone: what TUNE finds depends on this host and what else it does, and may be that it is too
# noisy to tell (exit status 3).
step=$1 name=fovea-tune program=$TUNE
. "$(dirname "$0")/../tests/support/program.sh"
export FOVEA_TUNING_FILE= FOVEA_KNOWN_CPUS= FOVEA_TUNE_GGML= XDG_CACHE_HOME=$SCRATCH/cache
unset FOVEA_ISA FOVEA_LOG_SHAPES FOVEA_ARITHMETIC FOVEA_THREADS_BACKEND FOVEA_THREADS_BIND FOVEA_DEBUG FOVEA_TEST_SEED
small=(--shape 'q_heads=2 q_len=64 head_dim=32' --shape 'linear rows=20 in=96 out=64' --effort quick --threads 1)

# sound FILE: a file that was written whole.
sound() {
    [ "$(head -1 "$1")" = 'fovea-tuning 4' ] || fail "$1 does not begin as it should"
    tail -1 "$1" | grep -qE '^end sum=[0-9a-f]{16}$' || fail "$1 does not end as it should"
}

# close FILE: adds its last line, with the sum: FNV-1a of 64 bits.
close() {
    python3 - "$1" <<'END'
import sys
sum = 0xCBF29CE484222325
with open(sys.argv[1], "rb+") as file:
    for byte in file.read():
        sum = (sum ^ byte) * 0x100000001B3 % 2**64
    file.write(b"end sum=%016x\n" % sum)
END
}
# made FILE: a tuning file for the CPU that the program is on and this build, of the rows that are read.
made() {
    echo 'fovea-tuning 4' >none && close none
    { echo 'fovea-tuning 4' && "$program" show none | sed -n 's/^this is Fovea [^,]*, //p' && cat; } >"$1" && close "$1"
}
tier_here() { "$program" run --dry-run | sed -n 's/^machine .* tier //p' | grep .; }
evidence=': gain=1.043 low=1.031 high=1.055 blocks=45 shapes=b1_h2_q64_kv64_d32'

case $step in
options) # one table makes help, man page and completion, and every option is in all three
    one_table 12
    completes --effort fovea-tune --ef
    completes scalar fovea-tune check --isa sc
    completes --budget fovea-tune check --
    for command in run show check merge report; do
        expect 0 $command --help
        has out "^usage: fovea-tune $command" 'exit status'
    done
    expect 0 show --help
    lacks out --shape
    has man 'output.*, .*-o' 'FOVEA_TUNING_FILE'
    expect 2 show --dry-run
    expect 4 show -- --no-file
    has err 'fovea-tune: --no-file: No such file'
    for wrong in --nothing '--budget 0' '--budget x' '--effort most' '--isa sse9' '--threads 0' '--shape' 'dance' \
        '--preset nobody' '--shape q_heads=0' '--shape heads=3' '--shape linear' '--shape linear_rows=3' \
        '--log nowhere' 'show --effort quick' 'show a b' 'merge a' \
        'check --dry-run'; do
        # shellcheck disable=SC2086
        expect 2 $wrong
        [ -s err ] || fail "$wrong: no sentence"
    done
    expect 2 --budget 0
    has err '^fovea-tune run: --budget needs a time from 1s to 24h, not "0", as in: --budget 20s$'
    expect 2 check --effort most
    has err '^fovea-tune check: --effort needs one of quick, normal, thorough, not "most"$'
    expect 2 run --shape
    has err '^fovea-tune run: --shape needs a shape, as in: --shape "q_heads=12 q_len=512 head_dim=64"$'
    expect 2 merge a
    has err '^fovea-tune merge: -o FILE is missing, as in: fovea-tune merge tuning.a tuning.b -o tuning$'
    ;;

dry-run)
    expect 0 --dry-run --json --preset minilm
    python3 -c 'import json; r = json.load(open("out")); assert r["classes"][0]["search"]' || fail "no JSON"
    expect 0 --dry-run --quiet
    [ ! -s out ] || fail "--quiet prints"
    expect 0 --dry-run
    has out 'machine' 'caches' 'cores' 'quota' 'steady' 'attention rows 1,' 'linear rows 1,' 'search on'
    has out '^[0-9]{2,} classes of shapes,'
    expect 0 --dry-run --shape "linear rows=8 in=64 out=64"
    has out '^1 class of shapes,'
    expect 2 --dry-run --model "$0"
    has err '^fovea-tune: .*test.sh: '
    [ ! -e "$XDG_CACHE_HOME" ] || fail "a dry run wrote something"
    ;;

run) # the way of an operator: run, show, check, report, merge
    program=$SIMULATED
    expect 0 run "${small[@]}"
    has out '^attention rows 17-64, keys 0-64, d32 +faster choice: 1\.[0-9]+ times as fast \(1\..*\): .*tile_rows=[0-9]+' \
        '^linear rows 17-64, in 1-255, out 1-255 +default (kept|confirmed as best)' \
        '^1 of 2 classes has a faster choice: 1\..* Stored in .*/fovea/tuning\.$'
    [ "$(grep -cE '^(attention|linear) rows' out)" = 2 ] || fail "not one line for each class"
    quantized=()
    for dtype in i8 u8 q8_0 u4 q4_0 q4_1 q4_k q5_k q6_k; do
        quantized+=(--shape "linear rows=1 in=512 out=96 dtype=$dtype" --shape "linear rows=40 in=512 out=96 dtype=$dtype")
    done
    expect 0 run "${quantized[@]}" --effort quick --threads 1 -o quantized
    has out '^linear rows 1, .*, i8 ' '^linear rows 9-64, .*, u4 ' '^linear rows 9-64, .*, q4_k ' ' in 16 classes'
    expect 0 "${small[@]}" --quiet
    [ ! -s out ] || fail "--quiet prints"
    expect 0 "${small[@]}" --json -o own
    python3 -c 'import json, sys; r = json.load(open("out")); assert r["threads"] == 1 and len(r["classes"]) == 2 and r["stored"]' ||
        fail "no JSON"
    sound own
    has own '^# Fovea [0-9.]+$'
    expect 0 check own --threads 1
    has out 'still faster: 1\.' '1 still faster, 0 no longer, 0 too noisy$'
    expect 0 show own --threads 1
    has out '^this is Fovea [0-9.]+, cpu vendor=' 'used by contexts that load this file'
    sed -e '1!s/kernels=[0-9a-f]*/kernels=0123456789abcdef/' -e 's/^# Fovea .*/# Fovea 9.8.7/' -e '$d' own >foreign && close foreign
    expect 0 show foreign
    has out 'not here: made for another build \(Fovea 9\.8\.7\)'
    expect 5 check foreign
    has err 'another build: Fovea 9\.8\.7 \(kernels=0123456789abcdef\); this is Fovea [0-9.]+ \(kernels='
    expect 0 show own --json
    python3 -c 'import json; r = json.load(open("out"))[0]; assert r["release"].count(".") == 2' || fail "no JSON"
    expect 0 merge own own -o both
    same_files own both "merged with itself it is another file"
    # Rows as the file of known CPUs has them: with its comments, but the one that this CPU has none; used as such a file.
    sed '/^cpu /,$d' "$(dirname "$0")/../src/tuning/known-cpus.tuning" >known && close known
    expect 0 merge --ship known own -o known
    sound known
    model=$(sed -n 's/^cpu \(vendor=.* model=[0-9]*\) stepping.*/\1/p' own | grep .)
    has known '^# SKIPPED vendor=' "^cpu $model isa=[^ ]+ features=[^ ]+$" '^attention_f32 isa=[a-z0-9]+ head_dim='
    lacks known "SKIPPED $model " ' threads=' ' stepping=' 'kernels='
    cp known before
    expect 0 merge --ship known own -o known
    same_files before known "merged again it is another file"
    expect 0 show known
    has out 'any number of threads: 1\.' 'used by contexts that load this file'
    expect 0 check known --threads 1
    has out '^1 of 1 row .* 1 still faster'
    sed -e '/^attention_f32/{p;s/ : [a-z_]*=[^ ]*/ : stages=9/}' -e '$d' known >unknown && close unknown
    expect 0 check unknown --threads 1
    has err '^fovea-tune: dropped: line [0-9]+: "stages" is not a known choice'
    FOVEA_KNOWN_CPUS=$PWD/unknown XDG_CACHE_HOME=$PWD/nowhere
    unset FOVEA_TUNING_FILE
    expect 0 show
    has out "^$PWD/unknown: 2 rows" '^ +dropped: line [0-9]+: "stages"'
    export FOVEA_TUNING_FILE= FOVEA_KNOWN_CPUS= XDG_CACHE_HOME=$SCRATCH/cache
    expect 0 report own -o page.html --threads 1
    has page.html '<td>attention rows 17-64.*<td>.*% \(.*<td>.*tile_rows=[0-9]+.*</td>' '</html>' \
        '--attention:#0072b2' 'Fovea [0-9.]+ \(kernels=[0-9a-f]{16}\)' # colours of palette.h
    lacks page.html 'hsl\(' '(src|href)=' # no colours of its own, nothing from elsewhere
    program=$TUNE # on this machine, whatever it finds
    expect '0|3' run "${small[@]}" --budget 2s -o real
    has out 'Stored in real\.$|^Nothing was stored'
    [ ! -e real ] || sound real
    ;;

noisy) # what cannot be told is said, early, and nothing else is; no figure where every sample was interrupted
    program=$SIMULATED
    shapes=(--preset minilm,gpt2 --threads 1 --budget 60s)
    FOVEA_TUNE_WEATHER=busy expect 3 run "${shapes[@]}" -o none
    has out 'too busy to tune: the same work takes [0-9.]+ times as long .* Waiting' 'Nothing is measured\.$' \
        '^No class could be measured, [0-9]+ too noisy to tell\.$' '^Nothing was stored, and programs run as before'
    FOVEA_TUNE_WEATHER=busy expect 3 run "${shapes[@]}" -o none --json
    python3 -c 'import json; r = json.load(open("out")); assert not r["stored"] and "noisy" in r["classes"][-1]["verdict"]' ||
        fail "no JSON"
    FOVEA_TUNE_WEATHER=busy expect 3 run "${shapes[@]}" -o none --quiet
    [ ! -s out ] || fail "--quiet prints"
    for weather in interrupted stolen; do
        FOVEA_TUNE_WEATHER=$weather expect 3 run "${shapes[@]}" -o none
        has out '^No class could be measured, [0-9]+ too noisy to tell\.$' \
            '^Ended early, after ([6-9]|1[0-9]) s: the first [5-9] classes were all too noisy to tell\.$' # of 60
    done
    [ ! -e none ] || fail "a file of nothing was written"
    linear=()
    for rows in 1 3 9 20 100 300 2000; do
        linear+=(--shape "linear rows=$rows in=96 out=64")
    done
    FOVEA_TUNE_WEATHER=clouds expect 3 run "${linear[@]}" --threads 1 -o none # most of them in the clouds
    has out '^[1-3] of [67] classes keeps? the default: no faster choice was confirmed there, [3-6] too noisy to tell\.$' \
        '^linear .* not stored: too noisy to tell' '^linear .* default (kept|confirmed as best)'
    lacks out 'serve this machine well' # which is said of all classes
    expect 0 run "${linear[@]}" --threads 1 -o none
    has out '^The defaults serve this machine well: no faster choice was confirmed in [67] classes\. Stored in none\.$'
    # Standard output is a sound file nevertheless: a shell has made one already.
    FOVEA_TUNE_WEATHER=busy expect 3 run "${shapes[@]}" -o -
    sound out && cp out nothing
    has err 'Nothing was stored: the file on standard output has no rows'
    expect 0 run "${shapes[@]}" -o own
    : >empty
    expect 0 merge empty nothing own empty -o both
    [ "$(grep -c '^fovea-tune: empty is empty: skipped$' err)" = 2 ] || fail "an empty file is not named"
    same_files own both "empty files change the others"
    expect 4 merge empty empty -o neither
    has err 'all files are empty: nothing was written'
    [ ! -e neither ] || fail "a file of nothing was written"
    expect 4 merge own nowhere -o neither
    ;;

progress) # on a terminal of 64 columns: a line that fits, says what is done, and goes when it is over
    cat >terminal.py <<'END'
import fcntl, os, pty, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 64, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
shown = b""
try:
    while piece := os.read(terminal, 4096):
        shown += piece
except OSError:  # how Linux says that all is read
    pass
os.write(1, shown)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
END
    TERM=xterm python3 terminal.py "$SIMULATED" "${small[@]}" --budget 3s -o own >out 2>err || fail "on a terminal: status $?"
    grep -o $'\r\033\\[K\\[[^\r]*' out | tr -d '\r' | sed 's/\x1b\[K//' >lines
    has lines '^\[[#.]{16}\] 1/2, [0-9]+ s left, best \+[0-9.]+ %: noise of lin' '2/2' 'candidates of'
    [ "$(sed 's/.*\x1b\[K//' out | grep -cE '^(attention|linear) rows')" = 2 ] || fail "not one line for each class"
    [ "$(wc -L <lines)" -le 63 ] || fail "wider than the terminal: $(cat lines)"
    tail -1 out | sed 's/.*\x1b\[K//' >last
    lacks last '\['
    TERM=dumb python3 terminal.py "$SIMULATED" "${small[@]}" --budget 3s -o own >out 2>err
    lacks out $'\033' # which a dumb terminal does not know
    ;;

check) # rows that are not faster are never called so, and rows for others are said to be
    program=$SIMULATED
    linear='in=1..1024 out=1..1024 rows=17..64 :'
    isa=$(tier_here)
    echo "linear_f32 isa=$isa threads=1 $linear $evidence" | made same
    echo "linear_f32 isa=$isa threads=1 $linear k_block=1 $evidence" | made slow
    echo "linear_f32 isa=$isa threads=2 $linear $evidence" | made others
    expect 1 check same --threads 1 --budget 3s --effort quick
    has out 'line 3 +no longer faster: 1\.000 times' 'of 1 row '
    expect 1 check slow --threads 1 --budget 3s --effort quick
    has out 'line 3 +no longer faster' 'of 1 row '
    FOVEA_TUNE_WEATHER=interrupted expect 3 check slow --threads 1 --budget 3s --effort quick
    has out 'line 3 +too noisy to tell' '0 no longer, 1 too noisy$'
    expect 5 check others --threads 1
    has err '1 row .* for other tiers or numbers of threads: here it is tier [a-z0-9]+ and 1 thread'
    made none-faster </dev/null
    expect 0 check none-faster
    has out 'the default is best|defaults are best'
    ;;

ggml) # a run over the default shapes ends with fovea-tune-ggml, which is made up here
    program=$SIMULATED
    mkdir beside
    printf '#!/bin/sh\necho of ggml "$@"\nexit ${GGML_STATUS-0}\n' >beside/fovea-tune-ggml
    chmod +x beside/fovea-tune-ggml
    run=(run --budget 1s --effort quick -o own)
    FOVEA_TUNE_GGML=beside/fovea-tune-ggml expect 0 "${run[@]}"
    [ "$(tail -1 out)" = 'of ggml -o own' ] || fail "not run, or not last: $(tail -1 out)"
    while read -r words; do # what is no such run, or may print no such thing
        # shellcheck disable=SC2086
        FOVEA_TUNE_GGML=beside/fovea-tune-ggml expect '0|3' run --budget 1s --effort quick $words
        ! grep 'of ggml' out || fail "$words: it is run, or its words are on the standard output"
        case $words in
        *--json*) has err 'of ggml -o own' ;;
        *) ! grep 'of ggml' err || fail "$words: it is run" ;;
        esac
    done <<'END'
-o own --json
-o own --quiet
-o own --threads 1
-o own --isa scalar
-o own --preset minilm
-o own --shape q_heads=2
-o own --dry-run
-o -
END
    for status in 1 4 127; do
        GGML_STATUS=$status FOVEA_TUNE_GGML=beside/fovea-tune-ggml expect 4 "${run[@]}"
        has err "fovea-tune-ggml failed: exit status $status\$"
    done
    GGML_STATUS=3 FOVEA_TUNE_GGML=beside/fovea-tune-ggml expect '0|3' "${run[@]}"
    FOVEA_TUNE_GGML=nowhere/ggml expect 4 "${run[@]}"
    has err '^fovea-tune: FOVEA_TUNE_GGML: nowhere/ggml: No such file'
    expect '0|3' "${run[@]}"
    lacks out ggml
    unset FOVEA_TUNE_GGML
    expect '0|3' "${run[@]}"
    has out '^ggml was not tuned: fovea-tune-ggml is not in fovea-tune.s folder'
    ln -s "$SIMULATED" beside/fovea-tune
    program=beside/fovea-tune expect 0 "${run[@]}"
    has out '^of ggml -o own$'
    ;;

log) # shapes that a program wrote down while it ran (LOGGER)
    program=$SIMULATED
    FOVEA_LOG_SHAPES=log "$LOGGER" >/dev/null || fail "$LOGGER does not run"
    expect 0 run --dry-run --log log --threads 1
    has out '^attention rows 257-1023, keys 257-1023, d64, causal +search on b1_h[0-9]+_q300_kv300_d64_causal'
    [ "$(grep -c 'search on' out)" = 2 ] || fail "other classes than those of the log"
    expect 0 run --log log --effort quick --threads 1 -o own
    has out 'attention rows 257-1023'
    echo 'attention q_heads=none' >>log
    expect 2 run --dry-run --log log
    has err 'log'
    ;;

decode) # a program that decodes (LOGGER) logs shapes of few rows
    program=$SIMULATED
    FOVEA_LOG_SHAPES=log "$LOGGER" >/dev/null || fail "$LOGGER does not run"
    grep q_len=1 log >one
    expect 0 run --dry-run --log one --threads 1
    has out '^attention rows 2-4, keys 0-64, d16, group 2-4 +search on b1_h[0-9]+-[0-9]+_q1_kv64_d16'
    expect 0 run --log one --effort quick --threads 1 -o own
    has out 'attention rows 2-4, .* candidate'
    ;;

no-shapes) # logs and words that are no shapes: a sentence, or told to be skipped; never a default shape instead
    for wrong in '' ' ' , attention 'attention ' 'linear ' $'\t'; do
        expect 2 --dry-run --shape "$wrong"
        has err 'fovea-tune'
    done
    shape='attention q_heads=2 q_len=40 head_dim=32'
    printf '%s\n\n \t\n\0\0\0\0\nlinear rows=3 in=5 out=7\r\n\0\0%s\n%s' "$shape" "$shape" "$shape" >log
    expect 0 --dry-run --log log --threads 1
    has err 'log: skipped 4 of 7 lines, blank or not text; the first is line 2'
    has out '^attention rows 17-64, keys 0-64, d32 ' '^linear rows 2-4, in 1-255, out 1-255 ' '^2 classes'
    printf '\0\0\n\n' >nuls
    expect 2 --dry-run --log nuls
    has err 'skipped 2 of 2' 'nuls: it contains no shapes'
    printf '%s\nheads=3\n' "$shape" >broken
    expect 2 --dry-run --log broken
    has err 'broken line 2: unknown key "heads"; known are batch q_heads'
    mkfifo fifo
    for wrong in fifo "$PWD" /dev/zero; do
        expect 2 --dry-run --log "$wrong"
        has err "$wrong is not a regular file"
    done
    head -c 17000000 /dev/zero >large
    expect 2 --dry-run --log large
    has err 'larger than'
    ;;

files) # files that are unavailable, or not for this machine
    program=$SIMULATED
    expect 4 show nowhere
    expect 5 check nowhere
    has err 'nowhere'
    printf 'fovea-tuning 4\ncut' >cut
    expect 5 check cut
    has err 'line 2'
    expect 4 run "${small[@]}" --budget 2s -o cut # what is no tuning file is left alone
    [ "$(cat cut)" = $'fovea-tuning 4\ncut' ] || fail "a file that is none was replaced"
    # A file of an older version holds nothing that this build can use: it is replaced. One of a newer version is not.
    echo 'fovea-tuning 1' >old && close old
    expect 5 check old
    has err 'version 1'
    expect 0 run "${small[@]}" -o old
    sound old
    made own </dev/null
    { echo 'fovea-tuning 5' && sed -n 2p own && echo 'numa : nodes=2'; } >new && close new
    cp new kept
    expect 4 run "${small[@]}" --budget 2s -o new
    has err 'the file is of version 5, this library knows version 4'
    same_files new kept "a newer file was replaced"
    expect 4 run "${small[@]}" --budget 2s -o /proc/nowhere/tuning
    has err 'output'
    # A name that is no file is reported before the budget is spent.
    SECONDS=0
    for wrong in / . folder/; do
        expect 4 run "${small[@]}" --budget 60s -o $wrong
        expect 4 report -o $wrong
        has err "\"$wrong\" names a folder"
    done
    [ $SECONDS -lt 60 ] && [ ! -e folder ] || fail "a folder's name was found late ($SECONDS s)"
    expect 4 merge cut -o other
    # A run replaces what it decided, and leaves the rest: rows of other threads, rows of what it could not tell.
    isa=$(tier_here)
    rows() { # for the linear map of small
        for threads in 1 2; do
            echo "linear_f32 isa=$isa threads=$threads in=1..1024 out=1..1024 rows=17..64 : k_block=7 $evidence"
        done
    }
    rows | made own
    cp own old
    FOVEA_TUNE_WEATHER=interrupted expect 3 run "${small[@]}" -o own
    same_files own old "what could not be told replaces a row"
    expect 0 run "${small[@]}" -o own
    has out '^linear .* default (kept|confirmed as best)'
    has own '^linear_f32 isa=.* threads=2' '^attention_f32 .* threads=1'
    lacks own '^linear_f32 .* threads=1' # where the default was confirmed
    # A folder that the user names is not made: it may be misspelt. The usual one is.
    for command in 'run --budget 60s' 'report' 'merge sound'; do
        made sound </dev/null
        # shellcheck disable=SC2086
        expect 4 $command -o folder/file
        has err 'folder/file: its folder does not exist'
    done
    [ ! -e folder ] || fail "a folder was made"
    expect 0 run "${small[@]}" --quiet
    sound cache/fovea/tuning
    # A long name is taken whole, and one that is too long is refused, by whoever writes and whoever reads.
    long=$PWD/$(printf '%0200d/%0200d/%0200d' 1 2 3)
    mkdir -p "$long/fovea"
    expect 0 merge sound -o "$long/fovea/tuning"
    same_files sound "$long/fovea/tuning" "a long name is not the file's"
    (
        unset FOVEA_TUNING_FILE
        export XDG_CACHE_HOME=$long
        expect 0 show
        has out "$long/fovea/tuning: 0 rows"
    ) || exit 1
    expect 0 run "${small[@]}" -o "$long/own"
    sound "$long/own"
    expect 4 merge "$long/tuning" -o "$long/$long/$long/$long/$long/$long/$long/$long"
    # A shape that no memory holds is said so, not tried.
    expect 4 run --shape 'linear rows=1 in=1000000000000 out=10' --budget 1s -o huge
    has out 'not stored: larger than memory allows' 'Nothing was stored'
    # A log without shapes, and one that is none.
    : >empty
    expect 2 run --log empty --budget 2s -o other
    has err 'empty: it contains no shapes'
    expect 2 --dry-run --log .
    has err 'names a folder'
    ;;

output) # to the standard output, where nothing can be written; a page that cannot be written leaves the old one
    program=$SIMULATED
    made sound </dev/null
    expect 0 merge sound -o -
    same_files sound out "merge -o - is not the file"
    expect 0 run "${small[@]}" -o -
    sound out
    has err 'machine' 'linear rows 17-64'
    [ ! -e - ] || fail "a file was written"
    expect 2 run "${small[@]}" --json -o -
    expect 0 report sound -o -
    tail -1 out | grep -q '</html>' || fail "the page is not whole"
    cp sound '<b>&.tuning'
    expect 0 report '<b>&.tuning' -o page.html
    has page.html '&#60;b&#62;&#38;.tuning: 0 of the 0 rows'
    echo old >page.html
    (
        trap '' XFSZ
        ulimit -f 1
        expect 4 report sound -o page.html
    ) || exit 1
    has err 'left as it was'
    [ "$(cat page.html)" = old ] || fail "the old page is gone"
    ;;

home) # no HOME at all
    (
        unset XDG_CACHE_HOME HOME
        expect 4 show
        has err 'no tuning file|/etc/fovea'
    ) || exit 1
    ;;

locked) # a folder where nothing may be written: to root there is none, so it runs as nobody, if nobody may run it
    mkdir locked && chmod 555 locked
    if [ "$(id -u)" = 0 ]; then
        nobody=(setpriv --reuid=65534 --clear-groups)
        "${nobody[@]}" "$TUNE" --help >/dev/null 2>&1 || exit 77
        status=0
        "${nobody[@]}" "$TUNE" run "${small[@]}" --budget 2s -o "$PWD/locked/tuning" >out 2>err || status=$?
        [ $status = 4 ] || fail "status $status, not 4, where nothing may be written"
    else
        expect 4 run "${small[@]}" --budget 2s -o locked/tuning
    fi
    [ ! -e locked/tuning ] || fail "something was written"
    ;;

interrupt) # a signal keeps what was proved: the file is whole, and the status tells; under nohup a hang-up is none
    export FOVEA_TUNE_WEATHER=slow
    for signal in INT TERM HUP; do
        : >out # else what the signal before left says that it has begun
        "$SIMULATED" --budget 60s --threads 1 --preset minilm -o kept >out 2>err &
        pid=$!
        for ((i = 0; i < 300; i++)); do # until it has begun
            ! grep -q 'classes of shapes' out || break
            sleep 0.1
        done
        has out 'classes of shapes'
        kill -$signal $pid
        status=0
        wait $pid || status=$?
        [ $status = 130 ] || fail "SIG$signal: status $status"
        has out '^(The defaults serve|No class could)|of .* class(es)? (ha(s|ve)|keeps?) '
        [ ! -e kept ] || sound kept
    done
    (trap '' HUP && exec "$SIMULATED" "${small[@]}" --budget 2s -o kept >out 2>err) &
    pid=$!
    sleep 0.5
    kill -HUP $pid
    status=0
    wait $pid || status=$?
    [ $status = 0 ] || fail "nohup: status $status"
    sound kept
    ;;

two) # at once, into one file
    export FOVEA_TUNE_WEATHER=slow
    "$SIMULATED" --budget 2s --shape 'q_heads=2 q_len=64 head_dim=32' --threads 1 -o shared >out 2>err &
    "$SIMULATED" --budget 2s --shape 'q_heads=2 q_len=64 head_dim=64' --threads 1 -o shared >out2 2>err2 || fail "status $?"
    wait $! || fail "status $?"
    sound shared
    [ "$(grep -c '^attention_f32' shared)" = 2 ] || fail "rows of one of the two are lost"
    ;;

machine) # what is found on the described machine, and the file: as NAME.tuned has them. WRITE=1 writes that
    program=$SIMULATED
    expect '0|77' run --help
    grep -q '^usage' out || { cat err && exit 77; } # kernels that this build has not got
    record=${FOVEA_TUNE_MACHINE%.txt}.tuned
    shapes=(--preset minilm)
    for dtype in f32 bf16 f16 i8 q8_0 q4_k; do
        shapes+=(--shape "linear rows=1 in=512 out=96 dtype=$dtype" --shape "linear rows=40 in=512 out=96 dtype=$dtype")
    done
    for arithmetic in exact bf16 fastest; do
        shapes+=(--shape "q_heads=9 kv_heads=3 q_len=200 head_dim=64 dtype=bf16 arithmetic=$arithmetic")
    done
    shapes+=(--shape 'q_heads=32 kv_heads=8 q_len=1 kv_len=500 head_dim=64' --shape 'q_heads=2 q_len=64 head_dim=32')
    {
        expect 0 run --dry-run --preset minilm
        cat out
        expect 0 run "${shapes[@]}" --threads 1 --effort quick -o tuning
        cat out
        sed -e 's/kernels=[0-9a-f]*/kernels=*/; s/sum=[0-9a-f]*/sum=*/; s/^# Fovea .*/# Fovea */' tuning
    } >got || exit 1
    [ -z "${WRITE-}" ] || cp got "$record"
    diff "$record" got >difference || fail "not as in $record: $(head -20 difference)"
    ;;

*)
    fail "unknown step $step"
    ;;
esac
