#!/usr/bin/env bash
# test.sh PROGRAM TEST-GENERATE-SETTINGS: the command line of fovea-generate on the tiny model of make_gguf.h, whose
# answers make no sense. Run by ctest, which sets SCRATCH, a folder of its own.
step=generate name=fovea-generate program=$1
. "$(dirname "$0")/../../tests/support/program.sh"
"$2" --write tiny.gguf >out 2>err || fail "no model"
tiny=(--model tiny.gguf --type f32 --threads 1)
hash_of() { sed -n 's/^logits   hash //p' out; }

expect 0 "${tiny[@]}" --tokens 5 ab
has out '^cut off  after 5 tokens; --tokens allows more$' '^logits   hash [0-9a-f]{16}$'
has err '^fovea-generate: tiny.gguf: recommends general.sampling.temp, which is not used: options say how'
[ "$(wc -l <err)" = 1 ] || fail "more on standard error"
words=$(hash_of)

# - is standard input, without the line end at its end; several words are one text.
printf 'ab\n' | expect 0 "${tiny[@]}" --tokens 5 -
same "standard input is another prompt" "$(hash_of)" "$words"
printf 'ab\r\n' | expect 0 "${tiny[@]}" --tokens 5 -
same "standard input with a carriage return is another prompt" "$(hash_of)" "$words"
expect 0 "${tiny[@]}" --tokens 5 a b
differ "a b is ab" "$(hash_of)" "$words"
expect 0 "${tiny[@]}" --tokens 5 - ab </dev/null # - itself is no token of the tiny model
same "- among words is standard input" "$(hash_of)" "$words"

# A file is a prompt, too.
printf 'ab\n' >prompt.txt
expect 0 "${tiny[@]}" --tokens 5 --file prompt.txt
same "a file is another prompt" "$(hash_of)" "$words"
expect 2 "${tiny[@]}" --file prompt.txt ab
has err 'cannot be combined with another'
expect 1 "${tiny[@]}" --file nowhere.txt
has err '^fovea-generate: nowhere.txt: '

# Several prompts at once have the answers that they have alone, in their order, whatever their number.
printf 'ab\n\nc\r\nba\nabc\ns\n' >prompts.txt
for many in 1 2 3 5 64; do
    expect 0 "${tiny[@]}" --tokens 7 --parallel $many --file prompts.txt
    has out '^cut off  [1-5] of 5 answers after 7 tokens; --tokens allows more$'
    sed '/^\[5\]/q' out >"answers.$many"
    hash_of >>"answers.$many"
    same_files "answers.$many" answers.1 "$many at once answer otherwise"
done
expect 0 "${tiny[@]}" --tokens 7 --parallel 3 - <prompts.txt
same "lines of standard input are other prompts" "$(hash_of)" "$(tail -1 answers.1)"
line=0
for prompt in ab c ba abc s; do
    line=$((line + 1))
    expect 0 "${tiny[@]}" --tokens 7 --ids "$prompt"
    alone=$(head -1 out)
    expect 0 "${tiny[@]}" --tokens 7 --ids --parallel 2 --file prompts.txt
    same "$prompt alone has another answer" "$(sed -n "s/^\[$line\]/ids:/p" out)" "ids: $alone"
done

# A prompt of words is answered as often as that, by seeds that follow each other.
expect 0 "${tiny[@]}" --tokens 7 --ids --parallel 3 --temperature 2 --top-p 1 --seed 4 ab
cp out three
for seed in 4 5 6; do
    expect 0 "${tiny[@]}" --tokens 7 --ids --temperature 2 --top-p 1 --seed $seed ab
    same "seed $seed draws otherwise in a row" \
        "$(sed -n "s/^\[$((seed - 3))\]/ids:/p" three)" "ids: $(head -1 out)" # of none, too
done

# Strings that end an answer are no part of it; options that draw do something.
expect 0 "${tiny[@]}" --tokens 40 ab
whole=$(sed '/^cut off/,$d' out | tr -d '\n')
part=${whole:3:2}
expect 0 "${tiny[@]}" --tokens 40 --stop 'zz' --stop "$part" ab
same "--stop \"$part\" does not end \"$whole\"" "$(sed '/^avx\|^scalar\|^neon/,$d' out | tr -d '\n')" "${whole%%"$part"*}"
expect 2 "${tiny[@]}" --stop '' ab
expect 2 "${tiny[@]}" --repetition-penalty 0 ab
has err 'needs a number above 0'
expect 0 "${tiny[@]}" --tokens 12 --ids ab
head -1 out >plain
expect 0 "${tiny[@]}" --tokens 12 --ids --repetition-penalty 5 ab
differ "--repetition-penalty does nothing" "$(head -1 out)" "$(cat plain)"
for rule in '--top-k 1' '--min-p 1' '--top-p 0'; do
    # shellcheck disable=SC2086
    expect 0 "${tiny[@]}" --tokens 12 --ids --temperature 3 $rule ab
    same "$rule draws another than the most likely" "$(head -1 out)" "$(cat plain)"
done
expect 2 "${tiny[@]}" --parallel 65 ab
expect 2 "${tiny[@]}" --perplexity tiny.gguf --parallel 2
has err 'takes neither --parallel nor --stop'

# An empty prompt is an error, not another prompt; that is known before the model is read.
expect 2 --model nowhere ''
has err '^fovea-generate: the prompt is empty$'
expect 2 --model nowhere - </dev/null
has err '^fovea-generate: the prompt is empty$'

# The context: at most the model's; an answer that ends with it says so; a prompt that does not fit is refused.
expect 2 "${tiny[@]}" --context 65 ab
has err '^fovea-generate: --context 65: the model reads at most 64 tokens$'
expect 0 "${tiny[@]}" --context 24 ab
has out '^cut off  because the context of 24 tokens is full; --context makes room for more$'
expect 0 "${tiny[@]}" ab
has out 'the context of 64 tokens is full'
expect 1 "${tiny[@]}" --context 8 ab
has err 'the prompt does not fit into the context of 8 tokens; --context makes room for more, up to 64$'

# Bytes that are not UTF-8 are replaced, with a word about it.
expect 0 "${tiny[@]}" --tokens 5 $'a\xff\xe2\x82b'
has err '^fovea-generate: the prompt is not UTF-8: 3 bytes were replaced by U.FFFD$'
replaced=$(hash_of)
expect 0 "${tiny[@]}" --tokens 5 $'a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbdb'
same "U+FFFD is not what bytes are replaced by" "$(hash_of)" "$replaced"
lacks err UTF-8
printf 'a\0b' | expect 0 "${tiny[@]}" --tokens 5 -
has err '^fovea-generate: the prompt is not UTF-8: 1 byte was replaced'
expect 0 "${tiny[@]}" --tokens 5 --system $'\xff' ab
has err '^fovea-generate: the system message is not UTF-8: 1 byte was replaced'

# Options that would be ignored are refused.
expect 2 "${tiny[@]}" --plain --system ab ab
has err 'cannot be combined with --system'
expect 2 "${tiny[@]}" --perplexity tiny.gguf ab
has err 'takes neither a prompt nor --system'

# Chats of other kinds are refused by the setting's name; without a template, the prompt is continued.
"$2" --write other.gguf --template '[INST] {{ messages }}' >out 2>err || fail "no model"
expect 1 --model other.gguf --threads 1 ab
has err '^fovea-generate: other.gguf: tokenizer.chat_template is not ChatML, and none of those that Llama 3.*--plain'
expect 0 --model other.gguf --type f32 --threads 1 --tokens 5 --plain ab
words=$(hash_of)
"$2" --write none.gguf --template '' >out 2>err || fail "no model"
expect 0 --model none.gguf --type f32 --threads 1 --tokens 5 ab
same "without a template, the prompt is not continued" "$(hash_of)" "$words"
expect 1 --model none.gguf --system ab ab
has err '^fovea-generate: --system needs a chat, but the model has no chat template$'

# Models with experts: several prompts at once have the answers that they have alone, and receipts verify.
here=$(dirname "$0")/tiny
printf 'ab\ncab\nbbbb\na\n' >few.txt
for model in qwen3moe gptoss qwen35 qwen35moe qwen3next; do
    tiny=(--model "$here/$model.gguf" --threads 1)
    expect 0 "${tiny[@]}" --type f32 --tokens 9 --parallel 1 --file few.txt
    words=$(hash_of)
    for many in 2 3 4; do
        expect 0 "${tiny[@]}" --type f32 --tokens 9 --parallel $many --file few.txt
        same "$model: $many at once answer otherwise" "$(hash_of)" "$words"
    done
    rm -f receipt
    expect 0 "${tiny[@]}" --tokens 9 --receipt receipt --parallel 3 --file few.txt
    FOVEA_ISA=scalar expect 0 --verify receipt "${tiny[@]}"
done

# A full disk ends the answer at once.
if [ -c /dev/full ]; then
    status=0
    "$program" "${tiny[@]}" ab >/dev/full 2>err || status=$?
    [ $status = 1 ] || fail "a full disk is no error"
    has err '^fovea-generate: standard output was not written completely'
fi
